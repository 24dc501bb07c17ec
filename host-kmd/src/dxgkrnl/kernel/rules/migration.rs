// SPDX-License-Identifier: MIT OR Apache-2.0

//! When the kernel checks in page tables what engines use: see `vidmm::migration`.
//!
//! It checks periodically while an engine is awake, and once after an input that may have woken one, like
//! [`super::recovery`]. It does not wake the daemon while all engines sleep.

use crate::dxgkrnl::kernel::Kernel;
use crate::dxgkrnl::kernel::work::Rule;
use crate::dxgkrnl::memory::migration::PERIOD;
use crate::hardware::{GuestId, Reported as _};
use crate::vidmm::step::Mapping;
use bellhop_protocol::features::Features;

impl Kernel {
    /// A guest's request may wake an engine: schedules a check.
    pub(crate) fn watch_use(&mut self, guest: GuestId) {
        let guest = self.guests.get(&guest);
        if guest.is_some_and(|guest| guest.features().contains(Features::PAGE_MIGRATION)) {
            self.migration.next_look.get_or_insert(self.now.saturating_add(PERIOD));
        }
    }

    /// Checks what engines used, if a check is due.
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
            // While paging is under way, memory may not yet be where VidMm has placed it.
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
