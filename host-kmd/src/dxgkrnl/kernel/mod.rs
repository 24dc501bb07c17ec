// SPDX-License-Identifier: MIT OR Apache-2.0

//! The kernel: inputs go in, effects come out.
//!
//! A handler in `requests` answers a request; interrupts, commands and traces have files of their own. The work list
//! carries the consequences of an input to `rules`, until nothing is left: see `settle`.

mod access;
mod callbacks;
mod command;
mod guest;
mod inspect;
mod interrupts;
mod objects;
mod process;
mod queue_span;
mod request;
mod request_table;
mod requests;
mod rules;
mod settle;
mod spread;
mod trace;
mod waiter;
mod work;

use crate::ddi::Miniport;
use crate::ddi::paging::PAGING_VA_SIZE;
use crate::dxgkrnl::compute::compilations::{Compilation, Compilations};
use crate::dxgkrnl::doorbell::connect::Connecting;
use crate::dxgkrnl::doorbell::table::Doorbells;
use crate::dxgkrnl::fence::cross::CrossFences;
use crate::dxgkrnl::fence::features::{AdapterError, NativeFences, OsFeatures};
use crate::dxgkrnl::kernel::callbacks::Callbacks;
use crate::dxgkrnl::kernel::guest::Guest;
use crate::dxgkrnl::kernel::request::{Answer, Body, Compiling, Handled, reply};
use crate::dxgkrnl::kernel::request_table::{Rules, parse};
use crate::dxgkrnl::kernel::waiter::{Outcome, Waiter};
use crate::dxgkrnl::kernel::work::WorkList;
use crate::dxgkrnl::memory::migration::Migration;
use crate::dxgkrnl::object::changes::Changes;
use crate::dxgkrnl::object::completion::Completion;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::limits::Limits;
use crate::dxgkrnl::object::process_ids::ProcessIds;
use crate::dxgkrnl::object::recorder::Recorder;
use crate::dxgkrnl::object::resource::Resource;
use crate::dxgkrnl::object::target::{Manner, Target};
use crate::dxgkrnl::power::gpus::{GpuPower, GpuPowerPolicy};
use crate::dxgkrnl::power::state::{Power, PowerPolicy};
use crate::dxgkrnl::queue::hw_queue::QueueOwner;
use crate::dxgkrnl::queue::submission_fences::SubmissionFences;
use crate::dxgkrnl::recovery::quiesced::Quiesced;
use crate::dxgkrnl::recovery::retirement::Retirements;
use crate::dxgkrnl::recovery::tdr::{Tdr, TdrPolicy};
use crate::dxgkrnl::recovery::termination::Terminations;
use crate::hardware::{GpuOrdinal, GuestId, Hardware, HardwareError, HwQueueId};
use crate::miniport::BellhopMiniport;
use crate::port::{Effect, GuestResources, Input, RequestToken};
use crate::proxy::{LinkedHardware, Proxy};
use bellhop_protocol::doorbell::LoggingLevel;
use bellhop_protocol::status::Status;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// `TdrDelay`: how long an engine may take without progress.
const TDR_DELAY: Duration = Duration::from_secs(2);

/// The place and the name of an adapter on its host.
#[derive(Debug, Default)]
pub(crate) struct Identity {
    /// Its place among the host's adapters.
    ordinal: u32,
    /// Its name.
    name: String,
}

/// All state of an adapter's control plane. It does no I/O and never blocks.
pub struct Kernel {
    hardware: Arc<dyn Hardware>,
    miniport: Box<dyn Miniport>,
    callbacks: Callbacks,
    guests: BTreeMap<GuestId, Guest>,
    queues: BTreeMap<HwQueueId, QueueOwner>,
    process_ids: ProcessIds,
    retirements: Retirements,
    terminations: Terminations,
    power: Power,
    /// Power of each GPU of a chain.
    gpu_power: GpuPower,
    submissions: SubmissionFences,
    /// Work that remains before an input is handled.
    work: WorkList,
    /// Guests with paging under way.
    paging: BTreeSet<GuestId>,
    /// The tickets that are known to have passed.
    quiesced: Quiesced,
    tdr: Tdr,
    /// Kernels of guests that the hardware compiles.
    compilations: Compilations,
    migration: Migration,
    /// Fences that guests of any adapter share: lent to the kernel while it handles an input.
    cross_fences: CrossFences,
    /// The adapter's identity, for tools.
    identity: Identity,
    /// What the host's operator has changed of the adapter.
    changes: Changes,
    /// Records for a tool that traces.
    recorder: Recorder,
    /// What engines log for drivers.
    logging_level: LoggingLevel,
    /// The time since an arbitrary epoch.
    now: Duration,
    /// `TdrDelay`: how long an engine may execute a queue without progress before that is a hang, and how long the
    /// work of a destroyed queue may take.
    timeout: Duration,
    limits: Limits,
    /// What the OS and the driver agreed on, if there are native fences.
    native_fences: Option<NativeFences>,
}

