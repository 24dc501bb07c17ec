//! The kernel: inputs go in, effects come out.

use super::callbacks::Callbacks;
use super::cross_fences::CrossFences;
use super::error::RequestError;
use super::features::{AdapterError, NativeFences, OsFeatures};
use super::guest::Guest;
use super::hw_queue::QueueOwner;
use super::limits::Limits;
use super::migration::Migration;
use super::paging::{Outcome, Waiter};
use super::power::{Power, PowerPolicy};
use super::process::ProcessIds;
use super::request::{
    Answer, Body, Handled, fixed, is_adapter_request, needs_power, parse, reply, with_list, zero,
};
use super::retire::{Completion, Resource, Retirements};
use super::rotation::Connecting;
use super::scope::Scope;
use super::software_queue::Released;
use super::submissions::Submissions;
use super::tdr::{Tdr, TdrPolicy};
use super::termination::{Manner, Target, Termination};
use super::trace::Recorder;
use crate::ddi::Miniport;
use crate::ddi::paging::PAGING_VA_SIZE;
use crate::hardware::{GuestId, Hardware, HwQueueId};
use crate::miniport::BellhopMiniport;
use crate::port::{Effect, GuestResources, Input, RequestToken};
use bellhop_protocol::control::adapter::DonateArea;
use bellhop_protocol::control::allocation::{CreateAllocation, Evict, MakeResident};
use bellhop_protocol::control::fence::{SignalFences, SignalFromGpu, WaitForFences, WaitFromGpu};
use bellhop_protocol::control::{Request, RequestCode};
use bellhop_protocol::doorbell::LoggingLevel;
use bellhop_protocol::status::Status;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use zerocopy::IntoBytes;

/// `TdrDelay`: how long an engine may take for one thing.
const TDR_DELAY: Duration = Duration::from_secs(2);

/// What an adapter is called on its host.
#[derive(Debug, Default)]
pub(super) struct Identity {
    /// Its place among the host's adapters.
    pub(super) ordinal: u32,
    /// Its name.
    pub(super) name: String,
}

/// All state of an adapter's control plane. It does no I/O and waits for nothing.
pub struct Kernel {
    pub(super) hardware: Arc<dyn Hardware>,
    pub(super) miniport: Box<dyn Miniport>,
    pub(super) callbacks: Callbacks,
    pub(super) guests: BTreeMap<GuestId, Guest>,
    pub(super) queues: BTreeMap<HwQueueId, QueueOwner>,
    pub(super) process_ids: ProcessIds,
    pub(super) retirements: Retirements,
    pub(super) terminations: Vec<Termination>,
    pub(super) power: Power,
    pub(super) submissions: Submissions,
    /// Queues whose software queues are to be looked at.
    pub(super) released: VecDeque<Released>,
    pub(super) tdr: Tdr,
    pub(super) migration: Migration,
    /// Fences that guests of any adapter have together: lent to it while it handles an input.
    pub(super) cross_fences: CrossFences,
    /// Which adapter it is, for tools.
    pub(super) identity: Identity,
    /// What a tool that traces is told.
    pub(super) recorder: Recorder,
    /// What drivers have engines log.
    pub(super) logging_level: LoggingLevel,
    /// The time, since whenever.
    pub(super) now: Duration,
    /// `TdrDelay`: how long a queue is executed without progress before that is a hang, and how long
    /// what is destroyed may go on with what it was given.
    pub(super) timeout: Duration,
    limits: Limits,
    /// What was agreed on with the driver, if there are native fences.
    native_fences: Option<NativeFences>,
}

impl Kernel {
    /// A kernel with the driver of our GPU. The GPU must be nobody else's.
    ///
    /// # Errors
    /// When the driver advertises what is not enabled.
    pub fn new(
        hardware: Arc<dyn Hardware>,
        features: OsFeatures,
        limits: Limits,
    ) -> Result<Self, AdapterError> {
        let miniport = Box::new(BellhopMiniport::new(Arc::clone(&hardware)));
        Self::with_miniport(hardware, miniport, features, limits)
    }

