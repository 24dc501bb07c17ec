//! The vhost-user conversation, in QEMU's order.

use super::bar::{BarWindow, Violation};
use super::notifications::EventFds;
use super::ram::GuestRam;
use super::{FakeGuestError, GuestOptions, VmmProfile};
use bellhop_guest_umd::transport::Notifications;
use bellhop_guest_umd::transport::control_queue::ControlQueue;
use bellhop_guest_umd::transport::event_queue::EventQueue;
use bellhop_guest_umd::transport::virtqueue::QueueAddresses;
use bellhop_protocol::config::{CONTROL_QUEUE, ConfigSpace, EVENT_QUEUE, QUEUE_COUNT};
use bellhop_protocol::features::Features;
use std::net::Shutdown;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use vhost::vhost_user::message::{
    VhostUserConfigFlags, VhostUserHeaderFlag, VhostUserProtocolFeatures, VhostUserVirtioFeatures,
};
use vhost::vhost_user::{Frontend, FrontendReqHandler, VhostUserFrontend};
use vhost::{VhostBackend, VringConfigData};
use virtio_bindings::bindings::virtio_config::VIRTIO_F_VERSION_1;
use vm_memory::MmapRegion;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// A front end, from the connection on.
pub(super) struct FrontEnd {
    front_end: Frontend,
    socket: UnixStream,
    config: ConfigSpace,
    virtio_features: u64,
    features: Features,
    window: Arc<Mutex<BarWindow>>,
    has_bar: bool,
    requests: Option<RequestServer>,
}

/// Names what was being done in an error.
fn during<T, E: Into<vhost::Error>>(
    what: &'static str,
    result: Result<T, E>,
) -> Result<T, FakeGuestError> {
    result.map_err(|error| FakeGuestError::VhostUser { what, source: error.into() })
}

/// No code panics while it holds the lock, so a poisoned window is whole.
fn lock(window: &Mutex<BarWindow>) -> MutexGuard<'_, BarWindow> {
    window.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FrontEnd {
    /// Negotiates, up to where the driver would set `DRIVER_OK`.
    pub(super) fn negotiate(
        socket: UnixStream,
        options: &GuestOptions,
    ) -> Result<Self, FakeGuestError> {
        let stream =
            socket.try_clone().map_err(|error| FakeGuestError::Io("the connection", error))?;
        let mut front_end = Frontend::from_stream(stream, u64::from(QUEUE_COUNT));
        let profile = options.profile;

        during("SET_OWNER", front_end.set_owner())?;
        let offered = during("GET_FEATURES", front_end.get_features())?;
        let required = 1 << VIRTIO_F_VERSION_1 | VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits();
        if offered & required != required {
            let problem = format!("it offers features {offered:#x}, of {required:#x} required");
            return Err(FakeGuestError::Refused(problem));
        }
        let protocol =
            during("GET_PROTOCOL_FEATURES", front_end.get_protocol_features())? & wanted(profile);
        during("SET_PROTOCOL_FEATURES", front_end.set_protocol_features(protocol))?;
        front_end.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
        let queues = during("GET_QUEUE_NUM", front_end.get_queue_num())?;
        if queues < u64::from(QUEUE_COUNT) {
            return Err(FakeGuestError::Refused(format!("it has {queues} virtqueues")));
        }
        let bar_size = match protocol.contains(VhostUserProtocolFeatures::SHMEM) {
            true => bar_size(&mut front_end, profile)?,
            false => 0,
        };
        let window = Arc::new(Mutex::new(BarWindow::new(bar_size, profile)?));
        let requests = match protocol.contains(VhostUserProtocolFeatures::BACKEND_REQ) {
            true => Some(RequestServer::start(&mut front_end, Arc::clone(&window))?),
            false => None,
        };
        let config = read_config(&mut front_end)?;
        let virtio_features = required | offered & options.features.bits();
        Ok(Self {
            front_end,
            socket,
            config,
            virtio_features,
            features: Features::from_bits_truncate(virtio_features),
            window,
            has_bar: bar_size > 0,
            requests,
        })
    }

    pub(super) fn socket(&self) -> &UnixStream {
        &self.socket
    }

    pub(super) fn config(&self) -> ConfigSpace {
        self.config
    }

    pub(super) fn features(&self) -> Features {
        self.features
    }

    /// Where the device maps its BAR, if device and VMM both have shared memory.
    pub(super) fn bar(&self) -> Option<Arc<MmapRegion>> {
        self.has_bar.then(|| lock(&self.window).region())
    }

    pub(super) fn violations(&self) -> Vec<Violation> {
        lock(&self.window).violations()
    }

    /// What setting `DRIVER_OK` sets off.
    pub(super) fn start(
        &mut self,
        ram: &GuestRam,
        control: &ControlQueue<EventFds>,
        events: &EventQueue<EventFds>,
    ) -> Result<(), FakeGuestError> {
        during("SET_FEATURES", self.front_end.set_features(self.virtio_features))?;
        let regions: Vec<_> = ram.region_info().into_iter().collect();
        during("SET_MEM_TABLE", self.front_end.set_mem_table(&regions))?;
        let control_size = ControlQueue::<EventFds>::SIZE;
        let control_fds = control.notifications();
        self.start_queue(CONTROL_QUEUE, control_size, control.addresses(), ram, control_fds)?;
        let events_size = EventQueue::<EventFds>::SIZE;
        let events_fds = events.notifications();
        self.start_queue(EVENT_QUEUE, events_size, events.addresses(), ram, events_fds)?;
        // A device that maps before the driver's first kick would not survive QEMU.
        lock(&self.window).start();
        events_fds.kick()?;
        Ok(())
    }

    fn start_queue(
        &mut self,
        index: u16,
        size: u16,
        addresses: QueueAddresses,
        ram: &GuestRam,
        notifications: &EventFds,
    ) -> Result<(), FakeGuestError> {
        let index = usize::from(index);
        let front_end = &mut self.front_end;
        during("SET_VRING_NUM", front_end.set_vring_num(index, size))?;
        during("SET_VRING_BASE", front_end.set_vring_base(index, 0))?;
        let config = VringConfigData {
            queue_max_size: size,
            queue_size: size,
            flags: 0,
            desc_table_addr: ram.address_here(addresses.descriptors),
            used_ring_addr: ram.address_here(addresses.used),
            avail_ring_addr: ram.address_here(addresses.available),
            log_addr: None,
        };
        during("SET_VRING_ADDR", front_end.set_vring_addr(index, &config))?;
        during("SET_VRING_KICK", front_end.set_vring_kick(index, notifications.kick_fd()))?;
        during("SET_VRING_CALL", front_end.set_vring_call(index, notifications.call_fd()))?;
        during("SET_VRING_ENABLE", front_end.set_vring_enable(index, true))
    }

    /// What a reset of the device sets off.
    pub(super) fn stop(&mut self) -> Result<(), FakeGuestError> {
        for index in [CONTROL_QUEUE, EVENT_QUEUE] {
            let index = usize::from(index);
            during("SET_VRING_ENABLE", self.front_end.set_vring_enable(index, false))?;
            during("GET_VRING_BASE", self.front_end.get_vring_base(index))?;
        }
        lock(&self.window).stop().map_err(|error| FakeGuestError::Io("unmapping the BAR", error))
    }
}

