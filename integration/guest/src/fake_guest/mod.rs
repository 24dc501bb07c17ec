// SPDX-License-Identifier: MIT OR Apache-2.0

//! A guest without a VM: the front end of a vhost-user connection in a process of its own.
//!
//! It stands for the VMM and the guest's kernel: it owns the guest's memory, drives real virtqueues, and
//! maps the BAR where the device asks, by the rules of a VMM [profile](VmmProfile). To the driver, it is a
//! [`Transport`] like any other.

mod bar;
#[cfg(test)]
mod conversation;
mod error;
mod front_end;
mod late;
mod profile;

pub use bar::Violation;
pub use error::FakeGuestError;
pub use profile::{
    Acknowledged, Base, CLOUD_HYPERVISOR, ConfigAccess, MORE_VMMS, Pause, QEMU,
    QEMU_WITH_LATE_CHANGES, QEMU_WITH_MEMORY_SLOTS, QEMU_WITHOUT_SHARED_MEMORY, QueueStep, Step,
    VMMS, VmmProfile,
};

use crate::guest::Guest;
use anyhow::Context as _;
pub use bellhop_guest_umd::raw::front_end::Plugged;
use bellhop_guest_umd::raw::front_end::{EventFds, GuestRam, Manners};
use bellhop_guest_umd::transport::device_queues::DeviceQueues;
use bellhop_guest_umd::transport::virtqueue::Descriptor;
use bellhop_guest_umd::transport::{
    BarMapping, DmaMemory, Donations, MemoryType, Notifications as _, SystemMemory, Transport,
    TransportError,
};
use bellhop_protocol::config::ConfigSpace;
use bellhop_protocol::event::Event;
use bellhop_protocol::features::Features;
use front_end::{FrontEnd, Queues};
use std::fs::File;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use vm_memory::MmapRegion;

/// The parts of a guest.
#[derive(Debug, Clone)]
pub struct GuestOptions {
    /// Bytes of guest memory.
    pub ram: u64,
    /// Bytes of a memory module that is not plugged in at first.
    pub module: u64,
    /// Whether the guest's memory is sealed against shrinking.
    pub is_sealed: bool,
    /// The VMM that runs the guest.
    pub profile: &'static VmmProfile,
    /// The features that the driver takes, if the device offers them.
    pub features: Features,
    /// Whether the VMM waits for its device to come back when the connection ends
    /// ([`FakeGuest::reconnect`]), and does not tell its guest.
    pub awaits_device: bool,
}

impl Default for GuestOptions {
    fn default() -> Self {
        Self {
            ram: 256 << 20,
            module: 0,
            is_sealed: true,
            profile: &QEMU,
            features: Features::all(),
            awaits_device: false,
        }
    }
}

/// A running guest.
pub struct FakeGuest {
    front_end: Mutex<FrontEnd>,
    profile: &'static VmmProfile,
    config: ConfigSpace,
    features: Features,
    ram: Arc<GuestRam>,
    bar: Option<Arc<MmapRegion>>,
    donations: Donations,
    queues: DeviceQueues<EventFds>,
}

impl FakeGuest {
    /// Attaches the device that listens on `socket`, and starts it.
    ///
    /// # Errors
    /// See [`FakeGuestError`].
    pub fn connect(socket: &Path, options: GuestOptions) -> Result<Arc<Self>, FakeGuestError> {
        let socket = UnixStream::connect(socket)
            .map_err(|error| FakeGuestError::Io("cannot connect", error))?;
        Self::over(socket, options)
    }

    /// Attaches the device at the other end of a connection, and starts it.
    ///
    /// # Errors
    /// See [`FakeGuestError`].
    pub fn over(socket: UnixStream, options: GuestOptions) -> Result<Arc<Self>, FakeGuestError> {
        let GuestOptions { ram, module, is_sealed, profile, features, awaits_device } = options;
        let ram = GuestRam::new(ram, profile.low_memory, module, is_sealed)?;
        let mut front_end = FrontEnd::negotiate(socket, profile)?;
        let manners =
            Manners { has_interrupts: profile.has_interrupts(), tells_of_ends: !awaits_device };
        let notifications = |_| EventFds::new(front_end.socket(), manners);
        let queues = DeviceQueues::new(|length| ram.take(length as u64), notifications)?;
        let (config, bar) = (front_end.config(), front_end.bar());
        front_end.start(&Queues { ram: &ram, queues: &queues })?;
        Ok(Arc::new(Self {
            front_end: Mutex::new(front_end),
            profile,
            config,
            features: Features::from_bits_truncate(config.features) & features,
            ram,
            bar,
            donations: Donations::default(),
            queues,
        }))
    }