    /// A kernel with another driver.
    ///
    /// # Errors
    /// When the driver advertises what is not enabled, or what cannot be.
    pub fn with_miniport(
        hardware: Arc<dyn Hardware>,
        mut miniport: Box<dyn Miniport>,
        features: OsFeatures,
        limits: Limits,
    ) -> Result<Self, AdapterError> {
        let native_fences = NativeFences::negotiate(miniport.as_mut(), &features)?;
        let recorder = Recorder::new(Arc::clone(&hardware));
        Ok(Self {
            native_fences,
            callbacks: Callbacks::new(Arc::clone(&hardware), recorder.clone()),
            hardware,
            power: Power::new(miniport.node_count(), recorder.clone()),
            recorder,
            tdr: Tdr::new(miniport.node_count()),
            migration: Migration::default(),
            miniport,
            guests: BTreeMap::new(),
            queues: BTreeMap::new(),
            process_ids: ProcessIds::default(),
            retirements: Retirements::default(),
            terminations: Vec::new(),
            submissions: Submissions::default(),
            cross_fences: CrossFences::default(),
            identity: Identity::default(),
            logging_level: LoggingLevel::DEFAULT,
            released: VecDeque::new(),
            now: Duration::ZERO,
            timeout: TDR_DELAY,
            limits,
        })
    }

