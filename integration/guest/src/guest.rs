//! A guest as the conformance suite needs it.

use bellhop_guest_umd::transport::virtqueue::Descriptor;
use bellhop_guest_umd::transport::{DmaMemory, Transport, TransportError};

/// A transport that also does what no driver should.
pub trait Guest: Transport {
    /// Offers descriptors to the control queue as they are, right or wrong; see
    /// [`ControlQueue::offer_raw`](bellhop_guest_umd::transport::control_queue::ControlQueue::offer_raw).
    ///
    /// # Errors
    /// When the device is gone or breaks the queue's rules.
    fn offer_raw(&self, descriptors: &[Descriptor]) -> Result<u32, TransportError>;

    /// Some of the guest's memory, whose guest-physical address is known.
    ///
    /// # Errors
    /// When there is not enough.
    fn memory(&self, length: u64) -> Result<DmaMemory, TransportError>;

    /// A guest-physical address from which on the guest has no memory.
    fn end_of_memory(&self) -> u64;
}
