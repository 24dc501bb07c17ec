//! What values may be, beyond what their types say.

use super::place::KeyPath;
use super::{Config, DoorbellModel, Rotation};
use serde_json::Value;
use std::ops::RangeInclusive;
use std::path::Path;

/// A value that its key cannot have. One line, which says what it may be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} is {value}; it must be {expected}")]
pub struct Fault {
    /// The key.
    pub key: KeyPath,
    /// The key that a file has when it leaves that one at its default.
    pub cause: Option<KeyPath>,
    /// Its value.
    pub value: String,
    /// What it may be.
    pub expected: String,
}

impl Fault {
    pub(crate) fn new(key: KeyPath, value: impl ToString, expected: impl Into<String>) -> Self {
        Self { key, cause: None, value: value.to_string(), expected: expected.into() }
    }
}

/// A table's numbers, and what they may be.
type Ranges = [(&'static str, RangeInclusive<u64>)];

/// Those of `[adapter]` and of each of `[adapters]`.
const ADAPTER: &Ranges = &[
    ("copy_nodes", 1..=8),
    ("kernel_mode_copy_nodes", 0..=8),
    ("physical_doorbells", 1..=65_536),
    ("spin_us", 0..=1_000_000),
    ("engine_idle_ms", 0..=3_600_000),
    ("device_idle_ms", 0..=86_400_000),
    ("timeout_ms", 10..=3_600_000),
    ("recovery_ms", 10..=60_000),
    ("hang_limit", 0..=1000),
    ("hang_limit_s", 1..=3600),
    ("quantum_us", 0..=100_000),
    ("page_table_mib", 1..=4096),
];

/// Those of `[guest]`.
const GUEST: &Ranges = &[
    ("doorbells", 1..=16_384),
    ("fences", 1..=65_536),
    ("local_memory_mib", 1..=65_536),
    ("private_memory_mib", 0..=65_536),
    ("backing_memory_mib", 0..=1_048_576),
    ("aperture_mib", 1..=65_536),
    ("objects", 256..=1_048_575),
    ("allocations", 1..=1_048_575),
    ("hw_queues", 1..=65_536),
    ("waits", 1..=1_048_575),
    ("cross_adapter_fences", 0..=1024),
    ("announced_memory_mib", 1..=1_048_576),
    ("log_lines_per_second", 1..=1_000_000),
    ("log_burst", 1..=1_000_000),
    ("weight", 1..=10_000),
    ("physical_doorbells_reserved", 0..=65_536),
];

/// A guest's weight in `[weights]`.
const WEIGHT: RangeInclusive<u64> = 1..=10_000;

/// Most adapters beside the first. Each has a thread for each of its engines.
const MAX_ADAPTERS: usize = 7;

/// Most groups of guests that share fences.
const MAX_GROUPS: usize = 64;

/// Doorbells of a guest whose pages are moved: each takes an entry of the VMM's memory table, of which a
/// VMM may have far fewer.
const REMAPPED_DOORBELLS: RangeInclusive<u32> = 1..=64;

/// What the number of this key may be.
pub(super) fn range(key: &KeyPath) -> Option<RangeInclusive<u64>> {
    let in_table = |ranges: &Ranges, name: &str| {
        ranges.iter().find(|(key, _)| *key == name).map(|(_, range)| range.clone())
    };
    match *key.names() {
        ["adapter", name] | ["adapters", _, name] => in_table(ADAPTER, name),
        ["guest", name] => in_table(GUEST, name),
        ["weights", _] => Some(WEIGHT),
        _ => None,
    }
}

/// A range as people write it.
pub(super) fn shown(range: &RangeInclusive<u64>) -> String {
    format!("{} to {}", range.start(), range.end())
}

impl Config {
    /// Checks what is not checked by its type.
    ///
    /// # Errors
    /// When a value is outside its range, or does not go with another.
    pub fn validate(&self) -> Result<(), Fault> {
        let root = KeyPath::new([]);
        let value = serde_json::to_value(self);
        let value = value.map_err(|error| Fault::new(root.clone(), error, "UTF-8"))?;
        check_ranges(&root, &value)?;
        self.check_counts()?;
        self.check_adapters()?;
        self.check_attachments()?;
        let filter = &self.log.filter;
        crate::log::filter(filter).map(drop).map_err(|error| {
            Fault::new(KeyPath::new(["log", "filter"]), format!("{filter:?}"), error.to_string())
        })
    }

    /// Checks that each socket which it names is one of those that are served, and that there are doorbells
    /// for the guests of all of them.
    ///
    /// # Errors
    /// For the first that is not.
    pub fn check_sockets(&self, served: &[Option<&Path>]) -> Result<(), Fault> {
        let is_served =
            |name: &str| served.iter().any(|socket| super::names(*socket).any(|n| n == name));
        let paths: Vec<_> =
            served.iter().flatten().map(|path| path.display().to_string()).collect();
        let expected = match paths.as_slice() {
            [] => "left out: no socket that is served has a path".to_owned(),
            paths => format!("for one of {}, by its path or its file name", paths.join(", ")),
        };
        let tables = [
            ("weights", self.weights.keys().collect::<Vec<_>>()),
            ("attach", self.attach.keys().collect()),
        ];
        for (table, name) in tables.iter().flat_map(|(t, names)| names.iter().map(move |n| (t, n)))
        {
            if !is_served(name) {
                let key = KeyPath::new([table, name]);
                return Err(Fault::new(key, "for a socket that is not served", expected));
            }
        }
        for (group, sockets) in &self.fence_sharing {
            if let Some(place) = sockets.iter().position(|name| !is_served(name)) {
                let key = KeyPath::new(["fence_sharing", group]).child(place);
                let value = format!("{:?}, which is not served", sockets[place]);
                return Err(Fault::new(key, value, expected));
            }
        }
        self.check_shares(served)
    }

    /// What is each guest's own cannot be more than there is.
    fn check_shares(&self, served: &[Option<&Path>]) -> Result<(), Fault> {
        let reserved = self.guest.physical_doorbells_reserved;
        for (place, (_, adapter)) in self.adapters().enumerate() {
            let guests = served.iter().filter(|socket| self.adapter_of(**socket) == place).count();
            let all = adapter.physical_doorbells;
            let most = all.checked_div(u32::try_from(guests).unwrap_or(u32::MAX));
            if adapter.doorbell_model == DoorbellModel::Dedicated
                && let Some(most) = most.filter(|most| reserved > *most)
            {
                let key = KeyPath::new(["guest", "physical_doorbells_reserved"]);
                let expected =
                    format!("0 to {most}: {guests} sockets share {all} physical doorbells");
                return Err(Fault::new(key, reserved, expected));
            }
        }
        Ok(())
    }

    fn check_counts(&self) -> Result<(), Fault> {
        let at_most = |table: &str, count: usize, limit: usize| match count <= limit {
            true => Ok(()),
            false => {
                let key = KeyPath::new([table]);
                Err(Fault::new(key, format!("{count} entries"), format!("0 to {limit}")))
            }
        };
        at_most("adapters", self.adapters.len(), MAX_ADAPTERS)?;
        at_most("fence_sharing", self.fence_sharing.len(), MAX_GROUPS)
    }

    fn check_adapters(&self) -> Result<(), Fault> {
        for (name, adapter) in self.adapters() {
            let table = match name {
                "" => KeyPath::new(["adapter"]),
                name => KeyPath::new(["adapters", name]),
            };
            let (nodes, all) = (adapter.kernel_mode_copy_nodes, adapter.copy_nodes);
            if nodes > all {
                let expected = format!("0 to {all}, as many as {}", table.child("copy_nodes"));
                return Err(Fault::new(table.child("kernel_mode_copy_nodes"), nodes, expected));
            }
            if adapter.rotation != Rotation::Remap {
                continue;
            }
            let rotation = table.child("rotation");
            if adapter.doorbell_model == DoorbellModel::Global {
                let model = table.child("doorbell_model");
                let expected =
                    format!("\"watch\" while {model} is \"global\", which never rotates");
                return Err(Fault::new(rotation, "\"remap\"", expected));
            }
            let doorbells = self.guest.doorbells;
            if !REMAPPED_DOORBELLS.contains(&doorbells) {
                let expected =
                    format!("1 to 64 while {rotation} is \"remap\", and 4 at most for QEMU");
                let key = KeyPath::new(["guest", "doorbells"]);
                let fault = Fault::new(key, doorbells, expected);
                return Err(Fault { cause: Some(rotation), ..fault });
            }
        }
        Ok(())
    }

    fn check_attachments(&self) -> Result<(), Fault> {
        let missing = self.attach.iter().find(|(_, name)| !self.adapters.contains_key(*name));
        missing.map_or(Ok(()), |(socket, name)| {
            let tables: Vec<_> = self.adapters.keys().map(|name| format!("{name:?}")).collect();
            let expected = match tables.as_slice() {
                [] => format!("left out, as there is no [adapters.{name}]"),
                tables => format!("one of {}, as there is no [adapters.{name}]", tables.join(", ")),
            };
            Err(Fault::new(KeyPath::new(["attach", socket]), format!("{name:?}"), expected))
        })
    }
}

/// Checks all numbers in a table and in the tables in it.
fn check_ranges(key: &KeyPath, value: &Value) -> Result<(), Fault> {
    if let Value::Object(table) = value {
        return table.iter().try_for_each(|(name, value)| check_ranges(&key.child(name), value));
    }
    match (range(key), value.as_u64()) {
        (Some(range), Some(number)) if !range.contains(&number) => {
            Err(Fault::new(key.clone(), number, shown(&range)))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each number's key, and its range.
    fn ranges() -> Vec<(KeyPath, RangeInclusive<u64>)> {
        let Value::Object(tables) = serde_json::to_value(Config::default()).unwrap() else {
            panic!("a configuration is a table")
        };
        let mut found = Vec::new();
        for (table, value) in &tables {
            for (name, value) in value.as_object().unwrap() {
                if value.is_number() {
                    let key = KeyPath::new([table, name]);
                    let range = range(&key);
                    found.push((key.clone(), range.unwrap_or_else(|| panic!("{key}"))));
                }
            }
        }
        found
    }

    #[test]
    fn no_more_doorbells_are_reserved_than_each_sockets_part() {
        let mut config = Config::default();
        config.adapter.physical_doorbells = 7;
        let sockets = ["a.sock", "b.sock"].map(|name| Some(Path::new(name)));
        config.guest.physical_doorbells_reserved = 3;
        config.check_sockets(&sockets).unwrap();
        config.guest.physical_doorbells_reserved = 4;
        config.check_sockets(&sockets[..1]).unwrap();
        let fault = config.check_sockets(&sockets).unwrap_err().to_string();
        assert!(
            fault.contains("physical_doorbells_reserved is 4") && fault.contains("0 to 3"),
            "{fault}"
        );
        config.adapter.doorbell_model = DoorbellModel::Global;
        config.check_sockets(&sockets).unwrap();
    }

    #[test]
    fn every_number_has_a_range_and_the_reference_says_which() {
        let reference = include_str!("../../../../docs/service.md");
        let ranges = ranges();
        assert_eq!(ranges.len(), ADAPTER.len() + GUEST.len());
        for (key, range) in ranges {
            let row = reference.lines().find(|line| line.starts_with(&format!("| `{key}` |")));
            let row = row.unwrap_or_else(|| panic!("docs/service.md lacks {key}"));
            assert!(row.contains(&format!("| {} |", shown(&range))), "{row}");
        }
    }
}
