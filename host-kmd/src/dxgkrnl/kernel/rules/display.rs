// SPDX-License-Identifier: MIT OR Apache-2.0

//! A flip waits for paging and fences, and then for the hardware. Its end is told once, and its primary is let go when
//! the hardware no longer reads it: what ends waits for that. A flip that does not happen in time resets the display.
//!
//! Source: Windows KMD overview, "Flip/Present", "Interrupt" and "TDR".

use crate::dxgkrnl::display::flip::{FlipId, Outcomes, Surface};
use crate::dxgkrnl::display::source::{Shown, UnexpectedFlip};
use crate::dxgkrnl::kernel::Kernel;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::actions::flips::{ends_with, flip_slack, has_monitor};
use crate::dxgkrnl::kernel::actions::nodes::display_ddi;
use crate::dxgkrnl::kernel::work::Rule;
use crate::dxgkrnl::object::promises::Promise;
use crate::dxgkrnl::object::target::Target;
use crate::hardware::{DisplayPath, DisplayTicket, GpuOrdinal, GuestId};
use bellhop_protocol::event::{Event, EventKind, InputKind};
use std::collections::BTreeSet;
use std::time::Duration;
use zerocopy::FromZeros;

impl Kernel {
    /// When the first flip is too late.
    pub(crate) fn flip_deadline(&self) -> Option<Duration> {
        let deadlines = self.guests.values().filter_map(|guest| guest.display.deadline());
        deadlines.min().filter(|_| self.power.has_power())
    }

    /// Wakes the displays with a flip that is too late.
    pub(crate) fn wake_late_displays(&mut self) {
        if self.flip_deadline().is_some_and(|deadline| deadline <= self.now) {
            for (id, guest) in &self.guests {
                if guest.display.deadline().is_some_and(|deadline| deadline <= self.now) {
                    self.work.wake(Rule::Display(*id));
                }
            }
        }
    }

    /// Gives the hardware the flips of a guest that are ready, and resets its display if one did not happen.
    pub(crate) fn continue_display(&mut self, id: GuestId) {
        let Some(guest) = self.guests.get(&id) else { return };
        if guest.display.has_ready_flip() {
            self.ensure_power();
        }
        let (now, slack) = (self.now, flip_slack(self.timeout));
        // A reset loses the GPU's flips: none of them is late after it.
        while let Some(gpu) = self.late_display(id) {
            tracing::warn!(
                guest = id.0,
                gpu = gpu.0,
                resets = self.guests.get(&id).map(|guest| guest.display.resets()),
                "a flip did not happen in time; resetting the guest's display"
            );
            self.reset_display((id, gpu));
        }
        let Some(mut access) = self.access(id, 0) else { return };
        let mut outcomes = Outcomes::default();
        let ProcessAccess { guest, miniport, .. } = &mut access;
        if let Some(ddi) = miniport.display() {
            guest.display.advance(ddi, (now, slack), &mut outcomes);
        }
        access.finish_display(outcomes);
    }

    /// The GPU on which a guest's flip did not happen in time.
    fn late_display(&self, id: GuestId) -> Option<GpuOrdinal> {
        let guest = self.guests.get(&id).filter(|_| self.power.has_power())?;
        guest.display.late(self.miniport.display()?, self.now)
    }

    /// Resets a guest's display on a GPU: its flips are lost, what it shows comes back.
    pub(crate) fn reset_display(&mut self, (id, gpu): (GuestId, GpuOrdinal)) {
        let Some(mut access) = self.access(id, 0) else { return };
        let mut outcomes = Outcomes::default();
        let ProcessAccess { guest, miniport, .. } = &mut access;
        if let Some(ddi) = miniport.display() {
            guest.display.reset(ddi, gpu, &mut outcomes);
        }
        access.finish_display(outcomes);
    }

    /// A guest's monitors on a GPU show nothing any more, until one of its processes commits a topology. Without the
    /// master none shows anything.
    pub(crate) fn darken(&mut self, (id, gpu): (GuestId, GpuOrdinal)) {
        let times = (self.now, flip_slack(self.timeout));
        let Some(mut access) = self.access(id, 0) else { return };
        let mut outcomes = Outcomes::default();
        let ProcessAccess { guest, miniport, .. } = &mut access;
        let Some(ddi) = miniport.display() else { return };
        for process in guest.processes.keys().copied() {
            let stays = |path: &DisplayPath| {
                gpu != GpuOrdinal::MASTER && ddi.gpu_of_source(path.source) != gpu
            };
            let paths = guest.display.paths().of(process).iter().copied().filter(stays).collect();
            guest.display.commit(ddi, process, paths, times, &mut outcomes);
        }
        access.tell_agent_of_sources();
        access.finish_display(outcomes);
    }

