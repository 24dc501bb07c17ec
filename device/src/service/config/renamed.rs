// SPDX-License-Identifier: MIT OR Apache-2.0

//! Keys of older versions: what each is called now.

use super::declare::{Key, Kind, Setting};
use super::{Config, KeyPath, Position};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A key that has another name or another form now.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{old} is now {new}; write `{line}` in {section}")]
pub struct Renamed {
    old: KeyPath,
    new: KeyPath,
    /// What says now what the old key said.
    line: String,
    /// The header of the section for that line.
    section: String,
    /// Where the old key is.
    pub(super) position: Position,
}

/// The first key of a text that is not one any more, in the order in which keys are declared.
pub(super) fn find(text: &str) -> Option<Renamed> {
    let file = DeTable::parse(text).ok()?.into_inner();
    let Kind::Section(sections) = Config::KIND else { return None };
    sections.iter().find_map(|section| {
        let Kind::Section(keys) = section.kind else { return None };
        keys.iter().find_map(|key| {
            let (old_section, old_name) = key.was?.split_once('.')?;
            let old = Old { section: old_section, name: old_name, text, file: &file };
            old.find(section, key)
        })
    })
}

struct Old<'t> {
    section: &'t str,
    name: &'t str,
    text: &'t str,
    file: &'t DeTable<'t>,
}

impl Old<'_> {
    /// Looks in the old key's section, which each further adapter has too.
    fn find(&self, section: &Key, key: &Key) -> Option<Renamed> {
        let own = KeyPath::new([self.section]);
        let found =
            table(self.file, self.section).and_then(|table| self.find_in(table, own, section, key));
        found.or_else(|| {
            let adapters = table(self.file, "adapters").filter(|_| self.section == "adapter")?;
            adapters.iter().find_map(|(name, adapter)| {
                let path = KeyPath::new(["adapters", name.get_ref()]);
                self.find_in(adapter.get_ref().as_table()?, path, section, key)
            })
        })
    }

    fn find_in(
        &self,
        table: &DeTable<'_>,
        path: KeyPath,
        section: &Key,
        key: &Key,
    ) -> Option<Renamed> {
        let (name, value) = table.iter().find(|(name, _)| name.get_ref() == self.name)?;
        let moved = section.name != self.section;
        let home = if moved { KeyPath::new([section.name]) } else { path.clone() };
        Some(Renamed {
            old: path.child(self.name),
            new: home.child(key.name),
            line: format!("{} = {}", key.name, self.written(value, key)),
            section: format!("[{home}]"),
            position: Position::at(self.text, name.span().start),
        })
    }

    /// The old value as it is written now. What is no number stays as it is.
    fn written(&self, value: &Spanned<DeValue<'_>>, key: &Key) -> String {
        let text = self.text.get(value.span()).unwrap_or_default();
        match (key.kind, text.replace('_', "").parse()) {
            (Kind::Value { of_old_number, .. }, Ok(number)) => of_old_number(number),
            _ => text.lines().next().unwrap_or_default().to_owned(),
        }
    }
}

fn table<'t>(file: &'t DeTable<'_>, name: &str) -> Option<&'t DeTable<'t>> {
    file.get(name)?.get_ref().as_table()
}