    /// The adapter's name, for tools, instead of an empty one.
    #[must_use]
    pub fn with_name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.identity.name);
        self
    }

    /// When power states change by themselves, instead of never.
    #[must_use]
    pub fn with_power_policy(mut self, policy: PowerPolicy) -> Self {
        self.power.policy = policy;
        self
    }

    /// How long a queue is executed without progress before that is a hang, and how long what is
    /// destroyed may go on with what it was given, instead of two seconds.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How hangs are dealt with.
    #[must_use]
    pub fn with_tdr_policy(mut self, policy: TdrPolicy) -> Self {
        self.tdr.policy = policy;
        self
    }

    /// Sets the time. It never goes back, and begins wherever the caller likes.
    pub fn set_time(&mut self, now: Duration) {
        self.now = self.now.max(now);
    }

    /// When [`Input::Timeout`] is due if nothing else comes, on the clock of [`Self::set_time`].
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        let deadlines = [
            self.termination_deadline(),
            self.power.deadline(),
            self.tdr.deadline(),
            self.migration.deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Handles one input and appends what is to be done. Every request gets exactly one reply,
    /// now or as an effect of a later input, unless its guest detaches first.
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
            Input::CrossAdapterSignal { guest, fence, always } => {
                self.cross_adapter_signal(guest, fence, always, effects);
            }
            Input::Trace { token, action } => self.trace(token, action, effects),
            Input::Timeout => self.power_down_when_idle(effects),
        }
        self.continue_recoveries(effects);
        self.continue_migration(effects);
        self.answer_connects(effects);
        self.continue_paging(effects);
        self.continue_software_queues(effects);
        self.continue_power_down(effects);
        loop {
            self.continue_terminations(effects);
            self.continue_paging(effects);
            self.release_retired(effects);
            // What was released may be room for what was taken away.
            self.continue_paging(effects);
            // What ended or was moved may have held queues of others, and what those did then may be what
            // their own end waits for.
            if !self.continue_software_queues(effects) {
                break;
            }
        }
    }

    fn attach(&mut self, id: GuestId, resources: GuestResources) {
        if self.guests.contains_key(&id) {
            tracing::error!(guest = id.0, "attached twice");
            return;
        }
        let system = self.miniport.create_system_context(id);
        if let Err(full) = system {
            tracing::error!(guest = id.0, %full, "no system context: the guest gets no service");
        }
        let window = self.paging_window(&resources);
        let native = self.native_fences;
        self.guests.insert(id, Guest::new(id, resources, system, window, &self.limits, native));
        let mut effects = Vec::new();
        if let Some(mut scope) = self.scope(id, 0, &mut effects)
            && let Err(error) = scope.make_window_tables(window)
            && scope.guest.system.is_ok()
        {
            tracing::error!(guest = id.0, %error, "no page tables for paging");
        }
    }

    /// Size of the paging process's GPU VA space. Source: "Allocation notification", "Paging process
    /// GPU VA space size".
    fn paging_window(&self, resources: &GuestResources) -> u64 {
        match self.miniport.paging_process_gpu_va_size() {
            // "The size of the GPU VA space is a quarter of the largest local memory segment or the
            // size of the hardware scheduling log buffers", of which there are none here.
            0 => resources.bar.local_memory.max(resources.segments.private) / 4,
            // Values of fences are behind it.
            mebibytes => (u64::from(mebibytes) << 20).min(PAGING_VA_SIZE),
        }
    }

    /// A guest went. Source: user-mode work submission, "Normal and abnormal process termination",
    /// the abnormal one for all its processes.
    fn detach(&mut self, id: GuestId, effects: &mut Vec<Effect>) {
        let Some(guest) = self.guests.get_mut(&id) else {
            effects.push(Effect::Detached { guest: id });
            return;
        };
        if std::mem::replace(&mut guest.detaching, true) {
            return;
        }
        self.forget_terminations(id);
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
            Some(guest) if !guest.detaching => guest.control_messages += 1,
            _ => {
                tracing::debug!(guest = id.0, "a request of a guest that is gone");
                return;
            }
        }
        let (process, answer, given_up) = self.answer(id, request, effects);
        let (mut completion, mut waiter) = (Completion::Nothing, None);
        let reply = match answer {
            Ok(Answer::Done(body)) => Some(reply(Status::SUCCESS, 0, &body)),
            Ok(Answer::Pending) => Some(reply(Status::PENDING, 0, &[])),
            Ok(Answer::AfterRotation(queue, hw_queue)) => {
                self.callbacks.wait_for_connect(queue, Connecting { token, hw_queue });
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
            Ok(Answer::Terminate(target, manner)) => {
                let completion = Completion::Reply(token);
                match self.is_terminating(id, process, target) {
                    true => {
                        let error = RequestError::Terminating(target);
                        Some(reply(error.status(), error.detail(), &[]))
                    }
                    false => {
                        self.terminate((id, process), target, manner, completion, effects);
                        None
                    }
                }
            }
            Ok(Answer::DevicePower(state)) => {
                self.set_device_power(state, (id, Completion::Reply(token)), effects);
                None
            }
            Ok(Answer::EnginePower(node, state)) => {
                self.set_engine_power(node, state, effects);
                completion = Completion::Reply(token);
                None
            }
            Err(error) => {
                tracing::debug!(guest = id.0, %error, "request refused");
                Some(reply(error.status(), error.detail(), &[]))
            }
        };
        effects.extend(reply.map(|reply| Effect::Reply { guest: id, token, reply }));
        // Also of a request that was refused: others may have made room in vain.
        self.begin_paging(id, process, waiter, effects);
        if !given_up.is_empty() || matches!(completion, Completion::Reply(_)) {
            self.retire(id, given_up, completion);
        }
    }

    /// What a request is answered with, and what it took away.
    fn answer(
        &mut self,
        guest: GuestId,
        request: Body<'_>,
        effects: &mut Vec<Effect>,
    ) -> (u32, Handled<Vec<u8>>, Vec<Resource>) {
        let (header, body) = match parse(request) {
            Ok(parsed) => parsed,
            Err(error) => return (0, Err(error), Vec::new()),
        };
        let process = header.process;
        let no_process = RequestError::NoSuchProcess(process);
        let Some(mut scope) = self.scope(guest, process, effects) else {
            return (process, Err(no_process), Vec::new());
        };
        if let Err(error) = scope.check(header.code) {
            return (process, Err(error), Vec::new());
        }
        let needs_power = needs_power(header.code) && !self.has_power();
        if needs_power {
            self.power_up(effects);
        }
        let Some(mut scope) = self.scope(guest, process, effects) else {
            return (process, Err(no_process), Vec::new());
        };
        let answer = dispatch(&mut scope, header.code, body);
        let given_up = scope.given_up;
        if needs_power {
            self.resume_after_power_up(effects);
        }
        (process, answer, given_up)
    }

    /// One process of one guest, or the adapter itself with process 0. `None` when there is no
    /// such guest.
    pub(super) fn scope<'k>(
        &'k mut self,
        guest_id: GuestId,
        process_id: u32,
        effects: &'k mut Vec<Effect>,
    ) -> Option<Scope<'k>> {
        Some(Scope {
            guest_id,
            process_id,
            guest: self.guests.get_mut(&guest_id)?,
            miniport: self.miniport.as_mut(),
            hardware: self.hardware.as_ref(),
            callbacks: &mut self.callbacks,
            queues: &mut self.queues,
            power: &mut self.power,
            submissions: &mut self.submissions,
            released: &mut self.released,
            process_ids: &mut self.process_ids,
            cross_fences: &mut self.cross_fences,
            recorder: &self.recorder,
            effects,
            given_up: Vec::new(),
        })
    }
}

