// SPDX-License-Identifier: MIT OR Apache-2.0

//! BARs of processes' own, in the guest's memory.

use super::{GuestId, UnknownId};
use bellhop_protocol::bar::BarLayout;
use bellhop_protocol::control::allocation::Extent;

/// Names a BAR of a guest's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessBarId(pub u32);

/// Where a doorbell or a fence of a process with a BAR of its own is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessBarPlace {
    /// The BAR.
    pub bar: ProcessBarId,
    /// The doorbell or the fence there.
    pub index: u32,
}

/// BARs of processes' own.
pub trait ProcessBars {
    /// Makes a BAR in the guest's memory and writes its header. The extents are together as long as the BAR. Returns false if
    /// the guest does not have that memory.
    ///
    /// # Errors
    /// Fails for a guest that does not exist.
    fn add_process_bar(
        &self,
        guest: GuestId,
        bar: ProcessBarId,
        layout: BarLayout,
        extents: &[Extent],
    ) -> Result<bool, UnknownId>;

    /// Forgets a BAR in which nothing is placed any more.
    ///
    /// # Errors
    /// Fails for a guest that does not exist.
    fn remove_process_bar(&self, guest: GuestId, bar: ProcessBarId) -> Result<(), UnknownId>;

    /// Puts what belongs to a doorbell slot of the guest, which no engine knows, into such a BAR; with `None` it is in the
    /// guest's BAR again.
    ///
    /// # Errors
    /// Fails for a guest, a slot or a place that does not exist.
    fn place_doorbell(
        &self,
        guest: GuestId,
        slot: u32,
        place: Option<ProcessBarPlace>,
    ) -> Result<(), UnknownId>;

    /// Has the CurrentValue of a fence slot of the guest, which no engine knows, published in such a BAR, or as others with
    /// `None`.
    ///
    /// # Errors
    /// Fails for a guest, a slot or a place that does not exist.
    fn place_fence(
        &self,
        guest: GuestId,
        slot: u32,
        place: Option<ProcessBarPlace>,
    ) -> Result<(), UnknownId>;
}
