// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the model's displays show, and what they may still read.

use bellhop_host_kmd::hardware::{
    DisplayPath, GuestId, Monitor, PhysicalAddress, PointerShape, SourceAddress,
};
use std::collections::{BTreeMap, BTreeSet};

/// A committed source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelSource {
    pub paths: Vec<DisplayPath>,
    pub visible: bool,
    pub pending: Option<SourceAddress>,
    pub shown: Option<SourceAddress>,
    /// What the processes call it that are told of VSYNCs, and those.
    pub known_as: u32,
    pub wanted_by: Vec<u32>,
    pub count: u64,
    pub pointer: Option<PointerShape>,
    pub position: ((i32, i32), bool),
}

impl ModelSource {
    /// Shows what is pending. Returns its number.
    pub fn latch(&mut self) -> Option<u64> {
        let latched = self.pending.take()?;
        self.shown = Some(latched);
        Some(latched.flip)
    }
}

/// The displays of all guests.
#[derive(Debug, Default)]
pub struct Displays {
    pub monitors: BTreeMap<(GuestId, u32), Monitor>,
    pub sources: BTreeMap<(GuestId, u32), ModelSource>,
    pub without_power: bool,
    /// Whether tickets pass only when the test says so.
    pub lets_go_late: bool,
    /// What may be read until the next ticket passes.
    pub lingering: BTreeMap<GuestId, BTreeSet<(u64, u64)>>,
    pub tickets: BTreeMap<GuestId, u64>,
    pub last_flips: BTreeMap<GuestId, u64>,
    pub commits: u64,
    pub resets: u64,
}

pub fn place(address: &SourceAddress) -> (u64, u64) {
    let PhysicalAddress { segment, address } = address.base;
    (segment as u64, address)
}

impl Displays {
    pub fn source(&mut self, guest: GuestId, source: u32) -> &mut ModelSource {
        self.sources.get_mut(&(guest, source)).expect("a committed source")
    }

    pub fn linger(&mut self, guest: GuestId, source: &ModelSource) {
        let read = source.shown.iter().chain(&source.pending).map(place);
        self.lingering.entry(guest).or_default().extend(read);
    }

    /// Whether a display of the guest reads what begins at this address.
    pub fn reads(&self, guest: GuestId, base: PhysicalAddress) -> bool {
        let wanted = (base.segment as u64, base.address);
        let of_guest = self.sources.iter().filter(|((of, _), _)| *of == guest);
        let read = of_guest.flat_map(|(_, source)| source.shown.iter().chain(&source.pending));
        read.map(place).any(|at| at == wanted)
            || self.lingering.get(&guest).is_some_and(|old| old.contains(&wanted))
    }
}
