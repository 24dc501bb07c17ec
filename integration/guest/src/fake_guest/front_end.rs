// SPDX-License-Identifier: MIT OR Apache-2.0

//! The vhost-user conversation, in the order of the VMM's profile.

use super::bar::{BarWindow, Violation};
use super::error::FakeGuestError;
use super::profile::{self, Acknowledged, ConfigAccess, Pause, QueueStep, Step, VmmProfile};
use bellhop_guest_umd::raw::front_end::{
    EventFds, GuestRam, Manners, RequestServer, VIRTIO_FEATURES, during, speaker,
};
use bellhop_guest_umd::transport::device_queues::{DeviceQueue, DeviceQueues};
use bellhop_guest_umd::transport::virtqueue::QueueAddresses;
use bellhop_protocol::config::{ConfigSpace, QUEUE_COUNT};
use std::fs::File;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vhost::vhost_user::message::{
    VhostUserConfigFlags, VhostUserHeaderFlag, VhostUserProtocolFeatures,
};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VringConfigData};
use vm_memory::MmapRegion;
use zerocopy::{FromZeros, IntoBytes};

/// A connected front end.
pub(super) struct FrontEnd {
    front_end: Frontend,
    profile: &'static VmmProfile,
    socket: UnixStream,
    /// The protocol features that the device offers.
    offered: VhostUserProtocolFeatures,
    /// The protocol features that this connection accepted.
    protocol: VhostUserProtocolFeatures,
    config: ConfigSpace,
    window: Arc<Mutex<BarWindow>>,
    has_bar: bool,
    requests: Option<RequestServer>,
}

/// The queues to start and stop.
pub(super) struct Queues<'a> {
    /// The memory of the queues.
    pub(super) ram: &'a GuestRam,
    /// The queues.
    pub(super) queues: &'a DeviceQueues<EventFds>,
}

