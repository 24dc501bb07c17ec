//! When page tables are looked at for what engines use: see `vidmm::migration`.
//!
//! That is every so often while an engine is awake, and once after somebody asked for something that
//! may have woken one, as with [`super::tdr`]: a daemon whose engines all sleep is not woken.

use super::kernel::Kernel;
use crate::hardware::GuestId;
use crate::port::Effect;
use crate::vidmm::step::Mapping;
use bellhop_protocol::features::Features;
use std::time::Duration;

/// From one look to the next.
const PERIOD: Duration = Duration::from_millis(250);

/// Page migration of the guests that took the feature.
#[derive(Debug, Default)]
pub(super) struct Migration {
    next_look: Option<Duration>,
}

impl Migration {
    /// When page tables are looked at next.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.next_look
    }
}

impl Kernel {
    /// A guest asked for something that may wake an engine.
    pub(super) fn watch_use(&mut self, guest: GuestId) {
        let guest = self.guests.get(&guest);
        if guest.is_some_and(|guest| guest.features.contains(Features::PAGE_MIGRATION)) {
            self.migration.next_look.get_or_insert(self.now.saturating_add(PERIOD));
        }
    }

    /// Looks at what is used, if that is due.
    pub(super) fn continue_migration(&mut self, effects: &mut Vec<Effect>) {
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
            // What is not where VidMm has decided that it is yet is looked at another time.
            let takes_part = guest.features.contains(Features::PAGE_MIGRATION);
            if !takes_part || guest.detaching || guest.paging.is_busy() {
                continue;
            }
            let was_used = |mapping: &Mapping| {
                hardware.take_accessed(mapping.space, mapping.gpu_va, mapping.length)
            };
            match guest.vidmm.look(was_used) {
                Ok(found) => looked |= found,
                Err(error) => tracing::error!(guest = id.0, %error, "VidMm cannot look"),
            }
            self.begin_paging(id, 0, None, effects);
        }
        if looked {
            self.hardware.forget_translations();
        }
    }
}
