// SPDX-License-Identifier: MIT OR Apache-2.0

//! Retirements: resources that wait until engines have forgotten them, in ticket order.

use crate::dxgkrnl::object::completion::Completion;
use crate::dxgkrnl::object::resource::Resource;
use crate::dxgkrnl::recovery::quiesced::Quiesced;
use crate::hardware::{GuestId, Ticket};
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct Retirement {
    pub(crate) ticket: Ticket,
    pub(crate) guest: GuestId,
    /// Number of the guest's paging works that must be done first, because they may still write entries.
    pub(crate) works: u64,
    pub(crate) resources: Vec<Resource>,
    pub(crate) completion: Completion,
}

/// Retirements in ticket order.
#[derive(Debug, Default)]
pub(crate) struct Retirements(VecDeque<Retirement>);

impl Retirements {
    /// Adds a retirement.
    pub(crate) fn push(&mut self, retirement: Retirement) {
        self.0.push_back(retirement);
    }

    /// Whether a retirement can be taken.
    pub(crate) fn has_passed(
        &self,
        quiesced: &Quiesced,
        has_finished: impl Fn(GuestId, u64) -> bool,
    ) -> bool {
        self.first_passed(quiesced, has_finished).is_some()
    }

    fn first_passed(
        &self,
        quiesced: &Quiesced,
        has_finished: impl Fn(GuestId, u64) -> bool,
    ) -> Option<usize> {
        let has_passed = |retirement: &&Retirement| retirement.ticket <= quiesced.all;
        let mut passed = self.0.iter().take_while(has_passed);
        passed.position(|Retirement { ticket, guest, works, .. }| {
            *ticket <= quiesced.of(*guest) && has_finished(*guest, *works)
        })
    }

    /// Takes the first retirement that engines and paging have passed. No guest waits for another guest's paging or
    /// memory.
    pub(crate) fn take_passed(
        &mut self,
        quiesced: &Quiesced,
        has_finished: impl Fn(GuestId, u64) -> bool,
    ) -> Option<Retirement> {
        let index = self.first_passed(quiesced, has_finished)?;
        self.0.remove(index)
    }
}
