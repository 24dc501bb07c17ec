// SPDX-License-Identifier: MIT OR Apache-2.0

//! When the kernel checks in page tables what engines use: see `vidmm::migration`.
//!
//! It checks periodically while an engine is awake, and once after an input that may have woken one, like
//! [`super::recovery`]. It does not wake the daemon while all engines sleep.

use crate::ddi::Miniport;
use crate::dxgkrnl::kernel::guest::Guest;
use crate::dxgkrnl::kernel::work::{Rule, WorkList};
use crate::dxgkrnl::memory::migration::{Migration, PERIOD};
use crate::hardware::{GuestId, Platform, Reported as _};
use crate::vidmm::step::Mapping;
use bellhop_protocol::features::Features;
use std::collections::BTreeMap;
use std::time::Duration;

/// A guest's request may wake an engine: schedules a check.
pub(crate) fn watch_use(migration: &mut Migration, guest: Option<&Guest>, now: Duration) {
    if guest.is_some_and(|guest| guest.features().contains(Features::PAGE_MIGRATION)) {
        migration.next_look.get_or_insert(now.saturating_add(PERIOD));
    }
}

/// Checks what engines used, if a check is due.
pub(crate) fn continue_migration(
    migration: &mut Migration,
    guests: &mut BTreeMap<GuestId, Guest>,
    (miniport, platform): (&dyn Miniport, &dyn Platform),
    work: &mut WorkList,
    now: Duration,
) {
    if migration.next_look.is_none_or(|time| time > now) {
        return;
    }
    let mut nodes = 0..miniport.node_count();
    let is_awake = nodes.any(|node| !miniport.query_engine_status(node).is_asleep);
    migration.next_look = is_awake.then(|| now.saturating_add(PERIOD));
    let mut looked = false;
    for (id, guest) in guests {
        // While paging is under way, memory may not yet be where VidMm has placed it.
        let takes_part = guest.features().contains(Features::PAGE_MIGRATION);
        if !takes_part || guest.is_detaching() || guest.paging.is_busy() {
            continue;
        }
        let was_used = |mapping: &Mapping| {
            platform.take_accessed(mapping.space, mapping.gpu_va, mapping.length).reported()
        };
        match guest.vidmm.look(was_used) {
            Ok(found) => looked |= found,
            Err(error) => tracing::error!(guest = id.0, %error, "VidMm cannot look"),
        }
        work.wake(Rule::Paging(*id));
    }
    if looked {
        platform.forget_translations();
    }
}
