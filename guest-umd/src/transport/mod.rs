// SPDX-License-Identifier: MIT OR Apache-2.0

//! A driver's access to its device: BAR, control queue, event queue, memory.
//!
//! The rest of the crate uses only the trait [`Transport`], so that it runs unchanged in a VM ([`virtio_pci`]), in a
//! container or beside the daemon (`vhost_user`, the feature `vhost-user`), and in a program that shares its guest's device with
//! others (`broker`, the feature `broker`).

#[cfg(feature = "broker")]
pub mod broker;
pub mod control_queue;
pub mod device_queues;
mod dma;
mod donations;
pub mod event_queue;
mod file;
pub mod find;
mod polling;
#[cfg(test)]
mod testing;
#[cfg(feature = "vhost-user")]
pub mod vhost_user;
pub mod virtio_pci;
pub mod virtqueue;
mod watched;

pub use dma::DmaMemory;
pub use donations::Donations;
pub use polling::Polling;
pub(crate) use watched::{Gone, Watched};

use bellhop_protocol::config::ConfigSpace;
use bellhop_protocol::control::allocation::Extent;
use bellhop_protocol::event::Event;
use bellhop_protocol::features::Features;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;
use vm_memory::MmapRegion;

/// Why the device could not be reached.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The device is gone, with all its queues.
    #[error("the device is gone: {0}")]
    Disconnected(String),
    /// Another device replaced it, for example because its daemon restarted. The processes, queues, fences and
    /// donated areas of the first device are gone.
    #[error(
        "another device took the place of this one, and what this program created is gone; open the \
         device and its adapter again"
    )]
    Replaced,
    /// The device broke the rules of the transport.
    #[error("the device broke the transport's rules: {0}")]
    Protocol(String),
    /// The guest has no memory left that the device can access.
    #[error("the guest has no {0} bytes of memory left that the device can reach")]
    OutOfMemory(u64),
    /// The guest's memory is in pieces that are too small for a virtqueue's buffer.
    #[error(
        "the guest has no {0} bytes of memory in one piece, which a virtqueue's buffers need; write \
         madvise to /sys/kernel/mm/transparent_hugepage/enabled, or 1 to /proc/sys/vm/compact_memory, \
         or give the VM more memory (Linux has no huge pages below 512 MiB)"
    )]
    Fragmented(u64),
    /// No driver in the guest's kernel gives access to the device.
    #[error(
        "{address} is bound to {driver}; bind it to vfio-pci where the VM has an IOMMU, else to \
         uio_pci_generic: write the address to /sys/bus/pci/devices/{address}/driver/unbind if a \
         driver has it (Debian's kernels give it to virtio-pci), the name to \
         /sys/bus/pci/devices/{address}/driver_override, and the address to \
         /sys/bus/pci/drivers_probe"
    )]
    NotAttached {
        /// The device's PCI address.
        address: String,
        /// The driver in the guest's kernel that is bound to the device.
        driver: String,
    },
    /// The daemon behind a socket refused a step of the vhost-user conversation, or is gone.
    #[error("vhost-user: {what}: {reason}")]
    VhostUser {
        /// The step that failed.
        what: &'static str,
        /// The reason.
        reason: String,
    },
    /// The operating system refused an operation.
    #[error("{0}: {1}")]
    Io(&'static str, std::io::Error),
}

/// The processor's treatment of accesses to a mapping.
///
/// The guest's kernel requests a type, and a hypervisor may override it: this is the weakest type that the mapping
/// may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryType {
    /// Ordinary memory.
    WriteBack,
    /// The processor combines stores, which become visible in any order until a fence. Loads are slow.
    WriteCombining,
    /// Each access goes to the bus on its own and in order.
    Uncached,
}

impl MemoryType {
    /// Returns whether a store needs a full fence, beyond release semantics, to become visible before later stores.
    #[must_use]
    pub const fn needs_store_fence(self) -> bool {
        matches!(self, Self::WriteCombining)
    }
}

impl std::fmt::Display for MemoryType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::WriteBack => "write-back",
            Self::WriteCombining => "write-combining",
            Self::Uncached => "uncached",
        })
    }
}

/// The BAR as mapped by this process.
#[derive(Clone)]
pub struct BarMapping {
    /// The whole BAR, readable and writable.
    pub region: Arc<MmapRegion>,
    /// The processor's treatment of accesses to it.
    pub memory_type: MemoryType,
}

