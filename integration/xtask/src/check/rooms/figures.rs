// SPDX-License-Identifier: MIT OR Apache-2.0

//! The figures of a crate.

use crate::check::rooms::circles::{self, Circle, MOST_IN_CIRCLE};
use crate::check::rooms::edges::Graph;
use crate::check::rooms::floors::{FILE, Floors};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Most source files beside each other in a folder.
pub const MOST_IN_FOLDER: usize = 20;

/// The figures of one crate.
pub struct Figures {
    /// The crate.
    pub name: String,
    /// Its files.
    pub graph: Graph,
    /// The circles of more than one file by imports, largest first.
    pub circles: Vec<Circle>,
    /// The circles of more than one file by imports and calls, largest first.
    pub circles_by_calls: Vec<Circle>,
    /// The sizes that the table records for its circles by calls of more than [`MOST_IN_CIRCLE`] files.
    pub recorded: Vec<usize>,
    /// The number of source files in each folder, fullest first.
    pub folders: Vec<(PathBuf, usize)>,
    /// Violations of the floors.
    pub floors: Vec<String>,
}

impl Figures {
    /// Measures a crate with its sources in `folder`.
    pub fn of(
        name: &str,
        folder: &Path,
        roots: &[PathBuf],
        floors: Option<&Floors>,
        recorded: Vec<usize>,
    ) -> Result<Self, String> {
        let mut graph = Graph::read(roots)?;
        graph.shorten(folder);
        let circles = circles::find(&graph.imports);
        let circles_by_calls = circles::find(&graph.calls);
        let mut folders = BTreeMap::<PathBuf, usize>::new();
        for file in &graph.files {
            *folders.entry(file.parent().unwrap_or(file).to_owned()).or_default() += 1;
        }
        let mut folders: Vec<_> = folders.into_iter().collect();
        folders.sort_by_key(|(_, files)| std::cmp::Reverse(*files));
        let floors = match floors {
            Some(floors) => floors.broken_by(&graph),
            None => vec![format!("{FILE} has no floors of this crate")],
        };
        let name = name.to_owned();
        Ok(Self { name, graph, circles, circles_by_calls, recorded, folders, floors })
    }

    /// The number of files in the largest circle by imports; 1 if there is none.
    pub fn largest_circle(&self) -> usize {
        self.circles.first().map_or(1, |circle| circle.files.len())
    }

    /// The number of files in the largest circle by imports and calls; 1 if there is none.
    pub fn largest_circle_by_calls(&self) -> usize {
        self.circles_by_calls.first().map_or(1, |circle| circle.files.len())
    }

    /// The circles by calls that have too many files, largest first. Those that imports make already do not count.
    pub fn large_circles_by_calls(&self) -> impl Iterator<Item = &Circle> {
        let is_new = |by_calls: &Circle| self.circles.iter().all(|of| of.files != by_calls.files);
        let large = self.circles_by_calls.iter().filter(|of| of.files.len() > MOST_IN_CIRCLE);
        large.filter(move |circle| is_new(circle))
    }

    /// The number of files in the fullest folder.
    pub fn largest_folder(&self) -> usize {
        self.folders.first().map_or(0, |(_, files)| *files)
    }
}