    fn queues(&self) -> Queues<'_> {
        Queues { ram: &self.ram, queues: &self.queues }
    }

    /// No code panics while it holds the lock, so a poisoned front end is whole.
    fn lock(&self) -> MutexGuard<'_, FrontEnd> {
        self.front_end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resets and restarts the device, as a reboot of the guest does. Everything that the driver created is
    /// gone, and so are the BAR's mappings.
    ///
    /// # Errors
    /// When the device does not survive it.
    pub fn reset(&self) -> Result<(), FakeGuestError> {
        self.stop()?;
        self.start()
    }

    /// Stops the device with everything in use: the first half of [`Self::reset`]. Every request of the
    /// driver fails until [`Self::start`].
    ///
    /// # Errors
    /// When the device does not survive it.
    pub fn stop(&self) -> Result<(), FakeGuestError> {
        self.lock().stop(&self.queues())?;
        Ok(self.queues.control.close()?)
    }

    /// Starts the device: the second half of [`Self::reset`].
    ///
    /// # Errors
    /// When the device does not survive it.
    pub fn start(&self) -> Result<(), FakeGuestError> {
        let mut front_end = self.lock();
        self.donations.clear();
        self.queues.reset()?;
        front_end.start(&self.queues())
    }

    /// Ends the connection as a killed VMM does, whatever the driver is doing. Guest memory stays as it is
    /// as long as the guest exists.
    pub fn kill(&self) {
        self.lock().hang_up();
    }

    /// Frees all guest memory that the driver gave out before the last [`Self::reset`], as a kernel that
    /// boots does. Its users must not use it afterwards.
    ///
    /// # Errors
    /// None of its own.
    pub fn reclaim_memory(&self) -> Result<(), FakeGuestError> {
        Ok(self.ram.reclaim()?)
    }

    /// Pauses the VM: the device may take nothing from its queues until [`Self::resume`].
    ///
    /// # Errors
    /// When the VMM does not pause devices, or the device does not survive it.
    pub fn pause(&self) -> Result<(), FakeGuestError> {
        self.lock().pause(&self.queues())
    }

    /// Resumes the VM after [`Self::pause`].
    ///
    /// # Errors
    /// When the VMM does not pause devices, or the device does not survive it.
    pub fn resume(&self) -> Result<(), FakeGuestError> {
        self.lock().resume(&self.queues())
    }

    /// Connects to a device that came back behind another connection. The VMM does not tell the driver; the
    /// device does. The driver must reset it to use it.
    ///
    /// # Errors
    /// When the VMM does not connect again, or the device refuses.
    pub fn reconnect(&self, socket: UnixStream) -> Result<(), FakeGuestError> {
        self.lock().reconnect(socket, &self.queues())
    }

    /// Announces all memory again while the device runs, as VMMs do when memory is plugged in.
    ///
    /// # Errors
    /// When the device does not survive it.
    pub fn announce_memory(&self) -> Result<(), FakeGuestError> {
        self.lock().announce_memory(&self.queues())
    }

    /// Kicks both queues, whether they hold anything or not.
    ///
    /// # Errors
    /// When the device is gone.
    pub fn kick(&self) -> Result<(), TransportError> {
        self.queues.control.notifications().kick()?;
        self.queues.kick()
    }

    /// Fills the counter of the event queue's call, as a hostile VMM does: an ordinary write to the eventfd then
    /// blocks until a thread of the guest waits for an event.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn fill_event_call(&self) -> std::io::Result<()> {
        self.queues.events.notifications().call_fd().write(u64::MAX - 1)
    }

    /// Plugs memory in or out while the device runs, and announces what remains. Memory that is plugged out
    /// stays mapped in this process. As a kernel reclaims memory that it lost, allocations there may change
    /// owners.
    ///
    /// # Errors
    /// When the device does not survive it.
    pub fn plug_memory(&self, plugged: Plugged) -> Result<(), FakeGuestError> {
        self.ram.plug(plugged)?;
        self.announce_memory()
    }

    /// Truncates guest memory by this many bytes, which this process must not touch afterwards. The memory
    /// that was allocated first stays.
    ///
    /// # Errors
    /// When guest memory is sealed.
    pub fn shrink_memory(&self, bytes: u64) -> Result<(), FakeGuestError> {
        Ok(self.ram.shrink(bytes)?)
    }

    /// The file that is guest memory, from its first byte on.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn memory_file(&self) -> Result<File, FakeGuestError> {
        Ok(self.ram.file()?)
    }

    /// The file that the device has mapped as its BAR, if it has mapped any.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn bar_file(&self) -> Option<io::Result<File>> {
        self.lock().bar_file()
    }

    /// Reads the device's configuration as a driver does.
    ///
    /// # Errors
    /// When the device refuses, which ends some VMMs.
    pub fn read_config(&self, offset: u32, bytes: &mut [u8]) -> Result<(), FakeGuestError> {
        self.lock().read_config(offset, bytes)
    }

    /// Writes to the device's configuration as a driver does.
    ///
    /// # Errors
    /// When the device refuses, which ends some VMMs.
    pub fn write_config(&self, offset: u32, bytes: &[u8]) -> Result<(), FakeGuestError> {
        self.lock().write_config(offset, bytes)
    }

    /// Has the VMM refuse further mappings into the BAR, as when its table is full.
    pub fn refuse_mappings(&self, refuses: bool) {
        self.lock().refuse_mappings(refuses);
    }

    /// The number of pieces of its BAR that the device has unmapped.
    #[must_use]
    pub fn unmapped(&self) -> u64 {
        self.lock().unmapped()
    }

    /// The actions of the device that would have crashed the VMM.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        self.lock().violations()
    }
}

impl Transport for FakeGuest {
    fn config(&self) -> ConfigSpace {
        self.config
    }

    fn features(&self) -> Features {
        self.features
    }

    fn bar(&self) -> Option<BarMapping> {
        let region = Arc::clone(self.bar.as_ref()?);
        Some(BarMapping { region, memory_type: MemoryType::WriteBack })
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
        self.ram.allocate(size)
    }

    fn check(&self) -> Result<(), TransportError> {
        self.queues.control.notifications().check()?;
        self.queues.events.check()
    }
}

impl Guest for FakeGuest {
    fn offer_raw(&self, descriptors: &[Descriptor]) -> Result<u32, TransportError> {
        self.queues.control.offer_raw(descriptors)
    }

    fn memory(&self, length: u64) -> Result<DmaMemory, TransportError> {
        self.ram.take(length)
    }

    fn reset(&self) -> anyhow::Result<()> {
        Self::reset(self).context("the device cannot be reset")
    }

    fn reached(&self) -> String {
        format!("over vhost-user as {}", self.profile.name)
    }

    fn end_of_memory(&self) -> u64 {
        self.ram.end()
    }
}
