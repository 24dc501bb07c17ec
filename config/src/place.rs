// SPDX-License-Identifier: MIT OR Apache-2.0

//! Places of keys and bytes in a TOML file.

use std::fmt;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A key: the names of its tables, its own name, and the index of an element if it holds an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPath(Vec<String>);

impl KeyPath {
    /// The key of these names.
    #[must_use]
    pub fn new<const N: usize>(names: [&str; N]) -> Self {
        names.into_iter().collect()
    }

    /// The key with this name in this table or array.
    #[must_use]
    pub fn child(&self, name: impl ToString) -> Self {
        let mut names = self.0.clone();
        names.push(name.to_string());
        Self(names)
    }

    /// The names of the path.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        self.0.iter().map(String::as_str).collect()
    }

    /// The key's position in a text; `None` if the text lacks the key.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<Position> {
        let (offset, depth) = walk(text, &self.0)?;
        (depth == self.0.len()).then(|| Position::at(text, offset))
    }

    /// The key's position in a text, or else that of the innermost table that would hold the key.
    #[must_use]
    pub fn find_nearest(&self, text: &str) -> Option<Position> {
        walk(text, &self.0).map(|(offset, _)| Position::at(text, offset))
    }

    /// The key in a text with a value that contains this byte. Tables and arrays do not count as values.
    pub(crate) fn containing(text: &str, offset: usize) -> Option<Self> {
        containing(DeTable::parse(text).ok()?.get_ref(), offset, &Self(Vec::new()))
    }
}

fn containing(table: &DeTable<'_>, offset: usize, path: &KeyPath) -> Option<KeyPath> {
    table.iter().find_map(|(name, value)| within(value, offset, path.child(name.get_ref())))
}

fn within(value: &Spanned<DeValue<'_>>, offset: usize, path: KeyPath) -> Option<KeyPath> {
    match value.get_ref() {
        // A table's span is that of its header, and the span of an array of tables that of its first table.
        DeValue::Table(table) => containing(table, offset, &path),
        DeValue::Array(array) => {
            let mut elements = array.iter().enumerate();
            elements.find_map(|(place, value)| within(value, offset, path.child(place)))
        }
        _ => value.span().contains(&offset).then_some(path),
    }
}

impl<'n> FromIterator<&'n str> for KeyPath {
    fn from_iter<I: IntoIterator<Item = &'n str>>(names: I) -> Self {
        Self(names.into_iter().map(str::to_owned).collect())
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, name) in self.0.iter().enumerate() {
            let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            let dot = if place == 0 { "" } else { "." };
            match name.parse::<usize>() {
                Ok(number) if place > 0 => write!(f, "[{number}]")?,
                _ if !name.is_empty() && name.chars().all(is_bare) => write!(f, "{dot}{name}")?,
                _ => write!(f, "{dot}{name:?}")?,
            }
        }
        Ok(())
    }
}

/// Follows the names as far as a text has them. Returns the offset of the last one found, and how many were found.
fn walk(text: &str, names: &[String]) -> Option<(usize, usize)> {
    let table = DeTable::parse(text).ok()?;
    let (mut offset, mut depth) = (table.span().start, 0);
    let root = DeValue::Table(table.into_inner());
    let mut value = &root;
    for name in names {
        let next = match value {
            DeValue::Table(table) => table
                .iter()
                .find(|(key, _)| key.get_ref() == name)
                .map(|(key, value)| (key.span().start, value.get_ref())),
            DeValue::Array(array) => {
                let element = name.parse().ok().and_then(|place: usize| array.get(place));
                element.map(|element| (element.span().start, element.get_ref()))
            }
            _ => None,
        };
        let Some(next) = next else { break };
        (offset, value) = next;
        depth += 1;
    }
    Some((offset, depth))
}

/// A line and column in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The line, from 1.
    pub line: usize,
    /// The character within the line, from 1.
    pub column: usize,
}

impl Position {
    /// The position of a byte.
    #[must_use]
    pub fn at(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let last = before.rsplit('\n').next().unwrap_or_default();
        Self { line: 1 + before.matches('\n').count(), column: 1 + last.chars().count() }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[adapters.copy]\nspin = 3\n[weights]\n  \"a.sock\" = 1\n\
                        [fence_sharing]\nvideo = [\"ü\", \"b.sock\"]\n";

    fn at(names: &[&str]) -> Option<(usize, usize)> {
        let key: KeyPath = names.iter().copied().collect();
        key.find(TEXT).map(|Position { line, column }| (line, column))
    }

    #[test]
    fn a_key_is_found_where_it_is_written() {
        assert_eq!(at(&["adapters", "copy"]), Some((1, 11)));
        assert_eq!(at(&["adapters", "copy", "spin"]), Some((2, 1)));
        assert_eq!(at(&["weights", "a.sock"]), Some((4, 3)));
        assert_eq!(at(&["fence_sharing", "video", "1"]), Some((6, 15)));
        assert_eq!(at(&["adapters", "copy", "timeout"]), None);
        let missing = KeyPath::new(["adapters", "copy", "timeout"]);
        assert_eq!(missing.find_nearest(TEXT).unwrap().line, 1);
    }

    #[test]
    fn a_key_is_shown_as_toml_has_it() {
        assert_eq!(KeyPath::new(["weights", "a.sock"]).to_string(), "weights.\"a.sock\"");
        let element = KeyPath::new(["fence_sharing", "video"]).child(1);
        assert_eq!(element.to_string(), "fence_sharing.video[1]");
    }

    #[test]
    fn a_value_says_which_key_has_it() {
        let offset = TEXT.find('3').unwrap();
        let key = KeyPath::containing(TEXT, offset).unwrap();
        assert_eq!(key, KeyPath::new(["adapters", "copy", "spin"]));
        assert_eq!(KeyPath::containing("not TOML", 3), None);
    }
}
