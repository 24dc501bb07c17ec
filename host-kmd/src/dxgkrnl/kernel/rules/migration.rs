// SPDX-License-Identifier: MIT OR Apache-2.0

//! When page tables are looked at for what engines use: see `vidmm::migration`.
//!
//! That is periodic while an engine is awake, and happens once after an input that may have woken one, as with
//! [`super::recovery`]. It does not wake a daemon while all engines sleep.

use crate::dxgkrnl::kernel::Kernel;
use crate::dxgkrnl::kernel::work::Rule;
use crate::dxgkrnl::memory::migration::PERIOD;
use crate::hardware::{GuestId, Reported as _};
use crate::vidmm::step::Mapping;
use bellhop_protocol::features::Features;

impl Kernel {
    /// A request of a guest may wake an engine.
    pub(crate) fn watch_use(&mut self, guest: GuestId) {
        let guest = self.guests.get(&guest);
        if guest.is_some_and(|guest| guest.features().contains(Features::PAGE_MIGRATION)) {
            self.migration.next_look.get_or_insert(self.now.saturating_add(PERIOD));
        }
    }

    /// Looks at what engines used, if that is due.
    pub(crate) fn continue_migration(&mut self) {
        if self.migration.next_look.is_none_or(|time| time > self.now) {
            return;
        }
        let mut nodes = 0..self.miniport.node_count();
        let is_awake = nodes.any(|node| !self.miniport.query_engine_status(node).is_asleep);
        self.migration.next_look = is_awake.then(|| self.now.saturating_add(PERIOD));
        let mut looked = false;
        for id in self.guests.keys().copied().collect::<Vec<_>>() {
            let hardware = &self.hardware;
            let Some(guest) = self.guests.get_mut(&id) else { continue };
            // While paging is under way, memory is not yet where VidMm has decided that it is.
            let takes_part = guest.features().contains(Features::PAGE_MIGRATION);
            if !takes_part || guest.is_detaching() || guest.paging.is_busy() {
                continue;
            }
            let was_used = |mapping: &Mapping| {
                hardware.take_accessed(mapping.space, mapping.gpu_va, mapping.length).reported()
            };
            match guest.vidmm.look(was_used) {
                Ok(found) => looked |= found,
                Err(error) => tracing::error!(guest = id.0, %error, "VidMm cannot look"),
            }
            self.work.wake(Rule::Paging(id));
        }
        if looked {
            self.hardware.forget_translations();
        }
    }
}
