//! The vhost-user back end of one guest.

use super::exit::ExitEvent;
use super::pages::BarPages;
use super::port::{KernelPort, QueuePort};
use crate::gpu::Gpu;
use crate::log::LogSource;
use bellhop_host_kmd::actor::KernelHandle;
use bellhop_host_kmd::hardware::{GuestId, Hardware, SegmentSizes};
use bellhop_host_kmd::port::{GuestResources, SharingGroups};
use bellhop_protocol::bar::BarLayout;
use bellhop_protocol::config::{
    CONFIG_MAGIC, CONTROL_QUEUE, ConfigSpace, EVENT_QUEUE, MAX_QUEUE_SIZE, QUEUE_COUNT,
};
use bellhop_protocol::features::{Features, Version};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use tracing::{debug, error, info, warn};
use vhost::vhost_user::Backend;
use vhost::vhost_user::message::{
    VHOST_USER_CONFIG_SIZE, VhostUserProtocolFeatures, VhostUserShMemConfig,
    VhostUserVirtioFeatures,
};
use vhost_user_backend::{VhostUserBackend, VringMutex, VringT};
use virtio_bindings::bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_queue::QueueT;
use vm_memory::{GuestAddressSpace, GuestMemoryAtomic, GuestMemoryMmap};
use vmm_sys_util::epoll::EventSet;
use vmm_sys_util::event::{EventConsumer, EventNotifier};
use zerocopy::IntoBytes;

/// How much less urgent the taking of kicks is: a third of an engine's share while both want a processor.
const KICKS_NICENESS: i32 = 5;

/// What a guest is attached to.
#[derive(Clone)]
pub struct Host {
    /// The GPU that executes its work.
    pub gpu: Arc<Gpu>,
    /// The kernel that answers its requests.
    pub kernel: KernelHandle,
    /// What every guest's BAR looks like.
    pub bar: BarLayout,
    /// The segments that every guest has beside it.
    pub segments: SegmentSizes,
    /// What every guest is offered.
    pub features: Features,
    /// With whom the guest that comes may have fences.
    pub sharing: SharingGroups,
    /// The weight of the guest that comes.
    pub weight: u32,
    /// Physical doorbells that are its share; 0 is an equal part.
    pub doorbell_share: u32,
    /// Whose doing the lines are that it has logged.
    pub log: Arc<LogSource>,
    /// Whether VMMs are asked to map it.
    pub maps_bar: bool,
    /// Whether they are asked to map it in pieces, and doorbells' pages are moved after.
    pub remaps_doorbells: bool,
}

/// One guest's back end. It serves one connection.
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
    exit: ExitEvent,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    memory: Option<GuestMemoryAtomic<GuestMemoryMmap>>,
    front_end: Option<Backend>,
    session: Session,
    /// Counts stops, so that a mapping that ends after one is recognised as stale.
    stops: u64,
}

#[derive(Default)]
enum Session {
    #[default]
    Stopped,
    /// The front end is asked to map the BAR.
    Mapping(GuestId),
    Running {
        guest: GuestId,
        port: Arc<QueuePort>,
    },
    /// The connection has ended. A kick that came before that may still be on its way to
    /// `handle_event`, and must not start the guest again.
    Closed,
}

impl GuestBackend {
    /// A back end without a front end yet.
    #[must_use]
    pub fn new(host: Host) -> Self {
        let shared = Shared { host, exit: ExitEvent::default(), state: Mutex::default() };
        Self { shared: Arc::new(shared) }
    }

    /// The guest, while it runs.
    #[must_use]
    pub fn guest(&self) -> Option<GuestId> {
        match self.shared.lock().session {
            Session::Mapping(guest) | Session::Running { guest, .. } => Some(guest),
            Session::Stopped | Session::Closed => None,
        }
    }

    /// The connection has ended: stops the guest, if it runs, gives back everything it had, and
    /// starts it no more. Returns when no engine can reach its memory any more.
    pub fn close(&self) {
        self.shared.stop(Session::Closed);
    }
}

