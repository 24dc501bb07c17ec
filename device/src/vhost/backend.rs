// SPDX-License-Identifier: MIT OR Apache-2.0

//! The vhost-user back end of one guest.

use super::calls::Calls;
use super::channel::Channel;
use super::event::FrontEndEvent;
use super::pages::BarPages;
use super::place::Place;
use super::port::{KernelPort, QueuePort};
use super::ring::{Memory, Ring};
use super::standing::Standing;
use super::takeover::Takeover;
use crate::control_plane::KernelHandle;
use crate::gpu::{EventFd, Gpu, Stay};
use crate::log::guest_span;
use bellhop_host_kmd::hardware::{FrontEnd, GuestId, SegmentSizes};
use bellhop_host_kmd::port::{GuestResources, SharingGroups};
use bellhop_protocol::bar::BarLayout;
use bellhop_protocol::config::{
    CONFIG_MAGIC, CONTROL_QUEUE, ConfigSpace, EVENT_QUEUE, QUEUE_COUNT,
};
use bellhop_protocol::features::{Features, Version};
use rustix::rand::{GetRandomFlags, getrandom};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use tracing::{Span, debug, info, warn};
use vhost::vhost_user::message::{
    VHOST_USER_CONFIG_SIZE, VhostUserProtocolFeatures, VhostUserShMemConfig,
    VhostUserVirtioFeatures,
};
use virtio_bindings::bindings::virtio_config::VIRTIO_F_VERSION_1;
use vm_memory::{GuestAddressSpace, GuestMemoryAtomic, GuestMemoryMmap};
use zerocopy::IntoBytes;

/// What each guest of a socket is attached to and offered.
#[derive(Clone)]
pub struct Host {
    /// The GPU that executes its work.
    pub gpu: Arc<Gpu>,
    /// The kernel that answers its requests.
    pub kernel: KernelHandle,
    /// The layout of every guest's BAR.
    pub bar: BarLayout,
    /// The segments that every guest has beside the BAR.
    pub segments: SegmentSizes,
    /// The features that every guest is offered.
    pub features: Features,
    /// What the guest is known by: SHA-256 of its socket's path, if it has one.
    pub identity: Option<[u8; 32]>,
    /// The groups of guests with which the guest may share fences.
    pub sharing: SharingGroups,
    /// What holds for the guests of the socket.
    pub standing: Arc<Standing>,
    /// The span of the socket.
    pub span: Span,
    /// Signals calls to guests.
    pub calls: Arc<Calls>,
    /// Maximum number of bytes of memory that a front end may announce.
    pub memory_limit: u64,
    /// Whether VMMs are asked to map the BAR.
    pub maps_bar: bool,
    /// How many guests the socket has at once.
    pub connections: u32,
    /// Whether VMMs map the BAR in pieces, so that doorbells' pages can be moved.
    pub remaps_doorbells: bool,
}

/// What a guest without a socket's path is known by: nothing that lasts, and that no other guest ever has.
fn nameless() -> Option<[u8; 32]> {
    let mut identity = [0; 32];
    let drawn = getrandom(&mut identity[..], GetRandomFlags::empty());
    (drawn == Ok(identity.len())).then_some(identity)
}

