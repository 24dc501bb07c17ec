// SPDX-License-Identifier: MIT OR Apache-2.0

//! The interface to a guest that the conformance suite needs.

use anyhow::Context as _;
use bellhop_guest_umd::transport::broker::Broker;
use bellhop_guest_umd::transport::virtio_pci::VirtioPci;
use bellhop_guest_umd::transport::virtqueue::Descriptor;
use bellhop_guest_umd::transport::{DmaMemory, Transport, TransportError};

/// A transport that also offers actions that a driver must not take.
pub trait Guest: Transport {
    /// Whether other programs share the guest's device, so that this one has only what a broker gives it.
    fn is_shared(&self) -> bool {
        false
    }

    /// Offers descriptors to the control queue as they are, right or wrong; see
    /// [`ControlQueue::offer_raw`](bellhop_guest_umd::transport::control_queue::ControlQueue::offer_raw).
    ///
    /// # Errors
    /// When the device is gone or breaks the queue's rules.
    fn offer_raw(&self, descriptors: &[Descriptor]) -> Result<u32, TransportError>;

    /// Allocates guest memory with a known guest-physical address.
    ///
    /// # Errors
    /// When there is not enough.
    fn memory(&self, length: u64) -> Result<DmaMemory, TransportError>;

    /// Resets the device with everything in use, and restarts it.
    ///
    /// # Errors
    /// When the device does not survive it.
    fn reset(&self) -> anyhow::Result<()>;

    /// How the guest reaches its device, for people.
    fn reached(&self) -> String;

    /// A guest-physical address from which on the guest has no memory.
    fn end_of_memory(&self) -> u64;
}

/// More than a processor can address: no guest has memory there.
const NO_MEMORY: u64 = 1 << 52;

impl Guest for VirtioPci {
    fn offer_raw(&self, descriptors: &[Descriptor]) -> Result<u32, TransportError> {
        Self::offer_raw(self, descriptors)
    }

    fn memory(&self, length: u64) -> Result<DmaMemory, TransportError> {
        let length = usize::try_from(length).map_err(|_| TransportError::OutOfMemory(length))?;
        self.contiguous(length)
    }

    fn reset(&self) -> anyhow::Result<()> {
        Self::reset(self).context("the device cannot be reset")
    }

    fn reached(&self) -> String {
        let polled = if self.has_interrupts() { "" } else { ", without interrupts" };
        format!("over virtio-pci by {}{polled}", self.attachment())
    }

    fn end_of_memory(&self) -> u64 {
        NO_MEMORY
    }
}

/// Why a program behind a broker cannot do what a whole guest can.
const OF_THE_BROKER: &str =
    "a broker has this guest's device: its queues, memory and reset are the broker's";

impl Guest for Broker {
    fn is_shared(&self) -> bool {
        true
    }

    fn offer_raw(&self, _: &[Descriptor]) -> Result<u32, TransportError> {
        Err(TransportError::Protocol(OF_THE_BROKER.into()))
    }

    fn memory(&self, _: u64) -> Result<DmaMemory, TransportError> {
        Err(TransportError::Protocol(OF_THE_BROKER.into()))
    }

    fn reset(&self) -> anyhow::Result<()> {
        anyhow::bail!(OF_THE_BROKER)
    }

    fn reached(&self) -> String {
        "through the guest's broker".into()
    }

    fn end_of_memory(&self) -> u64 {
        NO_MEMORY
    }
}