/// Locks the window. No code panics while it holds the lock, so a poisoned window is whole.
fn lock(window: &Mutex<BarWindow>) -> MutexGuard<'_, BarWindow> {
    window.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FrontEnd {
    /// Sends the VMM's messages from before the driver sets `DRIVER_OK`.
    pub(super) fn negotiate(
        socket: UnixStream,
        profile: &'static VmmProfile,
    ) -> Result<Self, FakeGuestError> {
        let mut front_end = Self {
            front_end: speaker(&socket)?,
            profile,
            socket,
            offered: VhostUserProtocolFeatures::empty(),
            protocol: VhostUserProtocolFeatures::empty(),
            config: ConfigSpace::new_zeroed(),
            window: Arc::new(Mutex::new(BarWindow::new(0, profile)?)),
            has_bar: false,
            requests: None,
        };
        front_end.say(profile.connect, None)?;
        Ok(front_end)
    }

    pub(super) fn socket(&self) -> &UnixStream {
        &self.socket
    }

    pub(super) fn config(&self) -> ConfigSpace {
        self.config
    }

    /// The window into which the device maps its BAR, if device and VMM both have shared memory.
    pub(super) fn bar(&self) -> Option<Arc<MmapRegion>> {
        self.has_bar.then(|| lock(&self.window).region())
    }

    pub(super) fn violations(&self) -> Vec<Violation> {
        lock(&self.window).violations()
    }

    pub(super) fn refuse_mappings(&self, refuses: bool) {
        lock(&self.window).refuse(refuses);
    }

    pub(super) fn bar_file(&self) -> Option<io::Result<File>> {
        lock(&self.window).file()
    }

    pub(super) fn unmapped(&self) -> u64 {
        lock(&self.window).unmapped()
    }

    /// Sends the messages that `DRIVER_OK` causes.
    pub(super) fn start(&mut self, queues: &Queues<'_>) -> Result<(), FakeGuestError> {
        self.say(self.profile.start, Some(queues))?;
        // A device that maps before the driver's first kick would not survive QEMU.
        lock(&self.window).start();
        Ok(queues.queues.events.offer_buffers()?)
    }

    /// Sends the messages that a reset of the device causes.
    pub(super) fn stop(&mut self, queues: &Queues<'_>) -> Result<(), FakeGuestError> {
        self.say(self.profile.stop, Some(queues))?;
        lock(&self.window).stop().map_err(|error| FakeGuestError::Io("unmapping the BAR", error))
    }

    /// Sends the messages that a pause of the VM causes.
    pub(super) fn pause(&mut self, queues: &Queues<'_>) -> Result<(), FakeGuestError> {
        self.say(self.pauses()?.pause, Some(queues))
    }

    /// Sends the messages that the end of a pause causes.
    pub(super) fn resume(&mut self, queues: &Queues<'_>) -> Result<(), FakeGuestError> {
        self.say(self.pauses()?.resume, Some(queues))
    }

    fn pauses(&self) -> Result<Pause, FakeGuestError> {
        let name = self.profile.name;
        self.profile.pause.ok_or(FakeGuestError::VmmCannot(name, "pause and keep the device"))
    }

    /// Sends the VMM's messages to a device that came back. The driver learns nothing of it.
    pub(super) fn reconnect(
        &mut self,
        socket: UnixStream,
        queues: &Queues<'_>,
    ) -> Result<(), FakeGuestError> {
        let name = self.profile.name;
        let steps = self.profile.reconnect;
        let steps = steps.ok_or(FakeGuestError::VmmCannot(name, "connect again"))?;
        self.requests = None;
        self.front_end = speaker(&socket)?;
        self.socket = socket;
        self.protocol = VhostUserProtocolFeatures::empty();
        for queue in queues.queues.each() {
            queue.notifications.watch(&self.socket)?;
        }
        self.say(steps, Some(queues))?;
        self.say(self.profile.start, Some(queues))
    }

    /// Announces all memory again, as a change of the VM's memory causes.
    pub(super) fn announce_memory(&mut self, queues: &Queues<'_>) -> Result<(), FakeGuestError> {
        self.say(&[Step::MemoryTable], Some(queues))
    }

    /// Ends the connection as an exiting VMM does. It may have ended already.
    pub(super) fn hang_up(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    fn say(&mut self, steps: &[Step], queues: Option<&Queues<'_>>) -> Result<(), FakeGuestError> {
        for step in steps {
            self.want_reply(matches!(step, Step::RequestChannel | Step::MemoryTable));
            match step {
                Step::Owner => during("SET_OWNER", self.front_end.set_owner())?,
                Step::Features => self.check_features()?,
                Step::ProtocolFeatures => {
                    let offered = self.front_end.get_protocol_features();
                    self.offered = during("GET_PROTOCOL_FEATURES", offered)?;
                }
                Step::AcceptProtocolFeatures => self.accept_protocol_features()?,
                Step::QueueCount => self.check_queue_count()?,
                Step::RequestChannel => self.open_request_channel()?,
                Step::SharedMemory => self.make_window()?,
                Step::Configuration => {
                    let mut config = ConfigSpace::new_zeroed();
                    for (word, bytes) in (0..).step_by(4).zip(config.as_mut_bytes().chunks_mut(4)) {
                        self.read_config(word, bytes)?;
                    }
                    self.config = config;
                }
                Step::AcceptFeatures => {
                    during("SET_FEATURES", self.front_end.set_features(VIRTIO_FEATURES))?;
                }
                Step::MemoryTable => {
                    let regions = queues.map(|queues| queues.ram.region_infos());
                    let regions = regions.unwrap_or_default();
                    during("SET_MEM_TABLE", self.front_end.set_mem_table(&regions))?;
                }
                Step::EachQueue(steps) => self.say_of_each_queue(steps, queues)?,
            }
        }
        Ok(())
    }

    /// Whether the next message asks for an acknowledgement.
    fn want_reply(&mut self, is_marked: bool) {
        let can = self.protocol.contains(VhostUserProtocolFeatures::REPLY_ACK);
        let wanted = is_marked || self.profile.acknowledged == Acknowledged::All;
        self.front_end.set_hdr_flags(if can && wanted {
            VhostUserHeaderFlag::NEED_REPLY
        } else {
            VhostUserHeaderFlag::empty()
        });
    }

    fn check_features(&mut self) -> Result<(), FakeGuestError> {
        let offered = during("GET_FEATURES", self.front_end.get_features())?;
        if offered & VIRTIO_FEATURES == VIRTIO_FEATURES {
            return Ok(());
        }
        Err(FakeGuestError::Refused(format!(
            "it offers features {offered:#x}, of {VIRTIO_FEATURES:#x} required"
        )))
    }

    fn accept_protocol_features(&mut self) -> Result<(), FakeGuestError> {
        let accepted = self.offered & self.profile.protocol_features;
        during("SET_PROTOCOL_FEATURES", self.front_end.set_protocol_features(accepted))?;
        self.protocol = accepted;
        Ok(())
    }

    fn check_queue_count(&mut self) -> Result<(), FakeGuestError> {
        let queues = during("GET_QUEUE_NUM", self.front_end.get_queue_num())?;
        if queues < u64::from(QUEUE_COUNT) {
            return Err(FakeGuestError::Refused(format!("it has {queues} virtqueues")));
        }
        Ok(())
    }

    fn open_request_channel(&mut self) -> Result<(), FakeGuestError> {
        if self.protocol.contains(VhostUserProtocolFeatures::BACKEND_REQ) {
            let window = Arc::clone(&self.window);
            self.requests = Some(RequestServer::start(&mut self.front_end, window)?);
        }
        Ok(())
    }

    fn make_window(&mut self) -> Result<(), FakeGuestError> {
        if self.protocol.contains(VhostUserProtocolFeatures::SHMEM) {
            let size = bar_size(&mut self.front_end, self.profile)?;
            *lock(&self.window) = BarWindow::new(size, self.profile)?;
            self.has_bar = size > 0;
        }
        Ok(())
    }

    /// Sends a driver's read of the configuration as the VMM passes it on.
    pub(super) fn read_config(
        &mut self,
        offset: u32,
        bytes: &mut [u8],
    ) -> Result<(), FakeGuestError> {
        match self.profile.config_access {
            ConfigAccess::AsItIs => self.ask_for_config(offset, bytes),
            ConfigAccess::Whole(length) => {
                let mut whole = vec![0; length as usize];
                let wanted = offset as usize..offset as usize + bytes.len();
                if wanted.end > whole.len() {
                    bytes.fill(0xff);
                    return Ok(());
                }
                self.ask_for_config(0, &mut whole)?;
                bytes.copy_from_slice(&whole[wanted]);
                Ok(())
            }
        }
    }

    /// Sends a driver's write to the configuration as the VMM passes it on.
    pub(super) fn write_config(&mut self, offset: u32, bytes: &[u8]) -> Result<(), FakeGuestError> {
        self.want_reply(false);
        let written = match self.profile.config_access {
            ConfigAccess::AsItIs => {
                self.front_end.set_config(offset, VhostUserConfigFlags::WRITABLE, bytes)
            }
            ConfigAccess::Whole(length) => {
                let mut whole = vec![0; length as usize];
                let Some(part) = whole.get_mut(offset as usize..offset as usize + bytes.len())
                else {
                    return Ok(());
                };
                part.copy_from_slice(bytes);
                self.front_end.set_config(0, VhostUserConfigFlags::empty(), &whole)
            }
        };
        Ok(during("SET_CONFIG", written)?)
    }

    fn ask_for_config(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), FakeGuestError> {
        self.want_reply(false);
        let (length, flags) = (bytes.len() as u32, VhostUserConfigFlags::empty());
        let read = self.front_end.get_config(offset, length, flags, bytes);
        let (_, read) = during("GET_CONFIG", read)?;
        bytes.copy_from_slice(&read);
        Ok(())
    }

    fn say_of_each_queue(
        &mut self,
        steps: &[QueueStep],
        queues: Option<&Queues<'_>>,
    ) -> Result<(), FakeGuestError> {
        let Some(queues) = queues else {
            // No driver waits for these yet.
            let manners = Manners { has_interrupts: true, tells_of_ends: true };
            let nobody = EventFds::new(&self.socket, manners)?;
            let addresses = QueueAddresses { descriptors: 0, available: 0, used: 0 };
            for index in 0..QUEUE_COUNT {
                let queue = DeviceQueue { index, size: 0, addresses, notifications: &nobody };
                self.say_of_queue(steps, &queue, None)?;
            }
            return Ok(());
        };
        queues
            .queues
            .each()
            .iter()
            .try_for_each(|queue| self.say_of_queue(steps, queue, Some(queues.ram)))
    }

    fn say_of_queue(
        &mut self,
        steps: &[QueueStep],
        queue: &DeviceQueue<'_, EventFds>,
        ram: Option<&GuestRam>,
    ) -> Result<(), FakeGuestError> {
        let DeviceQueue { index, size, addresses, notifications } = *queue;
        let index = usize::from(index);
        let here = |address| ram.map_or(0, |ram| ram.address_here(address));
        for step in steps {
            use QueueStep::{Addresses, Base, Size, TakeBase};
            self.want_reply(!matches!(step, Size | Base | Addresses | TakeBase));
            let front_end = &mut self.front_end;
            match step {
                Size => during("SET_VRING_NUM", front_end.set_vring_num(index, size))?,
                Base => {
                    // A ring's index is its second word, behind its flags.
                    let available = || ram.map_or(0, |ram| ram.load(addresses.available + 2));
                    let base = match self.profile.base {
                        profile::Base::Zero => 0,
                        profile::Base::Available => available(),
                    };
                    during("SET_VRING_BASE", front_end.set_vring_base(index, base))?;
                }
                Addresses => {
                    let config = VringConfigData {
                        queue_max_size: size,
                        queue_size: size,
                        flags: 0,
                        desc_table_addr: here(addresses.descriptors),
                        used_ring_addr: here(addresses.used),
                        avail_ring_addr: here(addresses.available),
                        log_addr: None,
                    };
                    during("SET_VRING_ADDR", front_end.set_vring_addr(index, &config))?;
                }
                QueueStep::Kick => {
                    let kick = notifications.kick_fd();
                    during("SET_VRING_KICK", front_end.set_vring_kick(index, kick))?;
                }
                QueueStep::Call => {
                    let call = notifications.call_fd();
                    during("SET_VRING_CALL", front_end.set_vring_call(index, call))?;
                }
                QueueStep::Error => {
                    let call = notifications.call_fd();
                    during("SET_VRING_ERR", front_end.set_vring_err(index, call))?;
                }
                QueueStep::Enable => {
                    during("SET_VRING_ENABLE", front_end.set_vring_enable(index, true))?;
                }
                QueueStep::Disable => {
                    during("SET_VRING_ENABLE", front_end.set_vring_enable(index, false))?;
                }
                TakeBase => {
                    during("GET_VRING_BASE", front_end.get_vring_base(index))?;
                }
            }
        }
        Ok(())
    }
}

impl Drop for FrontEnd {
    fn drop(&mut self) {
        self.hang_up();
        drop(self.requests.take());
    }
}

/// The size of the one region that a device may have.
fn bar_size(front_end: &mut Frontend, profile: &VmmProfile) -> Result<u64, FakeGuestError> {
    let config = during("GET_SHMEM_CONFIG", front_end.get_shmem_config())?;
    let regions = config.nregions;
    if regions > profile.shared_memory_regions {
        return Err(FakeGuestError::Refused(format!("it has {regions} shared-memory regions")));
    }
    let sizes = config.memory_sizes;
    let sum = sizes.iter().try_fold(0, |sum: u64, size| sum.checked_add(*size));
    sum.filter(|sum| sum.is_power_of_two()).ok_or_else(|| {
        FakeGuestError::Refused(
            "the sizes of its shared-memory regions do not add up to a power of two".into(),
        )
    })
}