/// The GPU of each node.
fn gpus_of(miniport: &dyn Miniport) -> Vec<GpuOrdinal> {
    let gpu = |node| miniport.get_node_metadata(node).map_or(0, |node| node.gpu());
    (0..miniport.node_count()).map(gpu).map(GpuOrdinal).collect()
}

impl Kernel {
    /// Creates a kernel with the driver of our GPU. It must be the only kernel of the GPU.
    ///
    /// # Errors
    /// Fails if the driver advertises a feature that is not enabled.
    pub fn new(
        hardware: Arc<dyn Hardware>,
        features: OsFeatures,
        limits: Limits,
    ) -> Result<Self, AdapterError> {
        let driver = Box::new(BellhopMiniport::new(Arc::clone(&hardware)));
        let proxy = Box::new(Proxy::passing_through(driver));
        Self::with_miniport(hardware, proxy, features, limits)
    }

    /// Creates a kernel with the drivers of the GPUs of a chain, the master first, behind the proxy. It must be the only
    /// kernel of each.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn linked(
        master: Arc<dyn Hardware>,
        slaves: Vec<Arc<dyn Hardware>>,
        features: OsFeatures,
        limits: Limits,
    ) -> Result<Self, AdapterError> {
        if slaves.is_empty() {
            return Self::new(master, features, limits);
        }
        let driver = |gpu: &Arc<dyn Hardware>| -> Box<dyn Miniport> {
            Box::new(BellhopMiniport::new(Arc::clone(gpu)))
        };
        let drivers = (driver(&master), slaves.iter().map(driver).collect());
        let hardware = LinkedHardware::new(master, slaves);
        let proxy = Box::new(Proxy::linked(drivers.0, drivers.1, &hardware));
        Self::with_miniport(Arc::new(hardware), proxy, features, limits)
    }

    /// Creates a kernel with another driver.
    ///
    /// # Errors
    /// Fails if the driver advertises a feature that is not enabled, or caps that dxgkrnl cannot meet.
    pub fn with_miniport(
        hardware: Arc<dyn Hardware>,
        mut miniport: Box<dyn Miniport>,
        features: OsFeatures,
        limits: Limits,
    ) -> Result<Self, AdapterError> {
        let native_fences = NativeFences::negotiate(miniport.as_mut(), &features)?;
        let recorder = Recorder::new(Arc::clone(&hardware));
        let gpus = hardware.gpu_count();
        Ok(Self {
            native_fences,
            callbacks: Callbacks::new(Doorbells::new(Arc::clone(&hardware), recorder.clone())),
            hardware,
            power: Power::new(miniport.node_count(), recorder.clone()),
            gpu_power: GpuPower::new(gpus),
            recorder,
            tdr: Tdr::new(gpus_of(miniport.as_ref())),
            migration: Migration::default(),
            compilations: Compilations::default(),
            miniport,
            guests: BTreeMap::new(),
            queues: BTreeMap::new(),
            process_ids: ProcessIds::default(),
            retirements: Retirements::default(),
            terminations: Terminations::default(),
            submissions: SubmissionFences::default(),
            cross_fences: CrossFences::default(),
            identity: Identity::default(),
            changes: Changes::default(),
            logging_level: LoggingLevel::DEFAULT,
            work: WorkList::default(),
            paging: BTreeSet::new(),
            quiesced: Quiesced::default(),
            now: Duration::ZERO,
            timeout: TDR_DELAY,
            limits,
        })
    }

    /// Sets the adapter's name, for tools; empty by default.
    #[must_use]
    pub fn with_name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.identity.name);
        self
    }

    /// Sets when power states change by themselves; never by default.
    #[must_use]
    pub fn with_power_policy(mut self, policy: PowerPolicy) -> Self {
        self.power.set_policy(policy);
        self
    }

    /// Sets when the slaves of a chain have power; whenever the device has, by default.
    #[must_use]
    pub fn with_gpu_power_policy(mut self, policy: GpuPowerPolicy) -> Self {
        self.gpu_power.set_policy(policy);
        self
    }

    /// Sets how long an engine may execute a queue without progress before that is a hang, and how long the work of a
    /// destroyed queue may take. Two seconds by default.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how the kernel deals with hangs.
    #[must_use]
    pub fn with_tdr_policy(mut self, policy: TdrPolicy) -> Self {
        self.tdr.set_policy(policy);
        self
    }

    /// Sets its place among the host's adapters, for tools.
    pub(super) fn set_ordinal(&mut self, ordinal: u32) {
        self.identity.ordinal = ordinal;
    }

    /// Lends the kernel the fences that guests of several adapters share, or takes them back.
    pub(super) fn swap_cross_fences(&mut self, cross_fences: &mut CrossFences) {
        std::mem::swap(&mut self.cross_fences, cross_fences);
    }

    /// Sets the time. Monotonic; the epoch is arbitrary.
    pub fn set_time(&mut self, now: Duration) {
        self.now = self.now.max(now);
    }

    /// When [`Input::Timeout`] is due if no other input comes, on the clock of [`Self::set_time`].
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        let deadlines = [
            self.terminations.deadline(),
            self.idle_deadline().filter(|_| !self.is_lit()),
            self.tdr.deadline(),
            self.migration.deadline(),
            self.flip_deadline(),
            self.agent_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Handles one input and appends its effects. Every request gets exactly one reply, now or as an effect of a
    /// later input, unless its guest detaches first.
    pub fn handle(&mut self, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::Attach { guest, resources } => self.attach(guest, resources),
            Input::Detach { guest } => {
                self.watch_engines();
                self.detach(guest, effects);
            }
            Input::Request { guest, token, request, room } => {
                self.watch_engines();
                self.watch_use(guest);
                self.request(guest, token, Body { bytes: &request, room }, effects);
            }
            Input::Interrupt => self.interrupt(effects),
            Input::Command { token, command } => {
                self.watch_engines();
                self.command(token, command, effects);
            }
            Input::AskAgent { token, guest, request } => {
                self.operator_asks(token, guest, &request, effects);
            }
            Input::Note { guest, change } => self.note(guest, change),
            Input::CrossAdapterSignal { guest, fence, always } => {
                self.cross_adapter_signal(guest, fence, always, effects);
            }
            Input::Trace { token, action } => self.trace(token, action, effects),
            Input::Timeout => self.power_down_when_idle(effects),
        }
        if self.flip_deadline().is_some_and(|deadline| deadline <= self.now) {
            // The hardware may have told of the flip already.
            self.interrupt(effects);
        }
        self.settle(effects);
    }

    fn attach(&mut self, id: GuestId, resources: GuestResources) {
        if self.guests.contains_key(&id) {
            tracing::error!(guest = id.0, "a guest attached twice");
            return;
        }
        let system = self.miniport.create_system_context(id);
        if let Err(full) = system {
            tracing::error!(guest = id.0, %full, "no system context: the guest gets no service");
        }
        let window = self.paging_window(&resources);
        let native = self.native_fences;
        let gpus = self.hardware.gpu_count();
        let guest = Guest::new(id, resources, system, window, &self.limits, native, gpus);
        let suggested = self.spread();
        self.guests.insert(id, guest.with_suggested(suggested));
        let mut effects = Vec::new();
        if let Some(mut access) = self.access(id, 0, &mut effects)
            && let Err(error) = access.make_window_tables(window)
            && access.guest.system().is_ok()
        {
            tracing::error!(guest = id.0, %error, "no page tables for paging");
        }
    }

    /// Size of the paging process's GPU VA space. Source: "Allocation notification", "Paging process
    /// GPU VA space size".
    fn paging_window(&self, resources: &GuestResources) -> u64 {
        match self.miniport.paging_process_gpu_va_size() {
            // "The size of the GPU VA space is a quarter of the largest local memory segment or the size of the
            // hardware scheduling log buffers"; there are no such buffers here.
            0 => resources.bar.local_memory.max(resources.segments.private) / 4,
            // Values of fences follow it.
            mebibytes => (u64::from(mebibytes) << 20).min(PAGING_VA_SIZE),
        }
    }

    /// A guest detaches: all its processes terminate abnormally. Source: user-mode work submission, "Normal and
    /// abnormal process termination".
    fn detach(&mut self, id: GuestId, effects: &mut Vec<Effect>) {
        let Some(guest) = self.guests.get_mut(&id) else {
            effects.push(Effect::Detached { guest: id });
            return;
        };
        if !guest.begin_detach() {
            return;
        }
        self.terminations.forget_guest(id);
        self.terminate((id, 0), Target::Guest, Manner::Abnormal, Completion::Detached, effects);
    }

    fn request(
        &mut self,
        id: GuestId,
        token: RequestToken,
        request: Body<'_>,
        effects: &mut Vec<Effect>,
    ) {
        match self.guests.get_mut(&id) {
            Some(guest) if !guest.is_detaching() => guest.count_control_message(),
            _ => {
                tracing::debug!(guest = id.0, "ignored a request of a guest that is gone");
                return;
            }
        }
        let (process, answer, given_up) = self.answer(id, request, effects);
        let (mut completion, mut waiter) = (Completion::Nothing, None);
        let reply = match answer {
            Ok(Answer::Done(body)) => Some(reply(Status::SUCCESS, 0, &body)),
            Ok(Answer::Pending) => Some(reply(Status::PENDING, 0, &[])),
            Ok(Answer::AfterRotation(queue, hw_queue)) => {
                self.callbacks.doorbells.wait_for_connect(queue, Connecting { token, hw_queue });
                None
            }
            Ok(Answer::AfterQuiesce) => {
                completion = Completion::Reply(token);
                None
            }
            Ok(Answer::AfterPaging(body)) => {
                waiter = Some(Waiter { token, outcome: Outcome::Reply(body) });
                None
            }
            Ok(Answer::SubmitAfterPaging(deferred)) => {
                waiter = Some(Waiter { token, outcome: Outcome::Submit(deferred) });
                None
            }
            Ok(Answer::AfterCompiling(Compiling { space, kernel, device })) => {
                let compilation = Compilation { guest: id, process, device, token };
                self.compilations.begin(space, kernel, compilation);
                None
            }
            Ok(Answer::CompileAfterPaging(deferred)) => {
                waiter = Some(Waiter { token, outcome: Outcome::Compile(deferred) });
                None
            }
            Ok(Answer::AfterDisplay(ticket)) => {
                if let Some(guest) = self.guests.get_mut(&id) {
                    guest.display.wait(ticket, token);
                }
                None
            }
            Ok(Answer::AfterFlip(flip)) => {
                let guest = self.guests.get_mut(&id);
                let flip = guest.and_then(|guest| guest.display.waiting_flip(flip));
                if let Some(flip) = flip {
                    flip.token = Some(token);
                }
                None
            }
            Ok(Answer::FlipAfterPaging(flip)) => {
                waiter = Some(Waiter { token, outcome: Outcome::Flip(flip) });
                None
            }
            Ok(Answer::Terminate(target, manner)) => {
                let completion = Completion::Reply(token);
                if self.terminations.contains(id, process, target) {
                    let error = RequestError::Terminating(target);
                    Some(reply(error.status(), error.detail(), &[]))
                } else {
                    self.terminate((id, process), target, manner, completion, effects);
                    None
                }
            }
            Ok(Answer::DevicePower(state)) => {
                self.set_device_power(state, (id, Completion::Reply(token)), effects);
                None
            }
            Ok(Answer::AskAgent(request)) => {
                self.program_asks(id, token, &request, effects);
                None
            }
            Ok(Answer::DevicePresence(presence)) => {
                self.set_presence(id, presence, effects);
                completion = Completion::Reply(token);
                None
            }
            Ok(Answer::EnginePower(node, state)) => {
                self.set_engine_power(node, state, effects);
                completion = Completion::Reply(token);
                None
            }
            Err(error) => {
                if let RequestError::UnknownId(unknown) = error {
                    HardwareError::from(unknown).report();
                }
                tracing::debug!(guest = id.0, %error, "request refused");
                Some(reply(error.status(), error.detail(), &[]))
            }
        };
        effects.extend(reply.map(|reply| Effect::Reply { guest: id, token, reply }));
        // A refused request gets here too: VidMm may have made room for it. Paging begins before the retirement, so
        // that resources are freed only after the paging that uses them.
        self.begin_paging(id, process, waiter, effects);
        if !given_up.is_empty() || matches!(completion, Completion::Reply(_)) {
            self.retire(id, given_up, completion);
        }
    }

    /// Lets a handler answer a request. Returns the process, the answer, and what the request gave up.
    fn answer(
        &mut self,
        guest: GuestId,
        request: Body<'_>,
        effects: &mut Vec<Effect>,
    ) -> (u32, Handled<Vec<u8>>, Vec<Resource>) {
        let (header, declaration, body) = match parse(request) {
            Ok(parsed) => parsed,
            Err(error) => {
                self.count_unknown_escape(guest, &error);
                return (0, Err(error), Vec::new());
            }
        };
        let process = header.process;
        let no_process = RequestError::NoSuchProcess(process);
        let Some(mut access) = self.access(guest, process, effects) else {
            return (process, Err(no_process), Vec::new());
        };
        if let Err(error) = declaration.check(&mut access) {
            return (process, Err(error), Vec::new());
        }
        if declaration.rules.contains(Rules::NEEDS_POWER) {
            self.ensure_power(effects);
        }
        let Some(mut access) = self.access(guest, process, effects) else {
            return (process, Err(no_process), Vec::new());
        };
        let answer = (declaration.serve)(&mut access, body);
        (process, answer, access.into_given_up())
    }
}
