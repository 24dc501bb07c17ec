// SPDX-License-Identifier: MIT OR Apache-2.0

//! What holds for the guests of a socket, one after another: what the configuration says, and what the host's operator
//! has changed since.
//!
//! It belongs to the socket, so a guest cannot undo it by a reset of its device or by connecting again. The lock is held
//! while a guest is attached and while the operator changes something: whichever comes second sees the other.

use crate::control_plane::KernelHandle;
use crate::gpu::{Debts, Gpu};
use bellhop_host_kmd::hardware::GuestId;
use bellhop_host_kmd::port::{Command, CommandError, GuestLimit};
use bellhop_protocol::snapshot::Change;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// What holds for the guests of a socket.
#[derive(Debug)]
pub struct Standing {
    state: Mutex<State>,
    /// What its guests owe engines.
    debts: Arc<Debts>,
}

#[derive(Debug)]
struct State {
    weight: u32,
    /// Physical doorbells that are reserved; 0 stands for an equal share.
    doorbell_share: u32,
    is_suspended: bool,
    /// Limits that differ from the configuration's.
    limits: Vec<(GuestLimit, u32)>,
    /// The operator's changes, the newest of each kind, the oldest first. There are as many kinds as changes that hold
    /// for a socket.
    changes: Vec<Change>,
    /// The guest that is attached.
    guest: Option<GuestId>,
}

/// What tools see of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StandingInfo {
    /// The guest that is attached.
    pub guest: Option<GuestId>,
    /// Whether nothing of its guests executes.
    pub is_suspended: bool,
    /// The operator's changes, the newest of each kind.
    pub changes: Vec<Change>,
}

/// The end of a command that was sent.
pub type CommandEnd = oneshot::Receiver<Result<(), CommandError>>;

impl Standing {
    /// What the configuration says. A `doorbell_share` of 0 stands for an equal share.
    #[must_use]
    pub fn new(weight: u32, doorbell_share: u32) -> Self {
        let state = State {
            weight,
            doorbell_share,
            is_suspended: false,
            limits: Vec::new(),
            changes: Vec::new(),
            guest: None,
        };
        Self { state: Mutex::new(state), debts: Arc::default() }
    }

    /// No code panics while it holds the lock, so its content is consistent.
    #[expect(clippy::disallowed_methods, reason = "a lock that is held for a few stores")]
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What tools see.
    #[must_use]
    pub fn info(&self) -> StandingInfo {
        let State { guest, is_suspended, changes, .. } = &*self.lock();
        StandingInfo { guest: *guest, is_suspended: *is_suspended, changes: changes.clone() }
    }

    /// Attaches a guest by `attach`, with everything that holds for it before its first request.
    pub(super) fn attach(
        &self,
        gpu: &Gpu,
        kernel: &KernelHandle,
        guest: GuestId,
        attach: impl FnOnce(),
    ) {
        let mut state = self.lock();
        gpu.set_guest_weight(guest, state.weight);
        gpu.set_doorbell_share(guest, state.doorbell_share);
        gpu.set_guest_debts(guest, &self.debts);
        attach();
        state.guest = Some(guest);
        for (limit, most) in &state.limits {
            kernel.post(Command::SetLimit { guest, limit: *limit, most: *most });
        }
        if state.is_suspended {
            tracing::warn!("the operator has suspended the guests of this socket");
            kernel.post(Command::SuspendGuest(guest));
        }
        for change in &state.changes {
            kernel.note(Some(guest), change.clone());
        }
    }

    /// The guest is about to be detached.
    pub(super) fn detach(&self) {
        self.lock().guest = None;
    }

    /// Suspends the socket's guests, or resumes them. Returns the end of the command, if there is a guest.
    pub fn set_suspended(&self, kernel: &KernelHandle, suspended: bool) -> Option<CommandEnd> {
        let mut state = self.lock();
        state.is_suspended = suspended;
        let guest = state.guest?;
        let command =
            if suspended { Command::SuspendGuest(guest) } else { Command::ResumeGuest(guest) };
        Some(kernel.begin_command(command))
    }

    /// Sets the weight of the socket's guests.
    pub fn set_weight(&self, gpu: &Gpu, weight: u32) {
        let mut state = self.lock();
        state.weight = weight;
        if let Some(guest) = state.guest {
            gpu.set_guest_weight(guest, weight);
        }
    }

    /// Sets how many physical doorbells are reserved for the socket's guests.
    pub fn set_doorbell_share(&self, gpu: &Gpu, share: u32) {
        let mut state = self.lock();
        state.doorbell_share = share;
        if let Some(guest) = state.guest {
            gpu.set_doorbell_share(guest, share);
        }
    }

    /// Sets a limit of the socket's guests.
    pub fn set_limit(&self, kernel: &KernelHandle, limit: GuestLimit, most: u32) {
        let mut state = self.lock();
        state.limits.retain(|(other, _)| *other != limit);
        state.limits.push((limit, most));
        if let Some(guest) = state.guest {
            kernel.post(Command::SetLimit { guest, limit, most });
        }
    }

    /// Remembers a change of what holds for the socket, for tools.
    pub fn note(&self, kernel: &KernelHandle, change: Change) {
        let mut state = self.lock();
        if let Some(guest) = state.guest {
            kernel.note(Some(guest), change.clone());
        }
        state.changes.retain(|earlier| earlier.what != change.what);
        state.changes.push(change);
    }
}