    /// A target begins to end: displays no longer show what it takes with it.
    pub(crate) fn take_display(&mut self, (id, process): (GuestId, u32), target: Target) {
        let Some(mut access) = self.access(id, process) else { return };
        let mut outcomes = Outcomes::default();
        let ProcessAccess { guest, miniport, .. } = &mut access;
        let Some(ddi) = miniport.display() else { return };
        match target {
            Target::Process => guest.display.close(ddi, process, &mut outcomes),
            Target::Guest => {
                for process in guest.processes.keys().copied() {
                    guest.display.close(ddi, process, &mut outcomes);
                }
            }
            Target::Device(_) | Target::Allocation(_) => {
                let handles = &guest.handles;
                let is_lost = |surface: &Surface| ends_with(handles, process, target, surface);
                guest.display.take_away(ddi, is_lost, &mut outcomes);
            }
            Target::Doorbell(_) | Target::HwQueue(_) | Target::Context(_) => {}
        }
        access.tell_agent_of_sources();
        access.finish_display(outcomes);
        // Flips that waited for one that was taken away happen now.
        self.work.wake(Rule::Display(id));
    }

    /// Paging is done that a flip waited for. Its request is answered now, unless the flip is immediate.
    pub(crate) fn flip_paged(
        &mut self,
        id: GuestId,
        (flip, promise): (FlipId, Promise),
        failed: bool,
    ) {
        self.work.wake(Rule::Display(id));
        let waiting = self.guests.get_mut(&id).and_then(|guest| guest.display.waiting_flip(flip));
        // A flip that was lost meanwhile was told of.
        let Some(waiting) = waiting else { return self.outbox.answer(promise, Ok(Vec::new())) };
        (waiting.paging, waiting.hopeless) = (false, waiting.hopeless || failed);
        if waiting.immediate {
            waiting.promise = Some(promise);
        } else {
            self.outbox.answer(promise, Ok(Vec::new()));
        }
    }

    /// `DXGK_INTERRUPT_CRTC_VSYNC`. An interrupt from another target than the preferred one does not count, unless that
    /// was the preferred one when the flip was on its way.
    pub(crate) fn crtc_vsync(&mut self, id: GuestId, (source, target): (u32, u32), shown: Shown) {
        let Some(guest) = self.guests.get(&id) else { return };
        let Some(state) = guest.display.source(source) else { return };
        if !state.counts(target, shown.flip) {
            let expected = state.preferred_target();
            tracing::warn!(guest = id.0, source, target, expected, "a VSYNC of another target");
            return;
        }
        self.flip_shown(id, source, shown);
    }

    /// The hardware shows a flip.
    pub(crate) fn flip_shown(&mut self, id: GuestId, source: u32, shown: Shown) {
        let Some(mut access) = self.access(id, 0) else { return };
        let mut outcomes = Outcomes::default();
        if let Some(Err(error)) = access.guest.display.show(source, shown, &mut outcomes) {
            let UnexpectedFlip(flip) = error;
            tracing::warn!(guest = id.0, source, flip, %error, "the flip counts as not shown");
        }
        access.finish_display(outcomes);
        self.work.wake(Rule::Display(id));
    }

    /// The children whose monitors a guest has.
    pub(crate) fn monitors(&self, id: GuestId) -> BTreeSet<u32> {
        let Some((guest, ddi)) = self.guests.get(&id).zip(self.miniport.display()) else {
            return BTreeSet::new();
        };
        let children = (0..).zip(ddi.query_child_relations().connectors).map(|(child, _)| child);
        children.filter(|child| has_monitor(guest, ddi, *child)).collect()
    }

    /// A monitor was plugged in or unplugged.
    pub(crate) fn child_status_changed(&mut self, id: GuestId, child: u32) {
        let Some(mut access) = self.access(id, 0) else { return };
        let Ok(ddi) = display_ddi(access.miniport) else { return };
        let connected = has_monitor(access.guest, ddi, child);
        let generation = access.guest.display.count_plug(child);
        if access.guest.is_open() {
            access.event(Event {
                kind: EventKind::CHILD_STATUS_CHANGED,
                object: child.into(),
                value: connected.into(),
                cookie: generation.into(),
                ..Event::new_zeroed()
            });
        }
    }

    /// A viewer did something.
    pub(crate) fn display_input(
        &mut self,
        id: GuestId,
        source: u32,
        (kind, value): (InputKind, u64),
    ) {
        let Some(mut access) = self.access(id, 0) else { return };
        // Nobody shows what the viewer saw.
        let Some(process) = access.guest.display.source(source).map(|of| of.owner()) else {
            return;
        };
        access.event(Event {
            kind: EventKind::INPUT,
            process,
            object: source.into(),
            value: kind.0.into(),
            cookie: value,
            ..Event::new_zeroed()
        });
    }

    /// The hardware has let go of what was taken from it before a ticket.
    pub(crate) fn display_quiesced(&mut self, id: GuestId, ticket: DisplayTicket) {
        let Some(mut access) = self.access(id, 0) else { return };
        let mut outcomes = Outcomes::default();
        for promise in access.guest.display.quiesced(ticket, &mut outcomes) {
            access.answer(promise, Ok(Vec::new()));
        }
        access.finish_display(outcomes);
    }
}