impl Shared {
    /// No code panics while it holds the lock, so a poisoned state is whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn config(&self) -> ConfigSpace {
        ConfigSpace {
            magic: CONFIG_MAGIC,
            version: Version::CURRENT,
            node_count: self.host.gpu.nodes().len() as u32,
            bar_size: self.host.bar.bar_size(),
            doorbell_count: self.host.bar.doorbell_count,
            fence_count: self.host.bar.fence_count,
            features: self.host.features.bits(),
            reserved: [0; 3],
        }
    }

    /// The first request is there: attaches the guest, mapping its BAR first where the front end
    /// can.
    fn start(self: &Arc<Self>, state: &mut State, vrings: &[VringMutex]) {
        let (Some(memory), [control, events, ..]) = (state.memory.clone(), vrings) else {
            warn!("the front end started a queue before it sent a memory table");
            return;
        };
        let attached = self.host.gpu.attach_guest(
            self.host.bar,
            self.host.segments,
            memory.memory().into_inner(),
        );
        let guest = match attached {
            Ok(guest) => guest,
            Err(error) => {
                error!(%error, "cannot make the guest's BAR; the guest gets no service");
                return;
            }
        };
        self.host.log.set_guest(guest);
        self.host.gpu.set_guest_weight(guest, self.host.weight);
        self.host.gpu.set_doorbell_share(guest, self.host.doorbell_share);
        if let Some(kick) = kick(control) {
            self.host.gpu.set_guest_kick(guest, kick);
        }
        let port = Arc::new(QueuePort::new(
            memory,
            control.clone(),
            events.clone(),
            Arc::clone(&self.host.log),
        ));
        state.session = Session::Mapping(guest);
        let front_end = state.front_end.clone().filter(|_| self.host.maps_bar);
        match (front_end, self.host.gpu.bar_file(guest)) {
            (Some(front_end), Some(file)) => {
                let (shared, stops) = (Arc::clone(self), state.stops);
                let (gpu, layout) = (Arc::clone(&self.host.gpu), self.host.bar);
                let has_refused = false.into();
                let pages = BarPages { gpu, guest, layout, file, front_end, has_refused };
                let spawned = thread::Builder::new().name("bar-mapper".into()).spawn(move || {
                    shared.host.log.take_thread();
                    if !shared.host.remaps_doorbells {
                        let mapped = pages.map_whole();
                        shared.run(guest, port, mapped, stops);
                        return;
                    }
                    let mapped = pages.map_pieces(|| shared.lock().stops == stops);
                    // Before the guest runs: from its first doorbell on, pages are moved.
                    let rotation = mapped.then(|| pages.gpu.rotate_doorbells(guest)).flatten();
                    shared.run(guest, port, mapped, stops);
                    drop(shared);
                    if let Some(rotation) = rotation {
                        pages.rotate(&rotation);
                    }
                });
                if let Err(error) = spawned {
                    error!(%error, "cannot start the thread that maps the BAR");
                    state.session = Session::Stopped;
                    self.host.gpu.detach_guest(guest);
                }
            }
            _ => self.run_locked(state, guest, port, false),
        }
    }

    fn run(&self, guest: GuestId, port: Arc<QueuePort>, bar_mapped: bool, stops: u64) {
        let mut state = self.lock();
        if state.stops == stops {
            self.run_locked(&mut state, guest, port, bar_mapped);
        }
    }

    fn run_locked(
        &self,
        state: &mut State,
        guest: GuestId,
        port: Arc<QueuePort>,
        bar_mapped: bool,
    ) {
        info!(guest = guest.0, bar_mapped, "guest attached");
        let resources = GuestResources {
            bar: self.host.bar,
            segments: self.host.segments,
            bar_mapped,
            features: self.host.features,
            sharing: self.host.sharing,
        };
        self.host.kernel.attach(guest, resources, Box::new(KernelPort(Arc::clone(&port))));
        port.take_requests(guest, &self.host.kernel);
        state.session = Session::Running { guest, port };
    }

    fn stop(&self, next: Session) {
        let mut state = self.lock();
        state.stops += 1;
        match std::mem::replace(&mut state.session, next) {
            Session::Stopped | Session::Closed => {}
            Session::Mapping(guest) => self.host.gpu.detach_guest(guest),
            Session::Running { guest, .. } => {
                // The front end is about to drop its mappings, and QEMU does not survive being
                // asked for one after. It waits for this to return, so nothing on its way to it
                // can be waited for here.
                self.host.gpu.stop_rotation(guest);
                self.host.kernel.detach_blocking(guest);
                self.host.gpu.detach_guest(guest);
                super::heap::trim();
                info!(guest = guest.0, "guest detached");
            }
        }
    }
}

/// Makes the thread that takes a guest's kicks less urgent, once: a kick wakes the guest's engine too, and
/// where there is one processor for both it is the engine that has what somebody waits for.
fn let_engines_go_first() {
    thread_local!(static LESS_URGENT: () = {
        if let Err(error) = rustix::process::nice(KICKS_NICENESS) {
            debug!(%error, "kicks are taken as urgently as anything else");
        }
    });
    LESS_URGENT.with(|()| ());
}

