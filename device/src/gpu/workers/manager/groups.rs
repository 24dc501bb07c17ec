// SPDX-License-Identifier: MIT OR Apache-2.0

//! The cgroups of guests' workers, where there are any.

use crate::cgroup::{Division, Group, Seen, Share, division};
use crate::gpu::workers::config::WorkersConfig;
use crate::gpu::workers::tenant::GuestWorkers;
use bellhop_host_kmd::hardware::{GuestId, SocketId};
use std::collections::HashMap;
use std::io;

/// What a worker takes beyond its own memory and as much in files: the program and its libraries, page tables, and what
/// Linux remembers of a process.
const BESIDE: u64 = 256 << 20;
/// Most threads of a worker: lavapipe starts 32, and the drivers of GPUs some of their own.
const THREADS: u32 = 128;
/// Workers of a socket's guests beside those that engines have: one that compiles.
const COMPILERS: u64 = 1;

/// The cgroups of guests' workers: one for the guests of each socket, so that those who connect more of them have no more
/// memory, threads and processors.
pub(super) struct Groups {
    division: Option<&'static Division>,
    /// What the workers of a socket's guests may take, without the guests' own memory.
    share: Share,
    of_sockets: HashMap<SocketId, Shared>,
    /// Those of sockets whose guests have gone.
    free: Vec<Group>,
    has_failed: bool,
}

/// A group that the guests of a socket share.
struct Shared {
    group: Group,
    /// Bytes of each guest's memory that its workers may reach.
    reach: HashMap<GuestId, u64>,
}

impl Shared {
    /// The guests' own memory is charged to the group too, as far as its workers touch it first.
    fn allow(&mut self, share: Share) -> io::Result<()> {
        let reach = self.reach.values().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
        self.group.allow(share.memory.saturating_add(reach))
    }
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
        let (of_sockets, free) = (HashMap::new(), Vec::new());
        let share = Share { memory, threads };
        Self { division: division(), share, of_sockets, free, has_failed: false }
    }

    /// Lets a worker that a guest is to have into the group of the guest's socket.
    pub(super) fn admit(&mut self, guest: &GuestWorkers, process: u32) {
        let Some(division) = self.division else { return };
        let share = self.share;
        let admitted = self.group(division, guest).and_then(|shared| {
            shared.reach.insert(guest.id, guest.reach());
            shared.allow(share)?;
            shared.group.admit(process)
        });
        self.tell(admitted);
    }

    /// A guest has other memory.
    pub(super) fn resize(&mut self, guest: &GuestWorkers) {
        if let Some(shared) = self.of_sockets.get_mut(&guest.socket)
            && let Some(reach) = shared.reach.get_mut(&guest.id)
        {
            *reach = guest.reach();
            let allowed = shared.allow(self.share);
            self.tell(allowed);
        }
    }

    /// Logs the first failure.
    fn tell(&mut self, done: io::Result<()>) {
        if let Err(error) = done
            && !std::mem::replace(&mut self.has_failed, true)
        {
            tracing::warn!(%error, "a worker is in no cgroup of its guest: its own limits alone bound it");
        }
    }

    fn group(&mut self, division: &Division, guest: &GuestWorkers) -> io::Result<&mut Shared> {
        use std::collections::hash_map::Entry::{Occupied, Vacant};
        match self.of_sockets.entry(guest.socket) {
            Occupied(shared) => Ok(shared.into_mut()),
            Vacant(place) => {
                let memory = self.share.memory.saturating_add(guest.reach());
                let free = self.free.iter().position(Group::is_empty);
                let group = match free.map(|index| self.free.swap_remove(index)) {
                    Some(mut group) => {
                        group.begin(memory)?;
                        group
                    }
                    None => division.group(Share { memory, ..self.share })?,
                };
                Ok(place.insert(Shared { group, reach: HashMap::new() }))
            }
        }
    }

    /// A guest has gone. Its last workers may still be ending. What is left in the group ends with the socket's last guest.
    pub(super) fn gone(&mut self, guest: GuestId) {
        let has_gone =
            |shared: &mut Shared| shared.reach.remove(&guest).is_some() && shared.reach.is_empty();
        let socket = self
            .of_sockets
            .iter_mut()
            .find_map(|(socket, shared)| has_gone(shared).then_some(*socket));
        if let Some(Shared { group, .. }) = socket.and_then(|id| self.of_sockets.remove(&id)) {
            group.end_all();
            self.free.push(group);
        }
    }

    /// Each guest's, for tools.
    pub(super) fn seen(&self) -> Vec<(GuestId, Seen)> {
        let of_socket = |shared: &Shared| {
            shared.reach.keys().map(|guest| (*guest, shared.group.seen())).collect::<Vec<_>>()
        };
        self.of_sockets.values().flat_map(of_socket).collect()
    }
}
