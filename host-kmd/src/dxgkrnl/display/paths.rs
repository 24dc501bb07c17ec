// SPDX-License-Identifier: MIT OR Apache-2.0

//! The committed VidPN of a guest: each process has paths of its own.

use crate::ddi::display::VidPnRefusal;
use crate::hardware::DisplayPath;
use bellhop_protocol::control::display::{Constraint, Pinned, VidPnPath};
use std::collections::BTreeMap;

/// The paths of all processes of a guest.
#[derive(Debug, Default)]
pub(crate) struct Paths(BTreeMap<u32, Vec<DisplayPath>>);

impl Paths {
    /// The paths of a process.
    pub(crate) fn of(&self, process: u32) -> &[DisplayPath] {
        self.0.get(&process).map(Vec::as_slice).unwrap_or_default()
    }

    /// The paths of all other processes.
    pub(crate) fn others(&self, process: u32) -> Vec<DisplayPath> {
        let others = self.0.iter().filter(|(of, _)| **of != process);
        others.flat_map(|(_, paths)| paths).copied().collect()
    }

    /// The path to a target, and whose it is.
    pub(crate) fn to(&self, target: u32) -> Option<(u32, &DisplayPath)> {
        let mut paths = self.0.iter().flat_map(|(of, paths)| paths.iter().map(|path| (*of, path)));
        paths.find(|(_, path)| path.target == target)
    }

    /// All paths.
    pub(crate) fn all(&self) -> Vec<DisplayPath> {
        self.0.values().flatten().copied().collect()
    }

    /// Gives a process other paths.
    pub(crate) fn set(&mut self, process: u32, paths: Vec<DisplayPath>) {
        if paths.is_empty() {
            self.0.remove(&process);
        } else {
            self.0.insert(process, paths);
        }
    }

    /// The first of a process's paths to a source or a target that another process has.
    pub(crate) fn check_free(
        &self,
        process: u32,
        wanted: &[VidPnPath],
    ) -> Result<(), VidPnRefusal> {
        for (index, path) in wanted.iter().enumerate() {
            let is_taken =
                |other: &DisplayPath| other.source == path.source || other.target == path.target;
            let mut others = self.0.iter().filter(|(of, _)| **of != process);
            if let Some((other, _)) = others.find(|(_, paths)| paths.iter().any(is_taken)) {
                return Err(refusal(Constraint::IN_USE, index, (*other).into()));
            }
        }
        Ok(())
    }
}

fn refusal(constraint: Constraint, path: usize, limit: u64) -> VidPnRefusal {
    VidPnRefusal { constraint, path: u32::try_from(path).unwrap_or(u32::MAX), limit }
}

/// The paths for the hardware, if all parts of them are pinned.
pub(crate) fn pinned(paths: &[VidPnPath]) -> Result<Vec<DisplayPath>, VidPnRefusal> {
    let pinned = paths.iter().enumerate().map(|(index, path)| {
        let missing = Pinned::all().bits() & !path.flags;
        if missing != 0 {
            return Err(refusal(Constraint::NOT_PINNED, index, missing.into()));
        }
        let VidPnPath { source, target, scaling, rotation, source_mode, target_mode, .. } = *path;
        Ok(DisplayPath { source, target, scaling, rotation, source_mode, target_mode })
    });
    pinned.collect()
}
