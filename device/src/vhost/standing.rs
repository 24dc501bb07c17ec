// SPDX-License-Identifier: MIT OR Apache-2.0

//! What holds for the guests of a socket, together and one after another: what the configuration says, and what the host's
//! operator has changed since.
//!
//! It belongs to the socket, so a guest cannot undo it by a reset of its device or by connecting again. The lock is held
//! while a guest is attached and while the operator changes something: whichever comes second sees the other.

use crate::control_plane::KernelHandle;
use crate::gpu::{Account, Gpu};
use bellhop_host_kmd::hardware::GuestId;
use bellhop_host_kmd::port::{Command, CommandError, GuestLimit};
use bellhop_protocol::snapshot::Change;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// What holds for the guests of a socket.
#[derive(Debug)]
pub struct Standing {
    state: Mutex<State>,
    /// What its guests are charged to.
    account: Arc<Account>,
    /// How many guests it has at once. Each has an equal part of its limits.
    connections: u32,
}

#[derive(Debug)]
struct State {
    weight: u32,
    /// Physical doorbells that are reserved; 0 stands for an equal share.
    doorbell_share: u32,
    /// Whether all its guests are suspended.
    is_suspended: bool,
    /// Limits that differ from the configuration's.
    limits: Vec<(GuestLimit, u32)>,
    /// The operator's changes, the newest of each kind, the oldest first. There are as many kinds as changes that hold
    /// for a socket.
    changes: Vec<Change>,
    /// By place, of the front ends that are there.
    seats: BTreeMap<u32, Seat>,
}

/// What holds for a connection as long as its front end is there.
#[derive(Debug, Clone, Copy, Default)]
struct Seat {
    /// The guest that is attached.
    guest: Option<GuestId>,
    /// Whether it alone is suspended, also after a reset of its device.
    is_suspended: bool,
}

/// What tools see of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StandingInfo {
    /// The guests that are attached, by place.
    pub guests: BTreeMap<u32, GuestId>,
    /// Whether nothing of its guests executes.
    pub is_suspended: bool,
    /// The places whose guests alone are suspended.
    pub suspended: Vec<u32>,
    /// The operator's changes, the newest of each kind.
    pub changes: Vec<Change>,
}

/// The end of a command that was sent.
pub type CommandEnd = oneshot::Receiver<Result<(), CommandError>>;

impl State {
    fn guests(&self) -> impl Iterator<Item = GuestId> {
        self.seats.values().filter_map(|seat| seat.guest)
    }
}

impl Standing {
    /// What the configuration says for a socket that has so many guests at once. A `doorbell_share` of 0 stands for an equal
    /// share.
    #[must_use]
    pub fn new(weight: u32, doorbell_share: u32, connections: u32) -> Self {
        let state = State {
            weight,
            doorbell_share,
            is_suspended: false,
            limits: Vec::new(),
            changes: Vec::new(),
            seats: BTreeMap::new(),
        };
        Self { state: Mutex::new(state), account: Arc::default(), connections: connections.max(1) }
    }

    /// What its guests are charged to.
    pub(super) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// No code panics while it holds the lock, so its content is consistent.
    #[expect(clippy::disallowed_methods, reason = "a lock that is held for a few stores")]
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What tools see.
    #[must_use]
    pub fn info(&self) -> StandingInfo {
        let State { seats, is_suspended, changes, .. } = &*self.lock();
        let guests = seats.iter().filter_map(|(place, seat)| Some((*place, seat.guest?)));
        let suspended = seats.iter().filter(|(_, seat)| seat.is_suspended);
        StandingInfo {
            guests: guests.collect(),
            is_suspended: *is_suspended,
            suspended: suspended.map(|(place, _)| *place).collect(),
            changes: changes.clone(),
        }
    }

    /// A front end has come to a place.
    pub(super) fn enter(&self, place: u32) {
        self.lock().seats.insert(place, Seat::default());
    }

