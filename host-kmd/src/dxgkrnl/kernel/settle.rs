// SPDX-License-Identifier: MIT OR Apache-2.0

//! Does the work that an input causes, until none is left.
//!
//! A rule that waits for the clock, an engine or a fence runs once for each input. A rule that waits for another
//! subsystem is woken by the rule that changes that subsystem.

use crate::dxgkrnl::kernel::Kernel;
use crate::dxgkrnl::kernel::rules::connect::answer_connects;
use crate::dxgkrnl::kernel::rules::migration::continue_migration;
use crate::dxgkrnl::kernel::work::{Rule, Work};
use crate::dxgkrnl::recovery::quiesced::Quiesced;

impl Kernel {
    /// Does all remaining work.
    pub(crate) fn settle(&mut self) {
        self.wake_what_waits();
        loop {
            while let Some(work) = self.next_work() {
                match work {
                    Work::Release(released) => self.continue_software_queue_of(released),
                    Work::Look(rule) => self.look(rule),
                }
            }
            // Last: what it looks at is settled.
            if !self.have_engines_passed_tickets() && !self.continue_gpu_power() {
                break;
            }
        }
        debug_assert!(self.is_settled(), "one more pass would do something");
    }

    /// Wakes the rules that wait for something outside the kernel.
    fn wake_what_waits(&mut self) {
        let is_due = |deadline: Option<_>| deadline.is_some_and(|deadline| deadline <= self.now);
        if is_due(self.tdr.deadline()) {
            self.work.wake(Rule::Recoveries);
        }
        if is_due(self.migration.deadline()) {
            self.work.wake(Rule::Migration);
        }
        if !self.terminations.is_empty() {
            self.work.wake(Rule::Terminations);
        }
        if self.power.next_step(self.quiesced.all, self.is_paging()).is_some() {
            self.work.wake(Rule::PowerDown);
        }
        self.wake_late_displays();
        self.wake_late_agents();
        self.wake_paging();
        self.have_engines_passed_tickets();
    }

    /// Wakes the paging of each guest that has paging under way.
    fn wake_paging(&mut self) {
        for guest in &self.paging {
            self.work.wake(Rule::Paging(*guest));
        }
    }

    /// If more tickets have passed since the last check, or some pass later for a guest, wakes the rules that wait for
    /// tickets. Returns whether that is so.
    ///
    /// Takes the interrupts first that engines raised before they passed the tickets: an interrupt says nothing about a
    /// queue that is destroyed when it is taken, so a hang would be forgotten.
    fn have_engines_passed_tickets(&mut self) -> bool {
        let quiesced = Quiesced::read(self.platform.as_ref());
        if quiesced == self.quiesced {
            return false;
        }
        self.quiesced = quiesced;
        self.interrupt();
        self.wake_paging();
        self.work.wake(Rule::PowerDown);
        self.work.wake(Rule::Terminations);
        self.work.wake(Rule::Retirements);
        true
    }

    fn next_work(&mut self) -> Option<Work> {
        if self.callbacks.doorbells.has_ended_connects() {
            self.work.wake(Rule::Connects);
        }
        self.work.pop()
    }

    fn look(&mut self, rule: Rule) {
        match rule {
            Rule::PowerUp => self.resume_after_power_up(),
            Rule::Recoveries => self.continue_recoveries(),
            Rule::Migration => {
                let Self { migration, guests, miniport, platform, work, now, .. } = self;
                let gpu = (miniport.as_ref(), platform.as_ref());
                continue_migration(migration, guests, gpu, work, *now);
            }
            Rule::Connects => answer_connects(&mut self.callbacks, &mut self.outbox),
            Rule::Paging(guest) => self.continue_paging(guest),
            Rule::Display(guest) => self.continue_display(guest),
            Rule::Agents => self.continue_agents(),
            // The list hands out the queues themselves.
            Rule::SoftwareQueues => {}
            Rule::PowerDown => self.continue_power_down(),
            Rule::Terminations => self.continue_terminations(),
            Rule::Retirements => self.release_retired(),
        }
    }

    /// Whether no rule could do more with what the kernel knows: the tickets that it has seen passed, and the
    /// completions that interrupts reported.
    fn is_settled(&self) -> bool {
        let is_paged = |guest| self.guests.get(guest).is_none_or(|guest| !guest.paging.has_ended());
        self.work.is_empty()
            && !self.callbacks.doorbells.has_ended_connects()
            && self.paging.iter().all(is_paged)
            && self.power.next_step(self.quiesced.all, self.is_paging()).is_none()
            && self.gpu_power.managed().all(|gpu| self.gpu_power_step(gpu).is_none())
            && !self.terminations.has_passed(&self.quiesced)
            && !self.retirements.has_passed(&self.quiesced, |guest, works| {
                self.guests.get(&guest).is_none_or(|guest| guest.paging.has_finished(works))
            })
    }
}
