// SPDX-License-Identifier: MIT OR Apache-2.0

//! A flip, and how it ends.

use crate::ddi::paging::AllocationId;
use crate::dxgkrnl::fence::waits::WaitId;
use crate::dxgkrnl::object::promises::Promise;
use crate::hardware::{PhysicalAddress, SourceAddress};
use bellhop_protocol::control::Handle;
use bellhop_protocol::event::FlipOutcome;

/// Names a flip of a guest. It gets a new id when it is given to the hardware, which knows it by that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FlipId(pub(crate) u64);

/// An allocation that a display may read. Each surface keeps its allocation resident and in its place once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Surface {
    /// The process.
    pub(crate) process: u32,
    /// Its allocation.
    pub(crate) allocation: Handle,
    /// The allocation's id in VidMm, if it is paged.
    pub(crate) paged: Option<AllocationId>,
}

/// A picture of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Primary {
    /// The flip that shows it.
    pub(crate) id: FlipId,
    /// The driver's number for that flip.
    pub(crate) number: u64,
    /// Its allocation.
    pub(crate) surface: Surface,
    /// Its first pixel.
    pub(crate) base: PhysicalAddress,
    /// Bytes from one line to the next.
    pub(crate) pitch: u32,
}

impl Primary {
    /// The address for the hardware.
    pub(crate) fn address(&self, immediate: bool) -> SourceAddress {
        let Self { id: FlipId(flip), number, base, pitch, .. } = *self;
        SourceAddress { flip, number, base, pitch, immediate }
    }
}

/// A flip that has not ended.
#[derive(Debug)]
pub(crate) struct Flip {
    /// What it shows.
    pub(crate) primary: Primary,
    /// Whether it happens at the end of a line.
    pub(crate) immediate: bool,
    /// Whether it drops earlier flips.
    pub(crate) replace: bool,
    /// Whether paging that its primary needs is under way.
    pub(crate) paging: bool,
    /// The wait for its fences, if they have not had their values.
    pub(crate) wait: Option<WaitId>,
    /// Whether it can never happen: a fence was closed, or paging failed.
    pub(crate) hopeless: bool,
    /// The request to answer when it ends.
    pub(crate) promise: Option<Promise>,
}

impl Flip {
    /// Names it.
    pub(crate) fn id(&self) -> FlipId {
        self.primary.id
    }

    /// Whether it can happen now.
    pub(crate) fn is_ready(&self) -> bool {
        !self.paging && self.wait.is_none() && !self.hopeless
    }
}

/// A flip that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its source.
    pub(crate) source: u32,
    /// The flip.
    pub(crate) flip: Flip,
    /// How it ended.
    pub(crate) outcome: FlipOutcome,
    /// VSYNCs of the source by then.
    pub(crate) count: u64,
    /// When, in ticks of the adapter's clock; of the last VSYNC if it was not shown.
    pub(crate) time: u64,
}

/// What a change of a display leads to.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    /// Flips that ended, in order.
    pub(crate) ended: Vec<Ended>,
    /// Surfaces that no display reads any more.
    pub(crate) released: Vec<Surface>,
    /// Surfaces that were taken from the display, which may still read them.
    pub(crate) taken: Vec<Surface>,
}
