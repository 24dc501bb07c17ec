// SPDX-License-Identifier: MIT OR Apache-2.0

//! The tickets that an engine passes, and those that it withholds from guests whose workers may still reach memory.

use crate::gpu::shared::chip::{Chip, EnginePort, Withheld};
use crate::gpu::workers::mailboxes::ExitFlag;
use bellhop_host_kmd::hardware::{GuestId, Ticket};
use std::sync::Arc;

/// A killed worker that may still exist.
#[derive(Debug)]
struct Dying {
    exit: Arc<ExitFlag>,
    guest: GuestId,
    /// The last ticket that had passed for the guest.
    since: Ticket,
}

/// An engine's tickets.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    /// The last one that the engine has passed.
    passed: Ticket,
    dying: Vec<Dying>,
    /// What it has said of tickets that have not passed for some guests.
    withheld: Withheld,
}

impl Tickets {
    /// The last ticket that the engine has passed.
    pub(super) fn passed(&self) -> Ticket {
        self.passed
    }

    /// The engine passes this ticket.
    pub(super) fn pass(&mut self, ticket: u64) {
        self.passed = Ticket(ticket);
    }

    /// A guest's worker was killed, and owed memory since a ticket if it did. Until it has exited, no later ticket
    /// passes for the guest.
    pub(super) fn die(&mut self, guest: GuestId, owed_since: Option<Ticket>) -> Arc<ExitFlag> {
        let exit = Arc::new(ExitFlag::default());
        let since = owed_since.unwrap_or(self.passed);
        self.dying.push(Dying { exit: Arc::clone(&exit), guest, since });
        exit
    }

    /// Whether a killed worker may still exist.
    pub(super) fn has_dying(&self) -> bool {
        !self.dying.is_empty()
    }

    /// Says for which guests tickets have not passed, if that has changed: for these, whose workers owe memory since a
    /// ticket, and for those of killed workers.
    pub(super) fn withhold(
        &mut self,
        owed: impl Iterator<Item = (GuestId, Ticket)>,
        chip: &Chip,
        port: &EnginePort,
    ) {
        self.dying.retain(|dying| !dying.exit.is_set());
        let dying = self.dying.iter().map(|dying| (dying.guest, dying.since));
        let withheld: Withheld = dying.chain(owed).collect();
        if withheld != self.withheld {
            self.withheld.clone_from(&withheld);
            chip.withhold(port, withheld);
        }
    }
}