/// Guest memory that the device can access. Freed on drop.
pub trait SystemMemory: Send + Sync {
    /// The mapping that holds it.
    fn region(&self) -> &Arc<MmapRegion>;
    /// Offset of its first byte in the mapping.
    fn offset(&self) -> usize;
    /// Its length in bytes, a multiple of the page size.
    fn len(&self) -> usize;
    /// The guest-physical pages, in order.
    fn extents(&self) -> &[Extent];
    /// Returns whether it has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The notifications between driver and device of one virtqueue: eventfds, or PCI notifications and MSI-X.
pub trait Notifications: Send + Sync {
    /// Tells the device that the driver offered something.
    ///
    /// # Errors
    /// If the device is gone.
    fn kick(&self) -> Result<(), TransportError>;

    /// Waits for a notification that the device returned something; returns false when the time is over. A
    /// notification before the call counts. Blocks if the device interrupts, and otherwise polls `has_come`. May
    /// return early.
    ///
    /// # Errors
    /// If the device is gone.
    fn wait(
        &self,
        timeout: Option<Duration>,
        has_come: &dyn Fn() -> bool,
    ) -> Result<bool, TransportError>;

    /// Ends another thread's wait as if the device had notified the driver.
    ///
    /// # Errors
    /// If the operating system refuses.
    fn wake(&self) -> Result<(), TransportError>;
}

/// A guest's access to a device.
pub trait Transport: Send + Sync {
    /// The configuration space.
    fn config(&self) -> ConfigSpace;

    /// The features that the device offers and that a driver on this transport may use.
    fn features(&self) -> Features;

    /// The BAR, if the VMM has one. The device's memory is behind it once the device has answered `OPEN_ADAPTER`.
    fn bar(&self) -> Option<BarMapping>;

    /// The memory that the driver donated since the last reset.
    fn donations(&self) -> &Donations;

    /// Sends a request with its header and waits for the reply. Returns the reply's length in bytes. Several
    /// threads may call it concurrently.
    ///
    /// # Errors
    /// If the device is gone or breaks the rules of its queues.
    fn request(&self, request: &[u8], reply: &mut [u8]) -> Result<usize, TransportError>;

    /// Sends a request with its header without waiting for the reply.
    ///
    /// # Errors
    /// If the device is gone or breaks the rules of its queues.
    fn post(&self, request: &[u8]) -> Result<(), TransportError>;

    /// Kicks the event queue, whether the driver offered something or not: with `NOTIFY_BY_KICK`, engines that sleep look
    /// at the guest's doorbells.
    ///
    /// # Errors
    /// If the device is gone.
    fn kick(&self) -> Result<(), TransportError>;

    /// Blocks until the next event, for at most `timeout`; returns `None` when that is over, or when the device has
    /// notified the driver without an event: a fence that a thread waits for may then be reached.
    ///
    /// # Errors
    /// If the device is gone or breaks the rules of its queues.
    fn next_event(&self, timeout: Option<Duration>) -> Result<Option<Event>, TransportError>;

    /// Allocates `size` bytes of memory that the device can access, zeroed and page-aligned.
    ///
    /// # Errors
    /// [`TransportError::OutOfMemory`] if there is not enough.
    fn allocate(&self, size: u64) -> Result<Box<dyn SystemMemory>, TransportError>;

    /// A descriptor that the device's interrupt makes readable, where there is one: for others to be woken by, and for this
    /// transport alone to read.
    fn interrupt(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Bytes that [`Self::allocate`] has in all, used or not. `None` if it takes memory from the guest's system as it is asked,
    /// as long as there is some.
    fn memory_size(&self) -> Option<u64> {
        None
    }

    /// Allocates `size` bytes in a file of their own, which other processes can map: the region of the result has the file.
    ///
    /// # Errors
    /// [`TransportError::OutOfMemory`] if there is not enough, [`TransportError::Protocol`] if this transport's memory is not in
    /// files.
    fn allocate_file(&self, size: u64) -> Result<Box<dyn SystemMemory>, TransportError> {
        Err(TransportError::Protocol(format!(
            "this transport has no file of {size} bytes to share"
        )))
    }

    /// Checks that the device is still the one that the driver opened, as far as is visible without a request.
    ///
    /// # Errors
    /// If the device is gone or was replaced.
    fn check(&self) -> Result<(), TransportError>;
}
