//! How a driver reaches its device: BAR, control queue, event queue, memory.
//!
//! The rest of the crate knows only this trait, so that it runs unchanged in a VM, in a container
//! and in a fake guest.

pub mod control_queue;
mod dma;
mod donations;
pub mod event_queue;
mod polling;
#[cfg(test)]
mod testing;
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
use std::sync::Arc;
use std::time::Duration;
use vm_memory::MmapRegion;

/// Why the device could not be reached.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The other side is gone: every queue is lost.
    #[error("the device is gone: {0}")]
    Disconnected(String),
    /// Another device is in its place, as when its daemon was started again, and knows nothing of
    /// what the driver had: processes, queues, fences and donated areas are gone.
    #[error(
        "the device was replaced by one that knows nothing of what this program had; open it and \
         its adapter again"
    )]
    Replaced,
    /// The device broke the rules of the transport.
    #[error("the device broke the transport's rules: {0}")]
    Protocol(String),
    /// The guest has no memory left that the device can reach.
    #[error("no guest memory left for {0} bytes")]
    OutOfMemory(u64),
    /// The guest's memory is in pieces that are too small for what must be in one.
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
        /// The device.
        address: String,
        /// Whose it is.
        driver: String,
    },
    /// The operating system refused something.
    #[error("{0}: {1}")]
    Io(&'static str, std::io::Error),
}

/// How the processor treats accesses to a mapping.
///
/// The guest's kernel asks for a type; a hypervisor may override it, so this is the weakest that
/// it can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryType {
    /// Ordinary memory.
    WriteBack,
    /// Stores are gathered, and become visible in any order until a fence; loads are slow.
    WriteCombining,
    /// Each access goes to the bus by itself and in order.
    Uncached,
}

impl MemoryType {
    /// Whether stores need a full fence, and not only release semantics, to become visible before
    /// later ones.
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

/// The BAR as this process has it mapped.
#[derive(Clone)]
pub struct BarMapping {
    /// The whole BAR, readable and writable.
    pub region: Arc<MmapRegion>,
    /// How the processor treats it.
    pub memory_type: MemoryType,
}

/// Guest memory that the device can reach, given back when dropped.
pub trait SystemMemory: Send + Sync {
    /// The mapping that holds it.
    fn region(&self) -> &Arc<MmapRegion>;
    /// Offset of its first byte in the mapping.
    fn offset(&self) -> usize;
    /// Its length in bytes, a multiple of the page size.
    fn len(&self) -> usize;
    /// The guest-physical pages, in order.
    fn extents(&self) -> &[Extent];
    /// Whether it has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// How one virtqueue's two sides get each other's attention: eventfds, or PCI notifications and
/// MSI-X.
pub trait Notifications: Send + Sync {
    /// Tells the device that something was offered.
    ///
    /// # Errors
    /// When the device is gone.
    fn kick(&self) -> Result<(), TransportError>;

    /// Waits until the device says that it gave something back; false when the time is over. What
    /// it said before the call counts. Blocked, where the device interrupts; elsewhere it looks
    /// whether something `has_come`. It may return early.
    ///
    /// # Errors
    /// When the device is gone.
    fn wait(
        &self,
        timeout: Option<Duration>,
        has_come: &dyn Fn() -> bool,
    ) -> Result<bool, TransportError>;

    /// Ends a wait as if the device had said something: for another thread of the driver.
    ///
    /// # Errors
    /// When the operating system refuses.
    fn wake(&self) -> Result<(), TransportError>;
}

/// A device as the guest reaches it.
pub trait Transport: Send + Sync {
    /// The configuration space.
    fn config(&self) -> ConfigSpace;

    /// The features that the device offers and a driver on this transport may use.
    fn features(&self) -> Features;

    /// The BAR, if the VMM has one: the device's memory is behind it once the device has answered
    /// `OPEN_ADAPTER`.
    fn bar(&self) -> Option<BarMapping>;

    /// What the driver has given to the device since the last reset.
    fn donations(&self) -> &Donations;

    /// Sends a request (header and all) and waits for its reply; returns the reply's length.
    /// Callable from several threads at once.
    ///
    /// # Errors
    /// When the device is gone or breaks the rules of its queues.
    fn request(&self, request: &[u8], reply: &mut [u8]) -> Result<usize, TransportError>;

    /// Sends a request (header and all) whose reply nobody waits for.
    ///
    /// # Errors
    /// When the device is gone or breaks the rules of its queues.
    fn post(&self, request: &[u8]) -> Result<(), TransportError>;

    /// Waits for the next event, at most for `timeout`, blocked and not polling. `None` when the
    /// time is over.
    ///
    /// # Errors
    /// When the device is gone or breaks the rules of its queues.
    fn next_event(&self, timeout: Option<Duration>) -> Result<Option<Event>, TransportError>;

    /// Gives out `size` bytes of memory that the device can reach, zeroed, page aligned.
    ///
    /// # Errors
    /// When there is not enough.
    fn allocate(&self, size: u64) -> Result<Box<dyn SystemMemory>, TransportError>;

    /// Looks whether the device is still the one that the driver began with, where that can be seen
    /// without asking it for anything.
    ///
    /// # Errors
    /// When it is gone, or another is in its place.
    fn check(&self) -> Result<(), TransportError>;
}
