// SPDX-License-Identifier: MIT OR Apache-2.0

//! Keys of older versions and their present names.

use super::declare::{Key, Kind};
use super::{KeyPath, Position};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A key that now has another name or form.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{old} is now {new}; write `{line}`{}", .section.as_ref().map_or(String::new(), |section| format!(" in [{section}]")))]
pub struct Renamed {
    old: KeyPath,
    new: KeyPath,
    /// The present equivalent of the old key and value.
    line: String,
    /// The section of that line, if the section has its own header.
    section: Option<KeyPath>,
    /// The position of the old key.
    pub(super) position: Position,
}

/// The first outdated key of a text, in the order in which keys are declared.
pub(super) fn find(text: &str, keys: Kind) -> Option<Renamed> {
    let file = DeTable::parse(text).ok()?.into_inner();
    let Kind::Section(keys) = keys else { return None };
    Search { text, file: &file }.in_section(keys, Some(&file), &KeyPath::new([]))
}

struct Search<'t> {
    text: &'t str,
    file: &'t DeTable<'t>,
}

impl Search<'_> {
    fn in_value(&self, kind: Kind, value: &DeValue<'_>, path: &KeyPath) -> Option<Renamed> {
        match (kind, value) {
            (Kind::Section(keys), DeValue::Table(table)) => {
                self.in_section(keys, Some(table), path)
            }
            (Kind::Map(entry), DeValue::Table(table)) => table.iter().find_map(|(name, value)| {
                self.in_value(*entry, value.get_ref(), &path.child(name.get_ref()))
            }),
            (Kind::Map(entry), DeValue::Array(array)) => {
                let mut elements = array.iter().enumerate();
                elements.find_map(|(place, value)| {
                    self.in_value(*entry, value.get_ref(), &path.child(place))
                })
            }
            _ => None,
        }
    }

    /// Searches a section. Without a table the file lacks the section, and may have its keys in their old places.
    fn in_section(
        &self,
        keys: &[Key],
        table: Option<&DeTable<'_>>,
        path: &KeyPath,
    ) -> Option<Renamed> {
        keys.iter().find_map(|key| {
            let found = match key.was.map(|was| was.split_once('.').ok_or(was)) {
                None => None,
                Some(Err(old)) => table.and_then(|table| self.renamed(table, path, old, path, key)),
                Some(Ok((section, old))) => self.moved(section, old, path, key),
            };
            let path = path.child(key.name);
            found.or_else(|| match (key.kind, table.and_then(|table| table.get(key.name))) {
                (kind, Some(value)) => self.in_value(kind, value.get_ref(), &path),
                (Kind::Section(keys), None) => self.in_section(keys, None, &path),
                _ => None,
            })
        })
    }

    /// Searches the old key's section, which each further adapter has too.
    fn moved(&self, section: &str, old: &str, home: &KeyPath, key: &Key) -> Option<Renamed> {
        let found = table(self.file, section)
            .and_then(|table| self.renamed(table, &KeyPath::new([section]), old, home, key));
        found.or_else(|| {
            let adapters = table(self.file, "adapters").filter(|_| section == "adapter")?;
            adapters.iter().find_map(|(name, adapter)| {
                let path = KeyPath::new(["adapters", name.get_ref()]);
                self.renamed(adapter.get_ref().as_table()?, &path, old, home, key)
            })
        })
    }

    /// The key that `table`, at `path`, has under its old name, and that now belongs to the section `home`.
    fn renamed(
        &self,
        table: &DeTable<'_>,
        path: &KeyPath,
        old: &str,
        home: &KeyPath,
        key: &Key,
    ) -> Option<Renamed> {
        let (name, value) = table.iter().find(|(name, _)| name.get_ref() == old)?;
        Some(Renamed {
            old: path.child(old),
            new: home.child(key.name),
            line: format!("{} = {}", key.name, self.written(value, key.kind)),
            section: home.is_header().then(|| home.clone()),
            position: Position::at(self.text, name.span().start),
        })
    }

    /// The present form of the old value. Values other than numbers stay unchanged.
    fn written(&self, value: &Spanned<DeValue<'_>>, kind: Kind) -> String {
        match (kind, value.get_ref()) {
            (Kind::Map(entry), DeValue::Array(elements)) => {
                let elements = elements.iter().map(|element| self.written(element, *entry));
                format!("[{}]", elements.collect::<Vec<_>>().join(", "))
            }
            (Kind::Section(_), DeValue::Table(table)) => {
                let entries = table.iter().filter_map(|(name, value)| {
                    let name: &str = name.get_ref();
                    Some(format!("{name} = {}", self.written(value, kind.find(&[name])?)))
                });
                format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
            }
            _ => {
                let text = self.text.get(value.span()).unwrap_or_default();
                match (kind, text.replace('_', "").parse()) {
                    (Kind::Value { of_old_number, .. }, Ok(number)) => of_old_number(number),
                    _ => text.lines().next().unwrap_or_default().to_owned(),
                }
            }
        }
    }
}

fn table<'t>(file: &'t DeTable<'_>, name: &str) -> Option<&'t DeTable<'t>> {
    file.get(name)?.get_ref().as_table()
}
