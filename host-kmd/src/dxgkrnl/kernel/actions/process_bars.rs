// SPDX-License-Identifier: MIT OR Apache-2.0

//! BARs of processes' own: made with their first process, and ended with the last one and with what engines know.

use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::memory::allocation::total_length;
use crate::dxgkrnl::memory::process_bar::Placed;
use crate::dxgkrnl::object::error::RequestError;
use crate::hardware::{ProcessBarId, Reported as _};
use bellhop_protocol::bar::BarLayout;
use bellhop_protocol::control::allocation::Extent;
use bellhop_protocol::control::fence::NOT_PUBLISHED;

impl ProcessAccess<'_> {
    /// Makes a BAR in these pages of the guest, for one process.
    pub(crate) fn make_process_bar(
        &mut self,
        layout: BarLayout,
        extents: &[Extent],
    ) -> Result<ProcessBarId, RequestError> {
        // No process can have more than its guest.
        let most = self.guest.resources.bar;
        for (field, count, most) in [
            ("doorbell_count", layout.doorbell_count, most.doorbell_count),
            ("fence_count", layout.fence_count, most.fence_count),
        ] {
            if count == 0 || count > most {
                return Err(RequestError::parameter(field, count.into()));
            }
        }
        let length = total_length(self.platform, self.guest_id, extents)?;
        if length != layout.end() {
            return Err(RequestError::parameter("the extents' length", length));
        }
        let bar = self.guest.process_bars.next_id();
        if !self.platform.add_process_bar(self.guest_id, bar, layout, extents)? {
            // The memory belonged to the guest when it was checked.
            let address = extents.first().map_or(0, |extent| extent.address);
            return Err(RequestError::parameter("an extent's address", address));
        }
        self.guest.process_bars.add(bar, layout);
        Ok(bar)
    }

    /// A process has a BAR no longer.
    pub(crate) fn leave_process_bar(&mut self, bar: ProcessBarId) {
        if self.guest.process_bars.leave(bar) {
            self.platform.remove_process_bar(self.guest_id, bar).reported();
        }
    }

    /// Refuses what a process with a BAR of its own cannot have.
    pub(crate) fn check_without_own_bar(&mut self, what: &'static str) -> Result<(), RequestError> {
        if self.process()?.bar().is_some() { Err(RequestError::NotSupported(what)) } else { Ok(()) }
    }

    /// Puts what this process has into its own BAR, if it has one. The caller has taken the slot.
    pub(crate) fn place_in_own_bar(&mut self, what: Placed) -> Result<(), RequestError> {
        let Some(bar) = self.process()?.bar() else { return Ok(()) };
        let layout = self.guest.process_bars.layout(bar);
        let place = self.guest.process_bars.take(bar, what).ok_or_else(|| match what {
            Placed::Doorbell(_) => RequestError::QuotaExceeded {
                what: "doorbells in the process's BAR",
                limit: layout.map_or(0, |layout| layout.doorbell_count).into(),
            },
            Placed::Fence(_) => RequestError::QuotaExceeded {
                what: "fences in the process's BAR",
                limit: layout.map_or(0, |layout| layout.fence_count).into(),
            },
        })?;
        match what {
            Placed::Doorbell(slot) => {
                self.platform.place_doorbell(self.guest_id, slot, Some(place))?;
            }
            Placed::Fence(slot) => self.platform.place_fence(self.guest_id, slot, Some(place))?,
        }
        Ok(())
    }

    /// Offset in this process's BAR of the published value of a fence.
    pub(crate) fn published_offset(&mut self, global: u32) -> Result<u64, RequestError> {
        let own = self.process()?.bar();
        let bars = &self.guest.process_bars;
        Ok(match (own, bars.find(Placed::Fence(global))) {
            (None, None) => self.guest.resources.bar.fence(global),
            (Some(own), Some(place)) if place.bar == own => {
                bars.layout(own).map_or(NOT_PUBLISHED, |layout| layout.fence(place.index))
            }
            // It is published in another BAR.
            _ => NOT_PUBLISHED,
        })
    }
}
