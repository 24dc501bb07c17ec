// SPDX-License-Identifier: MIT OR Apache-2.0

//! The committed VidPN of a guest: each process has paths of its own.

use crate::ddi::display::VidPnRefusal;
use crate::hardware::DisplayPath;
use bellhop_protocol::control::display::{Constraint, Pinned, VidPnPath};
use std::collections::BTreeMap;

/// A process that would show something. Paths of the guest's agent give way to those of any other process, and the agent
/// shows nothing beside another process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claimant {
    /// The process.
    pub(crate) process: u32,
    /// The guest's agent, which it may be itself.
    pub(crate) agent: Option<u32>,
}

impl Claimant {
    /// Whether the paths of this process stay when the claimant shows something.
    fn stays(self, of: u32) -> bool {
        of != self.process && Some(of) != self.agent
    }

    /// The agent, if its paths go.
    pub(crate) fn displaced(self) -> Option<u32> {
        self.agent.filter(|agent| *agent != self.process)
    }
}

/// The paths of all processes of a guest.
#[derive(Debug, Default)]
pub(crate) struct Paths(BTreeMap<u32, Vec<DisplayPath>>);

impl Paths {
    /// The paths of a process.
    pub(crate) fn of(&self, process: u32) -> &[DisplayPath] {
        self.0.get(&process).map(Vec::as_slice).unwrap_or_default()
    }

    /// The paths of other processes, which stay.
    pub(crate) fn others(&self, claimant: Claimant) -> Vec<DisplayPath> {
        let others = self.0.iter().filter(|(of, _)| claimant.stays(**of));
        others.flat_map(|(_, paths)| paths).copied().collect()
    }

    /// The processes that show something, and the sources of each.
    pub(crate) fn shown(&self) -> impl Iterator<Item = (u32, u64)> {
        let bits = |paths: &Vec<DisplayPath>| {
            let bit = |path: &DisplayPath| 1u64.checked_shl(path.source).unwrap_or(0);
            paths.iter().map(bit).fold(0, |all, one| all | one)
        };
        self.0.iter().map(move |(process, paths)| (*process, bits(paths)))
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

    /// The first of a process's paths to a source or a target that another process has, or that the agent may not show
    /// beside another process.
    pub(crate) fn check_free(
        &self,
        claimant: Claimant,
        wanted: &[VidPnPath],
    ) -> Result<(), VidPnRefusal> {
        let is_agent = claimant.agent == Some(claimant.process);
        for (index, path) in wanted.iter().enumerate() {
            let is_taken = |other: &DisplayPath| {
                is_agent || other.source == path.source || other.target == path.target
            };
            let mut others = self.0.iter().filter(|(of, _)| claimant.stays(**of));
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
