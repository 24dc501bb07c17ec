// SPDX-License-Identifier: MIT OR Apache-2.0

//! The cgroups of guests' workers, where there are any.

use crate::cgroup::{Division, Group, Seen, Share, division};
use crate::gpu::workers::config::WorkersConfig;
use crate::gpu::workers::tenant::GuestWorkers;
use bellhop_host_kmd::hardware::GuestId;
use std::collections::HashMap;
use std::io;

/// What a worker takes beyond its own memory and as much in files: the program and its libraries, page tables, and what
/// Linux remembers of a process.
const BESIDE: u64 = 256 << 20;
/// Most threads of a worker: lavapipe starts 32, and the drivers of GPUs some of their own.
const THREADS: u32 = 128;
/// Workers of a guest beside those that engines have: one that compiles.
const COMPILERS: u64 = 1;

/// The cgroups of guests' workers.
pub(super) struct Groups {
    division: Option<&'static Division>,
    /// What the workers of a guest may take, without the guest's own memory.
    share: Share,
    of_guests: HashMap<GuestId, Group>,
    /// Those of guests that have gone.
    free: Vec<Group>,
    has_failed: bool,
}

impl Groups {
    /// No groups yet.
    pub(super) fn new(config: &WorkersConfig) -> Self {
        let of_role = config.roles.iter().map(|role| {
            let each = role.memory.saturating_mul(2).saturating_add(BESIDE);
            let most = u64::from(role.workers_per_guest.max(1)) + COMPILERS;
            (each.saturating_mul(most), most)
        });
        let sum = |(memory, workers): (u64, u64), (more, others): (u64, u64)| {
            (memory.saturating_add(more), workers.saturating_add(others))
        };
        let (memory, workers) = of_role.fold((0, 0), sum);
        let threads = u32::try_from(workers).unwrap_or(u32::MAX).saturating_mul(THREADS);
        let (of_guests, free) = (HashMap::new(), Vec::new());
        let share = Share { memory, threads };
        Self { division: division(), share, of_guests, free, has_failed: false }
    }

    /// Lets a worker that a guest is to have into the guest's group.
    pub(super) fn admit(&mut self, guest: &GuestWorkers, process: u32) {
        let Some(division) = self.division else { return };
        // The guest's own memory is charged to the group too, as far as its workers touch it first.
        let memory = self.memory_of(guest);
        let admitted = self.group(division, guest.id, memory).and_then(|group| {
            group.allow(memory)?;
            group.admit(process)
        });
        self.tell(admitted);
    }

    /// A guest has other memory.
    pub(super) fn resize(&mut self, guest: &GuestWorkers) {
        let memory = self.memory_of(guest);
        if let Some(group) = self.of_guests.get_mut(&guest.id) {
            let allowed = group.allow(memory);
            self.tell(allowed);
        }
    }

    fn memory_of(&self, guest: &GuestWorkers) -> u64 {
        self.share.memory.saturating_add(guest.reach())
    }

    /// Logs the first failure.
    fn tell(&mut self, done: io::Result<()>) {
        if let Err(error) = done
            && !std::mem::replace(&mut self.has_failed, true)
        {
            tracing::warn!(%error, "a worker is in no cgroup of its guest: its own limits alone bound it");
        }
    }

    fn group(
        &mut self,
        division: &Division,
        guest: GuestId,
        memory: u64,
    ) -> io::Result<&mut Group> {
        use std::collections::hash_map::Entry::{Occupied, Vacant};
        match self.of_guests.entry(guest) {
            Occupied(group) => Ok(group.into_mut()),
            Vacant(place) => {
                let free = self.free.iter().position(Group::is_empty);
                let group = match free.map(|index| self.free.swap_remove(index)) {
                    Some(mut group) => {
                        group.begin(memory)?;
                        group
                    }
                    None => division.group(Share { memory, ..self.share })?,
                };
                Ok(place.insert(group))
            }
        }
    }

    /// A guest has gone. Its last workers may still be ending.
    pub(super) fn gone(&mut self, guest: GuestId) {
        if let Some(group) = self.of_guests.remove(&guest) {
            group.end_all();
            self.free.push(group);
        }
    }

    /// Each guest's, for tools.
    pub(super) fn seen(&self) -> Vec<(GuestId, Seen)> {
        self.of_guests.iter().map(|(guest, group)| (*guest, group.seen())).collect()
    }
}