impl Scope<'_> {
    /// Whether a request with this code may be made now and by this process.
    fn check(&mut self, code: RequestCode) -> Result<(), RequestError> {
        self.guest.system?;
        if !self.guest.open && code != RequestCode::OPEN_ADAPTER {
            return Err(RequestError::NotOpen(code));
        }
        self.guest.hangs.check(code)?;
        if is_adapter_request(code) {
            return zero("process", self.process_id);
        }
        self.process().map(|_| ())
    }
}

/// Parses a request's body, lets its handler answer, and turns the reply into bytes.
fn serve<'k, T: Request>(
    scope: &mut Scope<'k>,
    body: Body<'_>,
    handler: impl FnOnce(&mut Scope<'k>, T) -> Handled<T::Reply>,
) -> Handled<Vec<u8>> {
    into_bytes(handler(scope, fixed(body)?))
}

fn into_bytes<R: IntoBytes + zerocopy::Immutable>(answer: Handled<R>) -> Handled<Vec<u8>> {
    Ok(match answer? {
        Answer::Done(reply) => Answer::Done(reply.as_bytes().to_vec()),
        Answer::Pending => Answer::Pending,
        Answer::AfterRotation(queue, hw_queue) => Answer::AfterRotation(queue, hw_queue),
        Answer::AfterQuiesce => Answer::AfterQuiesce,
        Answer::AfterPaging(reply) => Answer::AfterPaging(reply.as_bytes().to_vec()),
        Answer::SubmitAfterPaging(deferred) => Answer::SubmitAfterPaging(deferred),
        Answer::Terminate(target, manner) => Answer::Terminate(target, manner),
        Answer::DevicePower(state) => Answer::DevicePower(state),
        Answer::EnginePower(node, state) => Answer::EnginePower(node, state),
    })
}