    /// Attaches a guest at a place by `attach`, with everything that holds for it before its first request.
    pub(super) fn attach(
        &self,
        gpu: &Gpu,
        kernel: &KernelHandle,
        (place, guest): (u32, GuestId),
        attach: impl FnOnce(),
    ) {
        let mut state = self.lock();
        gpu.set_guest_weight(guest, state.weight);
        gpu.set_doorbell_share(guest, state.doorbell_share);
        attach();
        let seat = state.seats.entry(place).or_default();
        seat.guest = Some(guest);
        let alone = seat.is_suspended;
        let is_suspended = alone || state.is_suspended;
        for (limit, most) in &state.limits {
            kernel.post(self.limit(guest, *limit, *most));
        }
        if is_suspended {
            tracing::warn!("the operator has suspended the guest");
            kernel.post(Command::SuspendGuest(guest));
        }
        for change in &state.changes {
            kernel.note(Some(guest), change.clone());
        }
    }

    /// The guest at a place is about to be detached.
    pub(super) fn detach(&self, place: u32) {
        if let Some(seat) = self.lock().seats.get_mut(&place) {
            seat.guest = None;
        }
    }

    /// The front end at a place has gone.
    pub(super) fn leave(&self, place: u32) {
        self.lock().seats.remove(&place);
    }

    /// Suspends the socket's guests, or resumes them. Returns the ends of the commands for those that are attached. A guest
    /// that is suspended by itself stays so.
    pub fn set_suspended(&self, kernel: &KernelHandle, suspended: bool) -> Vec<CommandEnd> {
        let mut state = self.lock();
        state.is_suspended = suspended;
        let seats = state.seats.values().filter(|seat| suspended || !seat.is_suspended);
        seats.filter_map(|seat| seat.guest).map(|guest| suspend(kernel, guest, suspended)).collect()
    }

    /// Suspends the guest at a place, or resumes it, until its front end goes. Returns the end of the command, if a guest is
    /// attached there. While the socket's guests are suspended it is not resumed.
    pub fn set_place_suspended(
        &self,
        kernel: &KernelHandle,
        place: u32,
        suspended: bool,
    ) -> Option<CommandEnd> {
        let mut state = self.lock();
        let all = state.is_suspended;
        let seat = state.seats.get_mut(&place)?;
        seat.is_suspended = suspended;
        let guest = seat.guest?;
        (suspended || !all).then(|| suspend(kernel, guest, suspended))
    }

    /// Sets the weight of the socket's guests together.
    pub fn set_weight(&self, gpu: &Gpu, weight: u32) {
        let mut state = self.lock();
        state.weight = weight;
        state.guests().for_each(|guest| gpu.set_guest_weight(guest, weight));
    }

    /// Sets how many physical doorbells are reserved for the socket's guests together.
    pub fn set_doorbell_share(&self, gpu: &Gpu, share: u32) {
        let mut state = self.lock();
        state.doorbell_share = share;
        state.guests().for_each(|guest| gpu.set_doorbell_share(guest, share));
    }

    /// Sets a limit of the socket's guests together.
    pub fn set_limit(&self, kernel: &KernelHandle, limit: GuestLimit, most: u32) {
        let mut state = self.lock();
        state.limits.retain(|(other, _)| *other != limit);
        state.limits.push((limit, most));
        state.guests().for_each(|guest| kernel.post(self.limit(guest, limit, most)));
    }

    /// Gives a guest its part of a limit of the socket's.
    fn limit(&self, guest: GuestId, limit: GuestLimit, most: u32) -> Command {
        Command::SetLimit { guest, limit, most: most / self.connections }
    }

    /// Remembers a change of what holds for the socket, for tools.
    pub fn note(&self, kernel: &KernelHandle, change: Change) {
        let mut state = self.lock();
        state.guests().for_each(|guest| kernel.note(Some(guest), change.clone()));
        state.changes.retain(|earlier| earlier.what != change.what);
        state.changes.push(change);
    }
}

fn suspend(kernel: &KernelHandle, guest: GuestId, suspended: bool) -> CommandEnd {
    let command =
        if suspended { Command::SuspendGuest(guest) } else { Command::ResumeGuest(guest) };
    kernel.begin_command(command)
}
