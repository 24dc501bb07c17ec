// SPDX-License-Identifier: MIT OR Apache-2.0

//! What waits for engines to forget it, in the order of tickets.

use crate::dxgkrnl::object::completion::Completion;
use crate::dxgkrnl::object::resource::Resource;
use crate::hardware::{GuestId, Ticket};
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct Retirement {
    pub(crate) ticket: Ticket,
    pub(crate) guest: GuestId,
    /// How many works of the guest's paging have to be done: they may still write entries.
    pub(crate) works: u64,
    pub(crate) resources: Vec<Resource>,
    pub(crate) completion: Completion,
}

/// What waits for engines, in the order of the tickets.
#[derive(Debug, Default)]
pub(crate) struct Retirements(VecDeque<Retirement>);

impl Retirements {
    /// Something waits from now on.
    pub(crate) fn push(&mut self, retirement: Retirement) {
        self.0.push_back(retirement);
    }

    /// Whether engines have forgotten something that waits.
    pub(crate) fn has_passed(
        &self,
        quiesced: Ticket,
        has_finished: impl Fn(GuestId, u64) -> bool,
    ) -> bool {
        self.first_passed(quiesced, has_finished).is_some()
    }

    fn first_passed(
        &self,
        quiesced: Ticket,
        has_finished: impl Fn(GuestId, u64) -> bool,
    ) -> Option<usize> {
        let has_passed = |retirement: &&Retirement| retirement.ticket <= quiesced;
        let mut passed = self.0.iter().take_while(has_passed);
        passed.position(|retirement| has_finished(retirement.guest, retirement.works))
    }

    /// Takes the first that nothing needs any more. No guest waits for another guest's paging.
    pub(crate) fn take_passed(
        &mut self,
        quiesced: Ticket,
        has_finished: impl Fn(GuestId, u64) -> bool,
    ) -> Option<Retirement> {
        let index = self.first_passed(quiesced, has_finished)?;
        self.0.remove(index)
    }
}