/// The handler of each code.
fn dispatch(scope: &mut Scope<'_>, code: RequestCode, body: Body<'_>) -> Handled<Vec<u8>> {
    match code {
        RequestCode::OPEN_ADAPTER => serve(scope, body, Scope::open_adapter),
        RequestCode::GET_NODE_METADATA => serve(scope, body, Scope::get_node_metadata),
        RequestCode::QUERY_USER_MODE_SUBMISSION_CAPS => {
            serve(scope, body, Scope::query_user_mode_submission_caps)
        }
        RequestCode::QUERY_NATIVE_FENCE_CAPS => serve(scope, body, Scope::query_native_fence_caps),
        RequestCode::QUERY_CLOCK_CALIBRATION => serve(scope, body, Scope::query_clock_calibration),
        RequestCode::QUERY_STATISTICS => serve(scope, body, Scope::query_statistics),
        RequestCode::QUERY_BAR_LAYOUT => serve(scope, body, Scope::query_bar_layout),
        RequestCode::DONATE_AREA => {
            let (request, extents) = with_list(body, |request: &DonateArea| request.extent_count)?;
            into_bytes(scope.donate_area(request, extents))
        }
        RequestCode::QUERY_POWER => serve(scope, body, Scope::query_power),
        RequestCode::SET_DEVICE_POWER => serve(scope, body, Scope::set_device_power),
        RequestCode::SET_ENGINE_POWER => serve(scope, body, Scope::set_engine_power),
        RequestCode::ESCAPE => serve(scope, body, Scope::escape),
        RequestCode::CREATE_PROCESS => serve(scope, body, Scope::create_process),
        RequestCode::DESTROY_PROCESS => serve(scope, body, Scope::destroy_process),
        RequestCode::CREATE_DEVICE => serve(scope, body, Scope::create_device),
        RequestCode::DESTROY_DEVICE => serve(scope, body, Scope::destroy_device),
        RequestCode::CREATE_CONTEXT => serve(scope, body, Scope::create_context),
        RequestCode::DESTROY_CONTEXT => serve(scope, body, Scope::destroy_context),
        RequestCode::SUSPEND_CONTEXT => serve(scope, body, Scope::suspend_own_context),
        RequestCode::RESUME_CONTEXT => serve(scope, body, Scope::resume_own_context),
        RequestCode::SET_CONTEXT_SCHEDULING_PRIORITY => {
            serve(scope, body, Scope::set_context_scheduling_priority)
        }
        RequestCode::CREATE_HW_QUEUE => serve(scope, body, Scope::create_hw_queue),
        RequestCode::DESTROY_HW_QUEUE => serve(scope, body, Scope::destroy_hw_queue),
        RequestCode::SUBMIT_COMMAND => serve(scope, body, Scope::submit_command),
        RequestCode::CREATE_NODE_CONTEXT => serve(scope, body, Scope::create_node_context),
        RequestCode::RENDER => into_bytes(scope.render(body)),
        RequestCode::SUBMIT_COMMAND_VIRTUAL => serve(scope, body, Scope::submit_command_virtual),
        RequestCode::CREATE_ALLOCATION => {
            let (request, extents) =
                with_list(body, |request: &CreateAllocation| request.extent_count)?;
            into_bytes(scope.create_allocation(request, extents))
        }
        RequestCode::DESTROY_ALLOCATION => serve(scope, body, Scope::destroy_allocation),
        RequestCode::MAKE_RESIDENT => {
            let (request, list) = with_list(body, |request: &MakeResident| request.count)?;
            into_bytes(scope.make_resident(request, list))
        }
        RequestCode::EVICT => {
            let (request, list) = with_list(body, |request: &Evict| request.count)?;
            into_bytes(scope.evict(request, list))
        }
        RequestCode::LOCK => serve(scope, body, Scope::lock),
        RequestCode::UNLOCK => serve(scope, body, Scope::unlock),
        RequestCode::SET_ALLOCATION_PRIORITY => serve(scope, body, Scope::set_allocation_priority),
        RequestCode::QUERY_VIDEO_MEMORY_INFO => serve(scope, body, Scope::query_video_memory_info),
        RequestCode::OPEN_ALLOCATION => serve(scope, body, Scope::open_allocation),
        RequestCode::CLOSE_ALLOCATION => serve(scope, body, Scope::close_allocation),
        RequestCode::SHARE_ALLOCATION => serve(scope, body, Scope::share_allocation),
        RequestCode::OPEN_SHARED_ALLOCATION => serve(scope, body, Scope::open_shared_allocation),
        RequestCode::MAP_GPU_VIRTUAL_ADDRESS => serve(scope, body, Scope::map_gpu_virtual_address),
        RequestCode::FREE_GPU_VIRTUAL_ADDRESS => {
            serve(scope, body, Scope::free_gpu_virtual_address)
        }
        RequestCode::RESERVE_GPU_VIRTUAL_ADDRESS => {
            serve(scope, body, Scope::reserve_gpu_virtual_address)
        }
        RequestCode::UPDATE_GPU_VIRTUAL_ADDRESS => {
            serve(scope, body, Scope::update_gpu_virtual_address)
        }
        RequestCode::CREATE_NATIVE_FENCE => serve(scope, body, Scope::create_native_fence),
        RequestCode::DESTROY_NATIVE_FENCE => serve(scope, body, Scope::destroy_native_fence),
        RequestCode::WAIT_FOR_FENCES => {
            let (request, list) = with_list(body, |request: &WaitForFences| request.count)?;
            into_bytes(scope.wait_for_fences(request, list))
        }
        RequestCode::CANCEL_WAIT => serve(scope, body, Scope::cancel_wait),
        RequestCode::SHARE_NATIVE_FENCE => serve(scope, body, Scope::share_native_fence),
        RequestCode::OPEN_NATIVE_FENCE => serve(scope, body, Scope::open_native_fence),
        RequestCode::SIGNAL_FENCES => {
            let (request, list) = with_list(body, |request: &SignalFences| request.count)?;
            into_bytes(scope.signal_fences(request, list))
        }
        RequestCode::CREATE_MONITORED_FENCE => serve(scope, body, Scope::create_monitored_fence),
        RequestCode::WAIT_FROM_GPU => {
            let (request, list) = with_list(body, |request: &WaitFromGpu| request.count)?;
            into_bytes(scope.wait_from_gpu(request, list))
        }
        RequestCode::SIGNAL_FROM_GPU => {
            let (request, list) = with_list(body, |request: &SignalFromGpu| request.count)?;
            into_bytes(scope.signal_from_gpu(request, list))
        }
        RequestCode::CREATE_DOORBELL => serve(scope, body, Scope::create_doorbell),
        RequestCode::CONNECT_DOORBELL => serve(scope, body, Scope::connect_doorbell),
        RequestCode::DESTROY_DOORBELL => serve(scope, body, Scope::destroy_doorbell),
        RequestCode::NOTIFY_WORK_SUBMISSION => serve(scope, body, Scope::notify_work_submission),
        code => Err(RequestError::UnknownRequest(code)),
    }
}