/// Why a guest cannot be served, which ends its connection.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The front end announced no memory.
    #[error("the front end started a queue before it sent a memory table")]
    NoMemory,
    /// The driver is older than the device.
    #[error("the driver did not accept VIRTIO_F_VERSION_1, which the device requires")]
    Legacy,
    /// The operating system has no memory for the BAR.
    #[error("cannot create the guest's BAR: {0}")]
    Bar(#[source] io::Error),
    /// The operating system cannot create a thread.
    #[error("cannot start the thread that maps the guest's BAR: {0}")]
    Thread(#[source] io::Error),
}

/// One guest's back end, for one connection.
///
/// A guest is *started* by its first request and *stopped* when the front end stops the control
/// queue. Between the two, and only then, the BAR is mapped: QEMU does not survive a `SHMEM_MAP`
/// at another time, nor one that is sent from within a callback.
#[derive(Clone)]
pub struct GuestBackend {
    shared: Arc<Shared>,
}

struct Shared {
    host: Host,
    front_end: FrontEnd,
    /// Its place at the socket.
    place: Arc<Place>,
    memory: Memory,
    rings: [Arc<Ring>; QUEUE_COUNT as usize],
    /// Wakes the guest's thread when there are replies or events to hand out.
    wake: Arc<EventFd>,
    /// The front end's connection, if there is one.
    connection: Option<Arc<UnixStream>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Virtio features that the driver accepted.
    features: u64,
    has_memory: bool,
    channel: Option<Arc<Channel>>,
    session: Session,
    takeover: Takeover,
    /// The kick of the event queue that engines wait on, if they do.
    engines_kick: Option<Arc<FrontEndEvent>>,
    /// Counts stops, by which a mapping that completes after a stop is recognised as stale.
    stops: u64,
}

impl State {
    /// Whether engines wait on this kick.
    fn is_engines(&self, kick: Option<&Arc<FrontEndEvent>>) -> bool {
        let both = self.engines_kick.as_ref().zip(kick);
        both.is_some_and(|(engines, kick)| Arc::ptr_eq(engines, kick))
    }
}

#[derive(Default)]
enum Session {
    #[default]
    Stopped,
    /// The front end is mapping the BAR.
    Mapping(GuestId),
    Running {
        guest: GuestId,
        port: Arc<QueuePort>,
        span: Span,
    },
    /// The connection has ended.
    Closed,
}

impl GuestBackend {
    /// A back end for a new connection of this front end, which has this place at its socket; without a connection, its caller
    /// stands for the front end.
    ///
    /// # Errors
    /// If the process is out of file descriptors.
    pub fn new(
        host: Host,
        front_end: FrontEnd,
        place: Place,
        connection: Option<Arc<UnixStream>>,
    ) -> io::Result<Self> {
        let memory = GuestMemoryAtomic::new(GuestMemoryMmap::new());
        let ring = || Ring::new(memory.clone(), Arc::clone(&host.calls)).map(Arc::new);
        let rings = [ring().map_err(io::Error::other)?, ring().map_err(io::Error::other)?];
        let (wake, state) = (Arc::new(EventFd::new()?), Mutex::default());
        let place = Arc::new(place);
        host.standing.enter(place.number());
        let shared = Shared { host, front_end, place, memory, rings, wake, connection, state };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The guest, while it runs.
    #[must_use]
    pub fn guest(&self) -> Option<GuestId> {
        match self.shared.lock().session {
            Session::Mapping(guest) | Session::Running { guest, .. } => Some(guest),
            Session::Stopped | Session::Closed => None,
        }
    }

    /// Called when the connection ends. Stops the guest if it runs, frees all of its resources, and prevents
    /// another start. Returns when no engine can reach the guest's memory.
    pub fn close(&self) {
        let channel = self.shared.lock().channel.take();
        if let Some(channel) = channel {
            // A thread may be waiting for an answer that never comes.
            channel.shut_down();
        }
        self.shared.stop(Session::Closed);
        self.shared.host.standing.leave(self.shared.place.number());
        // Unmapped by this thread, which is the guest's own: it waits if the VMM punches a hole there meanwhile.
        let memory = self.shared.memory.lock();
        memory.unwrap_or_else(PoisonError::into_inner).replace(GuestMemoryMmap::new());
    }

    /// The guest's queues.
    #[must_use]
    pub fn rings(&self) -> &[Arc<Ring>; QUEUE_COUNT as usize] {
        &self.shared.rings
    }

    /// The virtio features that the device offers.
    #[must_use]
    pub fn features(&self) -> u64 {
        1 << VIRTIO_F_VERSION_1 | VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits()
    }

    /// Records the virtio features that the driver accepts.
    pub fn take_features(&self, taken: u64) {
        self.shared.lock().features = taken;
    }

    /// The vhost-user features that the device offers.
    #[must_use]
    pub fn protocol_features(&self) -> VhostUserProtocolFeatures {
        let mut features = VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::BACKEND_REQ
            | VhostUserProtocolFeatures::BACKEND_SEND_FD;
        features.set(VhostUserProtocolFeatures::SHMEM, self.shared.host.maps_bar);
        features
    }

    /// A part of the configuration space. Reads beyond the end return zeroes: a VMM may read as much as PCI allows,
    /// and some VMMs do not survive a refusal. Empty for a range that no VMM reads.
    #[must_use]
    pub fn config(&self, offset: u32, size: u32) -> Vec<u8> {
        let mut config = self.shared.config().as_bytes().to_vec();
        let end = u64::from(offset) + u64::from(size);
        if end > u64::from(VHOST_USER_CONFIG_SIZE) {
            return Vec::new();
        }
        let (offset, end) = (offset as usize, end as usize);
        config.resize(config.len().max(end), 0);
        config.drain(..offset);
        config.truncate(size as usize);
        config
    }

    /// The device's shared memory: the BAR.
    #[must_use]
    pub fn shared_memory(&self) -> VhostUserShMemConfig {
        VhostUserShMemConfig::new(1, &[self.shared.host.bar.bar_size()])
    }

    /// Replaces the guest's memory.
    pub fn update_memory(&self, memory: GuestMemoryMmap) {
        let mut state = self.shared.lock();
        let replaced = self.shared.memory.lock();
        replaced.unwrap_or_else(PoisonError::into_inner).replace(memory);
        state.has_memory = true;
        if let Session::Mapping(guest) | Session::Running { guest, .. } = state.session {
            let memory = self.shared.memory.memory().into_inner();
            self.shared.host.gpu.update_guest_memory(guest, memory);
        }
    }

    /// Sets the channel for requests to the front end; returns the previous one.
    pub(super) fn set_channel(&self, channel: Arc<Channel>) -> Option<Arc<Channel>> {
        self.shared.lock().channel.replace(channel)
    }

    /// Returns whether the front end sent unsolicited bytes on its channel.
    pub(super) fn is_channel_abused(&self) -> bool {
        self.shared.lock().channel.as_ref().is_some_and(|channel| channel.is_abused())
    }

    /// Called when a queue is stopped.
    pub fn ring_stopped(&self, queue: u32) {
        if queue == u32::from(CONTROL_QUEUE) {
            self.shared.stop(Session::Stopped);
        }
    }

    /// The kick of a queue that the guest's own thread is to watch: `None` unless the queue is started and enabled.
    ///
    /// While the guest runs, a kick of the event queue is for engines, which wait on it. The thread watches it too only
    /// while an event waits for a buffer: it would wake up for each submission after a pause, beside the engine.
    #[must_use]
    pub(super) fn watched_kick(&self, queue: u16) -> Option<Arc<FrontEndEvent>> {
        let ring = self.shared.rings.get(usize::from(queue))?;
        let kick = ring.watched_kick()?;
        if queue != EVENT_QUEUE {
            return Some(kick);
        }
        let state = self.shared.lock();
        let needs_buffers = match &state.session {
            Session::Running { port, .. } => port.needs_buffers(),
            Session::Stopped | Session::Mapping(_) | Session::Closed => true,
        };
        let is_left = !needs_buffers && state.takeover == Takeover::Settled;
        (!is_left || !state.is_engines(Some(&kick))).then_some(kick)
    }

    /// Becomes readable each time that there is something for [`Self::hand_out`]. It stays readable: wait for its edge.
    #[must_use]
    pub fn wake(&self) -> &EventFd {
        &self.shared.wake
    }

    /// Called by the guest's own thread: writes the replies and events that were sent since into the guest's memory.
    pub fn hand_out(&self) {
        if let Session::Running { port, .. } = &self.shared.lock().session {
            port.hand_out();
        }
    }

    /// Called when a queue is kicked or starts.
    ///
    /// # Errors
    /// If the guest cannot be served at all. No action of the guest causes such an error.
    pub fn kicked(&self, queue: u16) -> Result<(), ServiceError> {
        let mut state = self.shared.lock();
        if state.takeover != Takeover::Settled {
            self.shared.take_over(&mut state);
        }
        match (&state.session, queue) {
            (Session::Running { guest, port, .. }, CONTROL_QUEUE) => {
                port.take_requests(*guest, &self.shared.host.kernel);
            }
            (Session::Running { port, .. }, EVENT_QUEUE) => {
                port.deliver_events();
                let [_, events] = &self.shared.rings;
                if !state.is_engines(events.kick().as_ref()) {
                    self.shared.host.gpu.guest_kicked();
                }
            }
            (Session::Stopped, CONTROL_QUEUE) => {
                let [control, ..] = &self.shared.rings;
                if control.has_work() {
                    self.shared.start(&mut state)?;
                }
            }
            // A request that arrives while the BAR is being mapped is taken afterwards.
            (Session::Mapping(_) | Session::Stopped | Session::Closed, _)
            | (Session::Running { .. }, _) => {
                debug!(queue, "a kick needs no action in this state");
            }
        }
        Ok(())
    }
}

impl Shared {
    /// No code panics while it holds the lock, so the state behind a poisoned lock is consistent.
    #[expect(clippy::disallowed_methods, reason = "a lock of one guest's own threads")]
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn config(&self) -> ConfigSpace {
        ConfigSpace {
            magic: CONFIG_MAGIC,
            version: Version::CURRENT,
            node_count: self.host.gpu.chain_nodes(),
            bar_size: self.host.bar.bar_size(),
            doorbell_count: self.host.bar.doorbell_count,
            fence_count: self.host.bar.fence_count,
            features: self.host.features.bits(),
            reserved: [0; 3],
        }
    }

    /// Called for the first request: attaches the guest. If the front end can map the BAR, it is mapped first.
    fn start(self: &Arc<Self>, state: &mut State) -> Result<(), ServiceError> {
        if !state.has_memory {
            return Err(ServiceError::NoMemory);
        }
        if state.features & 1 << VIRTIO_F_VERSION_1 == 0 {
            return Err(ServiceError::Legacy);
        }
        let [_, events] = &self.rings;
        let Host { gpu, bar, segments, standing, .. } = &self.host;
        let memory = self.memory.memory().into_inner();
        let guest = gpu.attach_guest(*bar, *segments, memory, standing.account());
        let guest = guest.map_err(ServiceError::Bar)?;
        self.host.gpu.set_guest_stay(guest, Arc::clone(&self.place) as Stay);
        let span = guest_span(&self.host.span, guest);
        let _span = span.enter();
        if let Some(identity) = self.host.identity.or_else(nameless) {
            self.host.gpu.set_guest_identity(guest, identity);
        }
        state.engines_kick = events.kick().filter(|kick| self.gives(guest, kick));
        let call = Arc::clone(events.call());
        self.host.gpu.set_guest_nudge(guest, call);
        let wake = Arc::clone(&self.wake);
        let connection = self.connection.clone();
        let port = Arc::new(QueuePort::new(self.rings.clone(), wake, connection));
        let queue = Arc::clone(&port);
        self.host.gpu.set_guest_events(guest, queue);
        state.session = Session::Mapping(guest);
        let front_end = state.channel.clone().filter(|_| self.host.maps_bar);
        match (front_end, self.host.gpu.bar_file(guest)) {
            (Some(front_end), Some(file)) => {
                let (shared, stops) = (Arc::clone(self), state.stops);
                let (gpu, layout) = (Arc::clone(&self.host.gpu), self.host.bar);
                let has_refused = false.into();
                let span = span.clone();
                let pages = BarPages { gpu, guest, layout, file, front_end, has_refused };
                let spawned = thread::Builder::new().name("bar-mapper".into()).spawn(move || {
                    let _span = span.entered();
                    if !shared.host.remaps_doorbells {
                        let mapped = pages.map_whole();
                        shared.run(guest, port, mapped, stops);
                        return;
                    }
                    let mapped = pages.map_pieces(|| shared.lock().stops == stops);
                    // Set up before the guest runs, since its first doorbell already moves pages.
                    let rotation = mapped.then(|| pages.gpu.rotate_doorbells(guest)).flatten();
                    shared.run(guest, port, mapped, stops);
                    drop(shared);
                    if let Some(rotation) = rotation {
                        pages.rotate(&rotation);
                    }
                });
                if let Err(error) = spawned {
                    state.session = Session::Stopped;
                    self.host.gpu.detach_guest(guest);
                    return Err(ServiceError::Thread(error));
                }
            }
            _ => self.run_locked(state, guest, port, false),
        }
        Ok(())
    }

    /// Gives engines a second descriptor of a kick, to wait on. Returns whether they have it.
    fn gives(&self, guest: GuestId, kick: &FrontEndEvent) -> bool {
        match kick.as_fd().try_clone_to_owned() {
            Ok(kick) => {
                self.host.gpu.set_guest_kick(guest, kick);
                true
            }
            Err(error) => {
                warn!(%error, "the guest's thread wakes engines in place of the guest's kicks");
                false
            }
        }
    }

    fn run(&self, guest: GuestId, port: Arc<QueuePort>, bar_mapped: bool, stops: u64) {
        let mut state = self.lock();
        if state.stops == stops {
            self.run_locked(&mut state, guest, port, bar_mapped);
        }
    }

    /// Attaches the guest. Called in the guest's span.
    fn run_locked(
        &self,
        state: &mut State,
        guest: GuestId,
        port: Arc<QueuePort>,
        bar_mapped: bool,
    ) {
        let front_end = self.front_end.clone();
        let FrontEnd { connection, pid, command, .. } = &front_end;
        info!(connection, pid, command, bar_mapped, "guest attached");
        self.host.gpu.set_front_end(guest, front_end);
        let resources = GuestResources {
            bar: self.host.bar,
            segments: self.host.segments,
            bar_mapped,
            features: self.host.features,
            sharing: self.host.sharing,
        };
        let Host { gpu, kernel, standing, .. } = &self.host;
        standing.attach(gpu, kernel, (self.place.number(), guest), || {
            kernel.attach(guest, resources, Box::new(KernelPort(Arc::clone(&port))));
        });
        port.take_requests(guest, &self.host.kernel);
        // The display may have sent events before this was its port.
        self.wake.signal();
        state.session = Session::Running { guest, port, span: Span::current() };
    }

    /// Determines on the first activity which driver started the queues, and tells a driver that still believes in
    /// an earlier device.
    fn take_over(&self, state: &mut State) {
        let [control, events] = &self.rings;
        if state.takeover == Takeover::Unknown {
            state.takeover = Takeover::of(control, events);
            if state.takeover == Takeover::ToBeTold {
                info!("the driver still uses a device that was replaced; telling it so");
            }
        }
        if state.takeover == Takeover::ToBeTold {
            state.takeover.tell(events);
        }
    }

    fn stop(&self, next: Session) {
        let mut state = self.lock();
        state.stops += 1;
        state.takeover = Takeover::Unknown;
        state.engines_kick = None;
        match std::mem::replace(&mut state.session, next) {
            Session::Stopped | Session::Closed => {}
            Session::Mapping(guest) => self.host.gpu.detach_guest(guest),
            Session::Running { guest, span, .. } => {
                let _span = span.entered();
                // The front end is about to drop its mappings, and QEMU does not survive a request for one
                // afterwards. The front end waits until this returns, so nothing here may wait for the front
                // end.
                self.host.standing.detach(self.place.number());
                self.host.gpu.stop_rotation(guest);
                self.host.kernel.detach_blocking(guest);
                self.host.gpu.detach_guest(guest);
                super::heap::trim();
                info!("guest detached");
            }
        }
    }
}
