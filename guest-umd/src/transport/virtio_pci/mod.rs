// SPDX-License-Identifier: MIT OR Apache-2.0

//! The transport of a guest in a VM: a virtio-pci device, driven from user space.
//!
//! No driver in the guest's kernel knows the device. VFIO gives access to it if the VM has an IOMMU, otherwise
//! sysfs and `uio_pci_generic` do. Queues are in pinned memory; the kernel reveals its guest-physical addresses
//! (see `pinned`).
//!
//! Source: VIRTIO 1.3, "Virtio Over PCI Bus".

mod access;
mod address;
mod capability;
mod common;
mod huge;
mod interrupts;
mod mapping;
mod pinned;
mod registers;
mod uio;
mod vfio;

pub use address::{Attachment, PciAddress, discover};

use super::device_queues::{DeviceQueue, DeviceQueues};
use super::{BarMapping, DmaMemory, Donations, SystemMemory, Transport, TransportError};
use access::Access;
use bellhop_protocol::config::{BAR_SHMID, CONFIG_MAGIC, ConfigSpace, QUEUE_COUNT};
use bellhop_protocol::event::Event;
use bellhop_protocol::features::Features;
use capability::Capabilities;
use common::CommonConfig;
use interrupts::{Interrupts, NO_VECTOR, QueueNotifications};
use pinned::PinnedMemory;
use registers::Registers;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The features that a driver may use, if the device offers them.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Bellhop's own features.
    pub features: Features,
}

impl Default for Options {
    fn default() -> Self {
        Self { features: Features::all() }
    }
}

/// A device of this VM.
pub struct VirtioPci {
    config: ConfigSpace,
    features: Features,
    bar: Option<BarMapping>,
    queues: DeviceQueues<QueueNotifications>,
    interrupts: Arc<Interrupts>,
    donations: Donations,
    /// Locked for resets only: two concurrent ones would set up the queues twice.
    common: Mutex<CommonConfig>,
    memory: PinnedMemory,
    /// The kernel driver bound to the device.
    attachment: Attachment,
}

impl VirtioPci {
    /// Takes over the device at an address and starts it.
    ///
    /// # Errors
    /// If it is not a Bellhop device, is in use, this user may not access it, or it does not follow VIRTIO.
    pub fn open(address: PciAddress, options: Options) -> Result<Arc<Self>, TransportError> {
        let access = Access::open(address)?;
        let attachment = access.attachment();
        let capabilities = Capabilities::parse(&access.config_space()?)?;
        let device = Registers::map(&access, capabilities.device)?;
        let common = CommonConfig::new(Registers::map(&access, capabilities.common)?);
        let config = common.read_device_config(&device)?;
        if config.magic != CONFIG_MAGIC {
            return Err(TransportError::Protocol(format!("{address} is not a Bellhop GPU")));
        }
        let bar = capabilities
            .shared_memory
            .filter(|memory| memory.id == BAR_SHMID)
            .map(|memory| access.map_shared_memory(memory.window))
            .transpose()?;
        let notify = Arc::new(Registers::map(&access, capabilities.notify)?);
        let isr = Registers::map(&access, capabilities.isr)?;
        let memory = PinnedMemory::new()?;

        common.reset()?;
        common.negotiate()?;
        let features = Features::from_bits_truncate(config.features) & options.features;
        let interrupts = Interrupts::new(access, isr, usize::from(QUEUE_COUNT))?;
        let notifications = |queue: u16| -> Result<_, TransportError> {
            let offset = common.notify_offset(queue)?;
            let offset = usize::from(offset) * capabilities.notify_multiplier as usize;
            QueueNotifications::new(&interrupts, &notify, offset, queue)
        };
        let queues = DeviceQueues::new(|length| memory.contiguous(length), notifications)?;
        let common = Mutex::new(common);
        let device = Self {
            config,
            features,
            bar,
            queues,
            interrupts,
            donations: Donations::default(),
            common,
            memory,
            attachment,
        };
        device.start(&device.lock())?;
        Ok(Arc::new(device))
    }

    /// Locks the common configuration. No code panics while it holds the lock, so it is consistent behind a
    /// poisoned lock.
    fn lock(&self) -> std::sync::MutexGuard<'_, CommonConfig> {
        self.common.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets up the queues and starts the device, after a reset and negotiation.
    fn start(&self, common: &CommonConfig) -> Result<(), TransportError> {
        let vector = self.interrupts.vector();
        common.set_config_vector(NO_VECTOR)?;
        for DeviceQueue { index, size, addresses, .. } in self.queues.each() {
            common.enable_queue(index, size, addresses, vector)?;
        }
        common.driver_ok()?;
        self.queues.events.offer_buffers()
    }

    /// Resets and restarts the device. Everything that the driver created is gone, including the BAR's mappings.
    ///
    /// # Errors
    /// If the device does not come back.
    pub fn reset(&self) -> Result<(), TransportError> {
        let common = self.lock();
        common.reset()?;
        self.donations.clear();
        self.queues.reset()?;
        common.negotiate()?;
        self.start(&common)
    }

    /// The kernel driver bound to the device.
    #[must_use]
    pub fn attachment(&self) -> Attachment {
        self.attachment
    }

    /// Returns whether the device interrupts; otherwise, waiting threads poll.
    #[must_use]
    pub fn has_interrupts(&self) -> bool {
        self.interrupts.come()
    }

    /// See [`ControlQueue::offer_raw`](super::control_queue::ControlQueue::offer_raw).
    ///
    /// # Errors
    /// If the device is gone or breaks the queue's rules.
    #[cfg(feature = "raw")]
    pub fn offer_raw(
        &self,
        descriptors: &[super::virtqueue::Descriptor],
    ) -> Result<u32, TransportError> {
        self.queues.control.offer_raw(descriptors)
    }

    /// Allocates contiguous memory with a known guest-physical address. It is freed with the device.
    ///
    /// # Errors
    /// If there is no such run of free memory.
    pub fn contiguous(&self, length: usize) -> Result<DmaMemory, TransportError> {
        self.memory.contiguous(length)
    }
}

impl Drop for VirtioPci {
    fn drop(&mut self) {
        // Reset before the memory is freed: the device must not write memory that then has other owners. A device
        // that cannot be reset is unreachable.
        let _ = self.lock().reset();
    }
}

impl Transport for VirtioPci {
    fn config(&self) -> ConfigSpace {
        self.config
    }

    fn features(&self) -> Features {
        self.features
    }

    fn bar(&self) -> Option<BarMapping> {
        self.bar.clone()
    }

    fn donations(&self) -> &Donations {
        &self.donations
    }

    fn request(&self, request: &[u8], reply: &mut [u8]) -> Result<usize, TransportError> {
        self.queues.control.request(request, reply)
    }

    fn post(&self, request: &[u8]) -> Result<(), TransportError> {
        self.queues.control.post(request)
    }

    fn kick(&self) -> Result<(), TransportError> {
        self.queues.kick()
    }

    fn next_event(&self, timeout: Option<Duration>) -> Result<Option<Event>, TransportError> {
        self.queues.next_event(timeout)
    }

    fn allocate(&self, size: u64) -> Result<Box<dyn SystemMemory>, TransportError> {
        self.memory.allocate(size)
    }

    fn allocate_file(&self, size: u64) -> Result<Box<dyn SystemMemory>, TransportError> {
        self.memory.allocate_file(size)
    }

    fn interrupt(&self) -> Option<BorrowedFd<'_>> {
        self.interrupts.shared()
    }

    fn check(&self) -> Result<(), TransportError> {
        self.queues.events.check()
    }
}
