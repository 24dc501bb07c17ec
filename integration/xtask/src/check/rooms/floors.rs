// SPDX-License-Identifier: MIT OR Apache-2.0

//! The floors of a crate: which room may name which.

use crate::check::rooms::edges::Graph;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The file with the floors of all crates.
pub const FILE: &str = "integration/xtask/rooms.toml";

/// The contents of [`FILE`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Table {
    /// The floors of each crate.
    #[serde(default)]
    pub crates: BTreeMap<String, Floors>,
    /// The sizes of a crate's circles by calls of more than [`MOST_IN_CIRCLE`](super::circles::MOST_IN_CIRCLE)
    /// files, largest first.
    #[serde(default)]
    pub circles_by_calls: BTreeMap<String, Vec<usize>>,
}

/// The rooms of a crate, floor by floor from the lowest. A room is a file or a folder of `src`, by its
/// path without `.rs`; the most specific one counts.
#[derive(Debug, Deserialize)]
pub struct Floors(Vec<Floor>);

/// Rooms that do not name each other.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Floor {
    Room(String),
    Rooms(Vec<String>),
}

impl Table {
    /// Reads the table of a workspace.
    ///
    /// # Errors
    /// When it is missing or malformed.
    pub fn read(root: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(root.join(FILE)).map_err(|error| error.to_string());
        text.and_then(|text| toml::from_str(&text).map_err(|error| error.to_string()))
            .map_err(|error| format!("{FILE}: {error}"))
    }
}

impl Floor {
    fn rooms(&self) -> &[String] {
        match self {
            Self::Room(room) => std::slice::from_ref(room),
            Self::Rooms(rooms) => rooms,
        }
    }
}

impl Floors {
    /// The floor and the room of a file; `None` for a file in no room, such as a crate's root.
    fn place(&self, file: &Path) -> Option<(usize, &str)> {
        let stem = file.with_extension("");
        let rooms = self.0.iter().enumerate();
        let rooms = rooms.flat_map(|(at, floor)| floor.rooms().iter().map(move |room| (at, room)));
        let around = rooms.filter(|(_, room)| stem.starts_with(room));
        let (floor, room) = around.max_by_key(|(_, room)| Path::new(room).components().count())?;
        Some((floor, room))
    }

    /// Violations: edges that point up or aside, files without a room and rooms without a file.
    pub fn broken_by(&self, graph: &Graph) -> Vec<String> {
        let mut broken = Vec::new();
        let roof = self.0.len();
        let is_root = |file: &PathBuf| matches!(file.to_str(), Some("lib.rs" | "main.rs"));
        let place = |file: &PathBuf| {
            let root = is_root(file).then_some((roof, "the root"));
            self.place(file).or(root)
        };
        // A file of another crate, by `#[path]`, has its room there.
        let own = graph.files.iter().filter(|file| file.is_relative());
        let homeless = own.filter(|file| place(file).is_none());
        broken.extend(
            homeless.map(|file| format!("{} is in no room: give it one in {FILE}", file.display())),
        );
        let taken: BTreeSet<_> =
            graph.files.iter().filter_map(place).map(|place| place.1).collect();
        let rooms = self.0.iter().flat_map(Floor::rooms);
        let empty = rooms.filter(|room| !taken.contains(room.as_str()));
        broken.extend(
            empty.map(|room| format!("the room {room} has no file: strike it from {FILE}")),
        );
        for ((from, to), paths) in &graph.calls {
            let (from, to) = (&graph.files[*from], &graph.files[*to]);
            let (Some((low, room)), Some((high, other))) = (place(from), place(to)) else {
                continue;
            };
            let where_to = match low.cmp(&high) {
                std::cmp::Ordering::Less => "on a higher floor",
                std::cmp::Ordering::Equal if room != other => "beside it on its floor",
                _ => continue,
            };
            let paths: Vec<_> = paths.iter().map(String::as_str).collect();
            broken.push(format!(
                "{} ({room}) names {} of {} ({other}), {where_to}",
                from.display(),
                paths.join(", "),
                to.display(),
            ));
        }
        broken
    }
}
