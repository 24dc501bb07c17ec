//! Reading a configuration, and saying in one line what is wrong with it and where.

use super::Config;
use super::place::{KeyPath, Position};
use super::rules::{Fault, range, shown};
use std::path::{Path, PathBuf};

/// Why a configuration cannot be used. One line, which says what to change.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read configuration {path}: {source}; name a readable file with --config")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is not TOML, or has a key or a type that does not exist here.
    #[error("configuration {path}, {position}: {message}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where in it.
        position: Position,
        /// What is wrong there.
        message: String,
    },
    /// A value is not one that its key can have.
    #[error("configuration{}: {fault}", shown_place(.path.as_deref(), *.position))]
    Value {
        /// The file, if there is one.
        path: Option<PathBuf>,
        /// Where in it, if it has the key.
        position: Option<Position>,
        /// What is wrong there.
        #[source]
        fault: Box<Fault>,
    },
    /// It cannot be shown as TOML.
    #[error("the configuration cannot be printed: {0}")]
    Print(#[from] toml::ser::Error),
}

fn shown_place(path: Option<&Path>, position: Option<Position>) -> String {
    let path = path.map_or(String::new(), |path| format!(" {}", path.display()));
    position.map_or(path.clone(), |position| format!("{path}, {position}"))
}

/// A configuration and the file that it is from.
#[derive(Debug, Default)]
pub struct ConfigFile {
    path: Option<PathBuf>,
    text: String,
    /// What it says. Others may have the last word on some of it, as a command line has.
    pub config: Config,
}

impl ConfigFile {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        let config = parse(path, &text)?;
        let file = Self { path: Some(path.to_owned()), text, config };
        file.config.validate().map_err(|fault| file.error(fault))?;
        Ok(file)
    }

    /// A fault of it, with where it is.
    #[must_use]
    pub fn error(&self, fault: Fault) -> ConfigError {
        let keys = [Some(&fault.key), fault.cause.as_ref()];
        let position = keys.into_iter().flatten().find_map(|key| key.find(&self.text));
        ConfigError::Value { path: self.path.clone(), position, fault: Box::new(fault) }
    }

    /// The whole configuration as TOML, which reads back to the same.
    ///
    /// # Errors
    /// When a path in it is not UTF-8.
    pub fn to_toml(&self) -> Result<String, ConfigError> {
        Ok(toml::to_string(&self.config)?)
    }
}

fn parse(path: &Path, text: &str) -> Result<Config, ConfigError> {
    toml::from_str(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        let position = Position::at(text, offset);
        let line = text.lines().nth(position.line - 1).unwrap_or_default().trim();
        let mut message = format!("{}, in {line:?}", error.message().replace('\n', "; "));
        let key = KeyPath::containing(text, offset);
        if let Some((key, range)) = key.and_then(|key| range(&key).map(|range| (key, range))) {
            message += &format!("; {key} must be {}", shown(&range));
        }
        ConfigError::Parse { path: path.to_owned(), position, message }
    })
}
