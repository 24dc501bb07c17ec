// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tickets of a guest's displays: one of the chain has passed when each GPU has passed its own.

use crate::hardware::{DisplayTicket, GpuOrdinal, GuestId};
use std::collections::{BTreeMap, VecDeque};

/// A ticket of the chain that has not passed.
#[derive(Debug)]
struct Waiting {
    ticket: DisplayTicket,
    /// The tickets that GPUs have not passed.
    left: Vec<(GpuOrdinal, DisplayTicket)>,
}

/// The tickets of all guests. Of a guest for which none waits, nothing is kept.
#[derive(Debug, Default)]
pub(in crate::proxy) struct Tickets {
    /// The last ticket of any guest: each guest's grow.
    last: u64,
    waiting: BTreeMap<GuestId, VecDeque<Waiting>>,
}

impl Tickets {
    /// A ticket that passes when these GPUs have passed these tickets, none of which has been reported. At least one.
    pub(in crate::proxy) fn draw(
        &mut self,
        guest: GuestId,
        left: Vec<(GpuOrdinal, DisplayTicket)>,
    ) -> DisplayTicket {
        self.last += 1;
        let ticket = DisplayTicket(self.last);
        self.waiting.entry(guest).or_default().push_back(Waiting { ticket, left });
        ticket
    }

    /// A GPU has passed a ticket, and all of its own before it. Returns the last ticket of the chain that has passed
    /// because of it.
    pub(in crate::proxy) fn pass(
        &mut self,
        guest: GuestId,
        gpu: GpuOrdinal,
        passed: DisplayTicket,
    ) -> Option<DisplayTicket> {
        let waiting = self.waiting.get_mut(&guest)?;
        for one in waiting.iter_mut() {
            one.left.retain(|(of, ticket)| *of != gpu || *ticket > passed);
        }
        let mut last = None;
        while let Some(one) = waiting.pop_front_if(|one| one.left.is_empty()) {
            last = Some(one.ticket);
        }
        if waiting.is_empty() {
            self.waiting.remove(&guest);
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::MAX_GPUS;
    use proptest::prelude::*;

    const GUEST: GuestId = GuestId(1);

    proptest! {
        /// After any order in which GPUs pass their tickets, the chain has passed exactly those that all GPUs have.
        #[test]
        fn a_ticket_has_passed_when_every_gpu_has_passed_its_own(
            gpus in 1..=MAX_GPUS,
            steps in proptest::collection::vec((0..=MAX_GPUS, 1u64..3), 1..60),
        ) {
            let mut tickets = Tickets::default();
            let (mut drawn, mut passed) = (vec![0u64; gpus], vec![0u64; gpus]);
            // The GPUs' tickets that each of the chain's stands for, and the last that was reported.
            let mut of_chain: Vec<(DisplayTicket, Vec<u64>)> = Vec::new();
            let mut reported = DisplayTicket(0);
            for (step, by) in steps {
                if step >= gpus {
                    let own: Vec<_> = (0..gpus)
                        .map(|gpu| {
                            drawn[gpu] += by;
                            (GpuOrdinal(gpu as u8), DisplayTicket(drawn[gpu]))
                        })
                        .collect();
                    let ticket = tickets.draw(GUEST, own);
                    prop_assert!(of_chain.last().is_none_or(|(last, _)| *last < ticket));
                    of_chain.push((ticket, drawn.clone()));
                } else {
                    passed[step] = (passed[step] + by).min(drawn[step]);
                    let own = DisplayTicket(passed[step]);
                    let newly = tickets.pass(GUEST, GpuOrdinal(step as u8), own);
                    prop_assert!(newly.is_none_or(|newly| newly > reported));
                    reported = newly.unwrap_or(reported);
                }
                let has_passed =
                    |own: &[u64]| own.iter().zip(&passed).all(|(own, passed)| own <= passed);
                for (ticket, own) in &of_chain {
                    prop_assert_eq!(*ticket <= reported, has_passed(own));
                }
                let waits = of_chain.iter().any(|(_, own)| !has_passed(own));
                prop_assert_eq!(!tickets.waiting.is_empty(), waits, "nothing is kept in vain");
            }
        }
    }
}
