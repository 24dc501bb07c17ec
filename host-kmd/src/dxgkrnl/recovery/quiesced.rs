// SPDX-License-Identifier: MIT OR Apache-2.0

//! The tickets that have passed, as the kernel has seen them last.

use crate::hardware::{GuestId, Quiescence, Ticket};

/// The tickets that have passed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Quiesced {
    /// The latest that all engines have passed. What concerns no single guest's memory waits for no more.
    pub(crate) all: Ticket,
    /// The guests for which only earlier ones have passed.
    withheld: Vec<(GuestId, Ticket)>,
}

impl Quiesced {
    /// What the hardware says now.
    pub(crate) fn read(platform: &(impl Quiescence + ?Sized)) -> Self {
        // In this order: what withholds a ticket does so before the ticket counts as passed.
        let all = platform.quiesced();
        Self { all, withheld: platform.withheld() }
    }

    /// The latest ticket that has passed for a guest.
    pub(crate) fn of(&self, guest: GuestId) -> Ticket {
        let withheld = self.withheld.iter().filter(|(of, _)| *of == guest);
        withheld.map(|(_, ticket)| *ticket).fold(self.all, Ticket::min)
    }
}

#[cfg(test)]
impl From<Ticket> for Quiesced {
    /// Nothing is withheld.
    fn from(all: Ticket) -> Self {
        Self { all, withheld: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_withheld_from_the_guest_that_is_named_alone() {
        let withheld =
            vec![(GuestId(2), Ticket(7)), (GuestId(2), Ticket(4)), (GuestId(3), Ticket(9))];
        let quiesced = Quiesced { all: Ticket(8), withheld };
        assert_eq!(quiesced.of(GuestId(1)), Ticket(8));
        assert_eq!(quiesced.of(GuestId(2)), Ticket(4));
        // All engines have yet to pass the ticket.
        assert_eq!(quiesced.of(GuestId(3)), Ticket(8));
    }
}
