// SPDX-License-Identifier: MIT OR Apache-2.0

//! An agent changes what monitors show with the consent of those who show something. The kernel passes its question on to
//! each of them. It takes the sources of who does not answer, and tells the agent when other processes begin or cease to
//! show something.
//!
//! Source: Windows KMD overview, "EEU" ("Change the topology").

use super::agent::wanted;
use crate::dxgkrnl::agent::consent::Settled;
use crate::dxgkrnl::display::flip::Outcomes;
use crate::dxgkrnl::kernel::Kernel;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::actions::agents::{tell_agent, topology_wish};
use crate::dxgkrnl::kernel::actions::flips::flip_slack;
use crate::dxgkrnl::kernel::guest::Guest;
use crate::dxgkrnl::kernel::work::Rule;
use crate::dxgkrnl::object::promises::Promise;
use crate::hardware::GuestId;
use bellhop_protocol::control::agent::consent::{AskForConsent, Consent};
use bellhop_protocol::event::{Event, EventKind};
use std::collections::BTreeSet;
use std::time::Duration;
use zerocopy::{FromZeros, IntoBytes};

/// The processes other than the agent that show something, and the sources of each.
fn others(guest: &Guest) -> impl Iterator<Item = (u32, u64)> {
    let agent = guest.agency.process();
    guest.display.paths().shown().filter(move |(process, _)| Some(*process) != agent)
}

/// All sources of processes other than the agent.
fn sources_of_others(guest: &Guest) -> u64 {
    others(guest).fold(0, |all, (_, sources)| all | sources)
}

impl Kernel {
    /// The agent asks those who show something.
    pub(crate) fn ask_for_consent(
        &mut self,
        id: GuestId,
        promise: Promise,
        request: &AskForConsent,
    ) {
        let Some(guest) = self.guests.get_mut(&id) else { return };
        let asked: BTreeSet<u32> = others(guest).map(|(process, _)| process).collect();
        let patience = Duration::from_millis(request.patience_ms.into());
        let deadline = self.now.saturating_add(patience);
        let number = guest.agency.consents.ask(promise, asked.clone(), deadline);
        let event = wanted(&topology_wish(request), number);
        let value = event.value | u64::from(request.patience_ms) << 32;
        for process in asked {
            let event = Event { kind: EventKind::CONSENT_WANTED, process, value, ..event };
            self.outbox.event(id, event);
        }
        self.work.wake(Rule::Agents);
    }

    /// Ends the questions that are settled, and tells agents who shows something now.
    pub(crate) fn continue_consents(&mut self) {
        let with_agent = |(id, guest): (&GuestId, &Guest)| guest.agency.process().map(|_| *id);
        let guests: Vec<GuestId> = self.guests.iter().filter_map(with_agent).collect();
        for id in guests {
            self.continue_consent(id);
        }
    }

    fn continue_consent(&mut self, id: GuestId) {
        let now = self.now;
        let Some(guest) = self.guests.get_mut(&id) else { return };
        let showing = others(guest).map(|(process, _)| process).collect();
        let settled = guest.agency.consents.settle(&showing, now);
        if let Some(Settled { silent, .. }) = &settled {
            self.take_sources(id, silent);
        }
        let Some(guest) = self.guests.get_mut(&id) else { return };
        let sources = sources_of_others(guest);
        if let Some(Settled { promise, answer, .. }) = settled {
            let consent = Consent { sources, answer };
            self.outbox.answer(promise, Ok(consent.as_bytes().to_vec()));
        }
        if guest.agency.consents.must_tell(sources) {
            let kind = EventKind::SOURCES_CHANGED;
            let event = Event { kind, value: sources, ..Event::new_zeroed() };
            tell_agent(guest, &mut self.outbox, event);
        }
    }

    /// Takes their sources from processes, and tells them.
    fn take_sources(&mut self, id: GuestId, processes: &BTreeSet<u32>) {
        let times = (self.now, flip_slack(self.timeout));
        let Some(mut access) = self.access(id, 0) else { return };
        let mut outcomes = Outcomes::default();
        let ProcessAccess { guest, miniport, outbox, .. } = &mut access;
        let Some(ddi) = miniport.display() else { return };
        for process in processes.iter().copied() {
            guest.display.commit(ddi, process, Vec::new(), times, &mut outcomes);
            let kind = EventKind::SOURCES_CHANGED;
            outbox.event(id, Event { kind, process, ..Event::new_zeroed() });
        }
        access.finish_display(outcomes);
    }
}
