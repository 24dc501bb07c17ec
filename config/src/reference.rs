// SPDX-License-Identifier: MIT OR Apache-2.0

//! What people read about declared keys: a table for a document, and a file to install. Tests compare both with what stands in
//! the repository.

use crate::declare::{Key, Kind};
use crate::file::Configuration;
use std::fs;
use std::ops::Range;
use std::path::Path;

/// The environment variable that makes [`compare`] rewrite a differing file.
const BLESS: &str = "BELLHOP_BLESS";
/// The maximum line width of an installed file.
const WIDTH: usize = 100;

/// A list of tables, by its keys' names such as `adapter.displays`, with one of its tables.
pub type Listed<'l> = (&'l str, toml::Table);

/// Why there is no reference.
#[derive(Debug, thiserror::Error)]
pub enum ReferenceError {
    /// Defaults cannot be written as TOML.
    #[error("the defaults cannot be written: {0}")]
    Defaults(#[from] toml::ser::Error),
    /// The file cannot be read or written.
    #[error("{0}")]
    File(#[from] std::io::Error),
    /// The file lacks the part.
    #[error("the part that is compared is not there")]
    Missing,
    /// The file has another text.
    #[error("{0:?} stands where {1:?} is declared; {BLESS}=1 rewrites it")]
    Differs(String, String),
}

fn keys_of(kind: Kind) -> &'static [Key] {
    match kind {
        Kind::Section(keys) => keys,
        Kind::Map(entry) => keys_of(*entry),
        Kind::Value { .. } => &[],
    }
}

fn range(key: &Key) -> String {
    match key.kind {
        Kind::Value { range, .. } => range(),
        Kind::Section(_) | Kind::Map(_) => String::new(),
    }
}

fn about(key: &Key) -> String {
    key.about.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

fn listed<'l>(lists: &'l [Listed<'_>], name: &str) -> Option<&'l toml::Table> {
    lists.iter().find(|(list, _)| *list == name).map(|(_, table)| table)
}

fn row(name: &str, key: &Key, default: Option<&toml::Value>) -> String {
    let default = default.map(|default| format!("`{default}`")).unwrap_or_default();
    format!("| `{name}` | {default} | {} | {} |\n", range(key), about(key))
}

fn rows(of: &str, keys: &[Key], defaults: Option<&toml::Table>, lists: &[Listed<'_>]) -> String {
    let mut rows = String::new();
    for key in keys {
        let name = format!("{of}.{}", key.name);
        rows += &row(&name, key, defaults.and_then(|defaults| defaults.get(key.name)));
        if let Some(table) = listed(lists, &name) {
            rows += &self::rows(&format!("{name}[]"), keys_of(key.kind), Some(table), &[]);
        }
    }
    rows
}

/// A table of all keys with default, range and description. Of lists of tables it has those that are named, with their defaults.
///
/// # Errors
/// If the defaults cannot be written.
fn table<C: Configuration>(lists: &[Listed<'_>]) -> Result<String, ReferenceError> {
    let defaults = toml::Table::try_from(C::default())?;
    let mut table = "| key | default | range | what it is |\n|---|---|---|---|\n".to_owned();
    for section in keys_of(C::KIND) {
        let of = |table: Option<&toml::Table>, name: &str| {
            rows(name, keys_of(section.kind), table, lists)
        };
        match (section.kind, listed(lists, section.name)) {
            (Kind::Section(_), _) => {
                let own = defaults.get(section.name).and_then(toml::Value::as_table);
                table += &of(own, section.name);
            }
            (_, Some(entry)) => table += &of(Some(entry), &format!("{}[]", section.name)),
            _ => {}
        }
    }
    Ok(table)
}

fn comment(text: &str) -> String {
    let (mut lines, mut line) = (String::new(), "#".to_owned());
    for word in text.split(' ') {
        if line.len() + 1 + word.len() > WIDTH {
            lines += &line;
            lines.push('\n');
            line = "#".to_owned();
        }
        line += " ";
        line += word;
    }
    lines + &line + "\n"
}

fn shown(key: &Key, value: &toml::Value) -> String {
    let (mut text, range) = (comment(&about(key)), range(key));
    if !value.is_bool() && !range.is_empty() {
        text += &comment(&format!("Range: {range}."));
    }
    text + &format!("#{} = {value}\n", key.name)
}

/// A file with all keys, each with its description and, commented out, its default. Of lists of tables it has those that are
/// named, with an example.
///
/// # Errors
/// If the defaults cannot be written.
fn installed<C: Configuration>(
    heading: &[&str],
    examples: &[Listed<'_>],
) -> Result<String, ReferenceError> {
    let defaults = toml::Table::try_from(C::default())?;
    let mut text: String = heading.iter().map(|line| comment(line)).collect();
    for section in keys_of(C::KIND) {
        let about = comment(&about(section));
        let (header, values) = match listed(examples, section.name) {
            Some(example) => (format!("#[[{}]]", section.name), Some(example)),
            None => {
                let own = defaults.get(section.name).and_then(toml::Value::as_table);
                (format!("[{}]", section.name), own)
            }
        };
        text += &format!("\n{about}{header}\n");
        for key in keys_of(section.kind) {
            if let Some(value) = values.and_then(|values| values.get(key.name)) {
                text += &shown(key, value);
            }
        }
    }
    Ok(text)
}

/// The files of the repository that are generated from a configuration's declared keys.
#[derive(Debug, Clone)]
pub struct Generated<'g> {
    /// The document with the table of keys.
    pub document: &'static str,
    /// The file to install.
    pub installed: &'static str,
    /// How that begins.
    pub heading: [&'static str; 2],
    /// Lists of tables, with their defaults for the document.
    pub listed: Vec<Listed<'g>>,
    /// Lists of tables, with an example for the file to install.
    pub examples: Vec<Listed<'g>>,
}

impl Generated<'_> {
    /// Compares both files with the declaration.
    ///
    /// # Errors
    /// For the first line that differs.
    pub fn compare<C: Configuration>(&self) -> Result<(), ReferenceError> {
        compare(Path::new(self.document), table_in, &table::<C>(&self.listed)?)?;
        let whole = |text: &str| Some(0..text.len());
        compare(Path::new(self.installed), whole, &self.text::<C>()?)
    }

    /// The file to install.
    ///
    /// # Errors
    /// If the defaults cannot be written.
    pub fn text<C: Configuration>(&self) -> Result<String, ReferenceError> {
        installed::<C>(&self.heading, &self.examples)
    }

    /// The file to install, in which each key that is commented out counts.
    ///
    /// # Errors
    /// As [`Self::text`].
    pub fn uncommented<C: Configuration>(&self) -> Result<String, ReferenceError> {
        // A comment has a space after the `#`, a default has none.
        Ok(self.text::<C>()?.replace("\n#", "\n").replace("\n ", "\n# "))
    }
}

/// The table of keys in a document.
#[must_use]
fn table_in(text: &str) -> Option<Range<usize>> {
    let start = text.find("| key | default |")?;
    Some(start..start + text.get(start..)?.find("\n\n")? + 1)
}

/// Compares a part of a file with what it should be; or rewrites it where the environment asks for that.
///
/// # Errors
/// For the first line that differs.
fn compare(
    path: &Path,
    part: impl Fn(&str) -> Option<Range<usize>>,
    wanted: &str,
) -> Result<(), ReferenceError> {
    let text = fs::read_to_string(path)?;
    let part = part(&text).ok_or(ReferenceError::Missing)?;
    let around = (text.get(..part.start), text.get(part.clone()), text.get(part.end..));
    let (Some(before), Some(found), Some(after)) = around else {
        return Err(ReferenceError::Missing);
    };
    if found == wanted {
        return Ok(());
    }
    if std::env::var_os(BLESS).is_some() {
        return Ok(fs::write(path, [before, wanted, after].concat())?);
    }
    let (mut lines, mut declared) = (found.lines(), wanted.lines());
    loop {
        match (lines.next(), declared.next()) {
            (Some(line), Some(wanted)) if line == wanted => {}
            (line, wanted) => {
                let text = |line: Option<&str>| line.unwrap_or_default().to_owned();
                return Err(ReferenceError::Differs(text(line), text(wanted)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Count, Fault, Mib, at, section};

    section! {
        /// All.
        pub struct Whole {
            /// One thing.
            one: One;
            /// Several things.
            several: Vec<One>;
        }
    }

    section! {
        /// One thing.
        pub struct One {
            /// How many there are,
            /// at most.
            count: Count<1, 9> = at(3);
            /// How large each is.
            size: Mib<1, 64> = at(2);
        }
    }

    impl Configuration for Whole {
        fn validate(&self) -> Result<(), Fault> {
            Ok(())
        }
    }

    fn entry() -> toml::Table {
        toml::Table::try_from(One { count: at(7), ..One::default() }).unwrap()
    }

    #[test]
    fn a_table_has_a_row_for_each_key_and_for_those_of_listed_tables() {
        let table = table::<Whole>(&[("several", entry())]).unwrap();
        let rows: Vec<_> = table.lines().skip(2).collect();
        assert_eq!(rows[0], "| `one.count` | `3` | 1 to 9 | How many there are, at most. |");
        assert_eq!(rows[1], "| `one.size` | `\"2MiB\"` | 1MiB to 64MiB | How large each is. |");
        assert_eq!(rows[2], "| `several[].count` | `7` | 1 to 9 | How many there are, at most. |");
        assert_eq!(rows.len(), 4);
    }

    #[test]
    fn an_installed_file_says_everything_and_changes_nothing() {
        let text = installed::<Whole>(&["A heading."], &[("several", entry())]).unwrap();
        assert!(text.starts_with("# A heading.\n\n# One thing.\n[one]\n# How many"), "{text}");
        assert!(text.contains("# Range: 1 to 9.\n#count = 3\n"), "{text}");
        assert!(text.contains("\n#[[several]]\n") && text.contains("\n#count = 7\n"), "{text}");
        assert_eq!(crate::read::<Whole>(&text).unwrap(), Whole::default());
    }

    #[test]
    fn a_file_that_tells_otherwise_is_found_out_with_its_line() {
        let folder = std::env::temp_dir().join(format!("bellhop-config-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("document.md");
        fs::write(&path, "x\n\n| key | default |\na\nb\n\ny\n").unwrap();
        assert!(compare(&path, table_in, "| key | default |\na\nb\n").is_ok());
        for (wanted, line) in
            [("| key | default |\na\nc\n", "\"b\""), ("| key | default |\na\n", "\"b\"")]
        {
            let error = compare(&path, table_in, wanted).unwrap_err().to_string();
            assert!(error.starts_with(line), "{error}");
        }
        fs::write(&path, "nothing").unwrap();
        assert!(matches!(compare(&path, table_in, ""), Err(ReferenceError::Missing)));
        fs::remove_dir_all(&folder).unwrap();
    }
}
