// SPDX-License-Identifier: MIT OR Apache-2.0

//! Flips that end, and surfaces that displays let go.

use crate::ddi::display::DisplayDdi;
use crate::dxgkrnl::display::flip::{Ended, Outcomes, Surface};
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::guest::Guest;
use crate::dxgkrnl::kernel::objects::KernelObject;
use crate::dxgkrnl::kernel::work::Rule;
use crate::dxgkrnl::memory::allocation::Allocation;
use crate::dxgkrnl::object::handles::Handles;
use crate::dxgkrnl::object::target::Target;
use crate::dxgkrnl::recovery::termination::Ending;
use crate::hardware::DisplayTicket;
use bellhop_protocol::control::Handle;
use bellhop_protocol::event::{Event, EventKind};
use std::time::Duration;
use zerocopy::FromZeros;

/// Whether a target takes a surface with it when it ends.
pub(crate) fn ends_with(
    handles: &Handles<KernelObject>,
    process: u32,
    target: Target,
    surface: &Surface,
) -> bool {
    let is_of_process = surface.process == process;
    match target {
        Target::Guest => true,
        Target::Process => is_of_process,
        Target::Allocation(allocation) => is_of_process && surface.allocation == allocation,
        Target::Device(device) => {
            let allocation = handles.get::<Allocation>(process, surface.allocation);
            is_of_process && allocation.is_ok_and(|of| of.devices().all(|on| on == device))
        }
        Target::Doorbell(_) | Target::HwQueue(_) | Target::Context(_) => false,
    }
}

/// Whether a display may still read what a target takes with it.
pub(crate) fn is_shown(guest: &Guest, ending: &Ending) -> bool {
    let Ending { process, target, .. } = *ending;
    guest.display.needs(|surface| ends_with(&guest.handles, process, target, surface))
}

/// Whether a guest has a child's monitor: it has none of a GPU that was taken away.
pub(crate) fn has_monitor(guest: &Guest, ddi: &dyn DisplayDdi, child: u32) -> bool {
    guest.presence.has(ddi.gpu_of_child(child)) && ddi.query_child_status(guest.id, child)
}

/// How much longer than some intervals of its monitor a flip may take: a host may be busy.
pub(crate) fn flip_slack(timeout: Duration) -> Duration {
    timeout / 4
}

impl ProcessAccess<'_> {
    /// Tells of flips that ended, and lets surfaces go. Returns the ticket for those that the hardware may still read.
    pub(crate) fn finish_display(&mut self, mut outcomes: Outcomes) -> Option<DisplayTicket> {
        let Self { guest, miniport, .. } = self;
        let ddi = miniport.display()?;
        let ticket = guest.display.let_go(ddi, &mut outcomes);
        let Outcomes { ended, released, .. } = outcomes;
        for ended in ended {
            self.end_flip(ended);
        }
        if !released.is_empty() {
            // VidMm may move them again, and destroy them.
            self.work.wake(Rule::Paging(self.guest_id));
            self.work.wake(Rule::Terminations);
        }
        for surface in released {
            self.release_surface(surface);
        }
        ticket
    }

    fn end_flip(&mut self, ended: Ended) {
        self.guest.display.count(&ended);
        let Ended { source, flip, outcome, count, time } = ended;
        self.drop_waits(flip.wait);
        self.event(Event {
            kind: EventKind::FLIPPED,
            process: flip.primary.surface.process,
            object: source.into(),
            value: flip.primary.number,
            cookie: count,
            time,
            outcome,
            ..Event::new_zeroed()
        });
        if let Some(promise) = flip.promise {
            self.answer(promise, Ok(Vec::new()));
        }
    }

    /// A surface's allocation may move and be evicted again.
    pub(crate) fn release_surface(&mut self, surface: Surface) {
        let Surface { process, allocation, paged } = surface;
        let Some(id) = paged else { return };
        let vidmm = &mut self.guest.vidmm;
        if let Err(error) = vidmm.unpin(id).and_then(|()| vidmm.evict(process, allocation, id)) {
            tracing::error!(guest = self.guest_id.0, %allocation, %error, "a primary is missing");
        }
    }

    /// Whether a display may read an allocation of the process.
    pub(crate) fn is_displayed(&self, allocation: Handle) -> bool {
        let process = self.process_id;
        let is_it =
            |surface: &Surface| surface.process == process && surface.allocation == allocation;
        self.guest.display.needs(is_it)
    }
}
