// SPDX-License-Identifier: MIT OR Apache-2.0

//! Reads a configuration, and reports in one line what is wrong with it and where.

use crate::declare::Setting;
use crate::fault::Fault;
use crate::place::Position;
use crate::reading::{Flaw, read};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// Why a configuration cannot be used: one line, which says what to change and includes the cause, so that none has
/// a source.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read configuration {path}: {reason}; name a readable file with --config")]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: std::io::Error,
    },
    /// The file is not a configuration.
    #[error("configuration {path}, {flaw}")]
    Flaw {
        /// The file.
        path: PathBuf,
        /// The flaw and its place.
        flaw: Flaw,
    },
    /// A value contradicts another.
    #[error("configuration{}: {fault}", shown_place(.path.as_deref(), *.position))]
    Value {
        /// The file, if there is one.
        path: Option<PathBuf>,
        /// The place in the file, if the file has the key.
        position: Option<Position>,
        /// The fault at that place.
        fault: Box<Fault>,
    },
    /// The configuration cannot be written as TOML.
    #[error("the configuration cannot be printed: {0}")]
    Print(toml::ser::Error),
}

fn shown_place(path: Option<&Path>, position: Option<Position>) -> String {
    let path = path.map_or(String::new(), |path| format!(" {}", path.display()));
    position.map_or(path.clone(), |position| format!("{path}, {position}"))
}

/// What a file configures: a section whose keys are sections.
pub trait Configuration: Setting + Default + Serialize + DeserializeOwned {
    /// Checks what the keys' types do not.
    ///
    /// # Errors
    /// If values contradict each other.
    fn validate(&self) -> Result<(), Fault>;
}

/// A configuration and the file that it was read from.
#[derive(Debug, Default)]
pub struct ConfigFile<C> {
    path: Option<PathBuf>,
    text: String,
    /// The configuration. The caller may change it, as the command line does.
    pub config: C,
}

impl<C: Configuration> ConfigFile<C> {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|reason| ConfigError::Read { path: path.to_owned(), reason })?;
        let config: C =
            read(&text).map_err(|flaw| ConfigError::Flaw { path: path.to_owned(), flaw })?;
        let file = Self { path: Some(path.to_owned()), text, config };
        file.config.validate().map_err(|fault| file.error(fault))?;
        Ok(file)
    }

    /// An error for a fault of the configuration, with the fault's place in the file.
    #[must_use]
    pub fn error(&self, fault: Fault) -> ConfigError {
        let keys = [Some(&fault.key), fault.cause.as_ref()];
        let position = keys.into_iter().flatten().find_map(|key| key.find(&self.text));
        ConfigError::Value { path: self.path.clone(), position, fault: Box::new(fault) }
    }

    /// The whole configuration as TOML, which reads back to an equal one.
    ///
    /// # Errors
    /// If a path in it is not UTF-8.
    pub fn to_toml(&self) -> Result<String, ConfigError> {
        toml::to_string(&self.config).map_err(ConfigError::Print)
    }
}