/// What becomes readable when the driver kicks the queue.
fn kick(vring: &VringMutex) -> Option<OwnedFd> {
    let state = vring.get_ref();
    let kick = state.get_kick().as_ref()?.as_raw_fd();
    // SAFETY: the vring has it open for as long as `state` locks it.
    #[expect(unsafe_code, reason = "vmm-sys-util lends the number only")]
    let kick = unsafe { BorrowedFd::borrow_raw(kick) };
    kick.try_clone_to_owned()
        .inspect_err(|error| warn!(%error, "engines are woken by notifications only"))
        .ok()
}

/// Whether the queue runs and the driver has put something into it.
fn has_work(vring: &VringMutex, memory: Option<&GuestMemoryAtomic<GuestMemoryMmap>>) -> bool {
    let Some(memory) = memory else { return false };
    let state = vring.get_ref();
    let queue = state.get_queue();
    queue.ready()
        && queue
            .avail_idx(&*memory.memory(), std::sync::atomic::Ordering::Acquire)
            .is_ok_and(|available| available.0 != queue.next_avail())
}

impl VhostUserBackend for GuestBackend {
    type Bitmap = ();
    type Vring = VringMutex;

    fn num_queues(&self) -> usize {
        usize::from(QUEUE_COUNT)
    }

    fn max_queue_size(&self) -> usize {
        usize::from(MAX_QUEUE_SIZE)
    }

    /// The first thing that a front end asks for, so that its thread is known.
    fn features(&self) -> u64 {
        self.shared.host.log.take_thread();
        1 << VIRTIO_F_VERSION_1 | VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits()
    }

    fn protocol_features(&self) -> VhostUserProtocolFeatures {
        let mut features = VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::BACKEND_REQ
            | VhostUserProtocolFeatures::BACKEND_SEND_FD;
        features.set(VhostUserProtocolFeatures::SHMEM, self.shared.host.maps_bar);
        features
    }

    fn set_event_idx(&self, _enabled: bool) {}

    /// Reads beyond the configuration space give zeroes: a VMM may read as much as PCI allows,
    /// and some do not survive a refusal.
    fn get_config(&self, offset: u32, size: u32) -> Vec<u8> {
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

    /// Writes change nothing. Refusing one would end the VM under some VMMs.
    fn set_config(&self, _offset: u32, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn update_memory(&self, memory: GuestMemoryAtomic<GuestMemoryMmap>) -> io::Result<()> {
        let mut state = self.shared.lock();
        if let Session::Mapping(guest) | Session::Running { guest, .. } = state.session {
            self.shared.host.gpu.update_guest_memory(guest, memory.memory().into_inner());
        }
        state.memory = Some(memory);
        Ok(())
    }

    fn set_backend_req_fd(&self, front_end: Backend) {
        self.shared.lock().front_end = Some(front_end);
    }

    fn exit_event(&self, _thread_index: usize) -> Option<(EventConsumer, EventNotifier)> {
        match self.shared.exit.create() {
            Ok(pair) => Some(pair),
            Err(error) => {
                error!(%error, "cannot make the event that ends a vring worker");
                None
            }
        }
    }

    fn stop_vring(&self, queue: u32) -> io::Result<()> {
        if queue == u32::from(CONTROL_QUEUE) {
            self.shared.stop(Session::Stopped);
        }
        Ok(())
    }

    /// Never an error: that would end the worker, and with it the guest's service, over
    /// something the guest did.
    fn handle_event(
        &self,
        queue: u16,
        _events: EventSet,
        vrings: &[VringMutex],
        _thread: usize,
    ) -> io::Result<()> {
        let_engines_go_first();
        self.shared.host.log.take_thread();
        let mut state = self.shared.lock();
        match (&state.session, queue) {
            (Session::Running { guest, port }, CONTROL_QUEUE) => {
                port.take_requests(*guest, &self.shared.host.kernel);
            }
            (Session::Running { port, .. }, EVENT_QUEUE) => port.deliver_events(),
            (Session::Stopped, CONTROL_QUEUE) => {
                // The event may be a spurious one at the start, or a late one after a stop.
                if has_work(&vrings[0], state.memory.as_ref()) {
                    self.shared.start(&mut state, vrings);
                }
            }
            // A request that comes while the BAR is being mapped is taken after that.
            (Session::Mapping(_) | Session::Stopped | Session::Closed, _)
            | (Session::Running { .. }, _) => {
                debug!(queue, "nothing to do yet");
            }
        }
        Ok(())
    }

    fn get_shmem_config(&self) -> io::Result<VhostUserShMemConfig> {
        Ok(VhostUserShMemConfig::new(1, &[self.shared.host.bar.bar_size()]))
    }
}