impl Drop for FrontEnd {
    fn drop(&mut self) {
        // As a VMM goes: the device sees the connection end. It may have ended already.
        let _ = self.socket.shutdown(Shutdown::Both);
        drop(self.requests.take());
    }
}

/// The protocol features that a VMM takes.
fn wanted(profile: &VmmProfile) -> VhostUserProtocolFeatures {
    let base = VhostUserProtocolFeatures::MQ
        | VhostUserProtocolFeatures::CONFIG
        | VhostUserProtocolFeatures::REPLY_ACK;
    match profile.shared_memory_regions {
        0 => base,
        _ => {
            base | VhostUserProtocolFeatures::BACKEND_REQ
                | VhostUserProtocolFeatures::BACKEND_SEND_FD
                | VhostUserProtocolFeatures::SHMEM
        }
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
        FakeGuestError::Refused("the sizes of its shared memory add up to no power of two".into())
    })
}

fn read_config(front_end: &mut Frontend) -> Result<ConfigSpace, FakeGuestError> {
    let empty = ConfigSpace::new_zeroed();
    let (_, bytes) = during(
        "GET_CONFIG",
        front_end.get_config(
            0,
            size_of::<ConfigSpace>() as u32,
            VhostUserConfigFlags::WRITABLE,
            empty.as_bytes(),
        ),
    )?;
    ConfigSpace::read_from_bytes(&bytes).map_err(|_| {
        FakeGuestError::Refused(format!("its configuration has {} bytes", bytes.len()))
    })
}

/// The thread that answers the device's requests.
struct RequestServer {
    /// A duplicate of the thread's socket: shutting it down ends the thread.
    socket: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl RequestServer {
    fn start(
        front_end: &mut Frontend,
        window: Arc<Mutex<BarWindow>>,
    ) -> Result<Self, FakeGuestError> {
        let io = |error| FakeGuestError::Io("the device's request channel", error);
        let mut handler = during("request channel", FrontendReqHandler::new(window))?;
        handler.set_reply_ack_flag(true);
        // SAFETY: the handler owns the descriptor and lives until after the duplicate is made.
        #[expect(unsafe_code, reason = "the handler offers only the raw descriptor")]
        let socket = unsafe { BorrowedFd::borrow_raw(handler.as_raw_fd()) }
            .try_clone_to_owned()
            .map_err(io)?;
        let device_end = handler.get_tx_raw_fd();
        during("SET_BACKEND_REQ_FD", front_end.set_backend_request_fd(&device_end))?;
        let thread = thread::Builder::new()
            .name("vmm-requests".into())
            // A refusal is answered and leaves the channel usable; only its end ends the loop.
            .spawn(move || {
                use vhost::vhost_user::Error::ReqHandlerError;
                while matches!(handler.handle_request(), Ok(_) | Err(ReqHandlerError(_))) {}
            })
            .map_err(io)?;
        Ok(Self { socket: socket.into(), thread: Some(thread) })
    }
}

impl Drop for RequestServer {
    fn drop(&mut self) {
        // It fails only when the connection has ended already.
        let _ = self.socket.shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            // The thread does nothing that panics.
            let _ = thread.join();
        }
    }
}
