// SPDX-License-Identifier: MIT OR Apache-2.0

//! Workers for engines: with the right kernels loaded, and no more of them than allowed.

use super::places::{Limits, Place, Ruling, State};
use super::spent::Begun;
use super::starting::NotStarted;
use super::{Body, Duty, End, Manager, Process};
use crate::gpu::workers::mailboxes::{Mailboxes, Note, Request};
use crate::gpu::workers::roster::{Listed, Task};
use crate::gpu::workers::tenant::{GuestWorkers, Tenant, TenantId};
use crate::gpu::workers::tenant_worker::{LastUse, TenantWorker};
use bellhop_host_kmd::hardware::SocketId;
use bellhop_worker::messages::commands::{CommandsAnswer, CommandsResult, CommandsTask};
use bellhop_worker::owner::Role;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

/// How long others wait for a worker to be given up that executes something. Then they have places beside it.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long a worker stays at least where there are more guests than places.
const STAY: Duration = Duration::from_secs(1);

/// A worker that an engine has.
struct Grant {
    engine: u32,
    tenant: Arc<Tenant>,
    pid: u32,
    last_use: Arc<LastUse>,
    /// Since when the tenant has it.
    since: Instant,
    /// When the engine was asked to give it up.
    recalled: Option<Instant>,
    /// Whether it was asked for another socket's sake.
    for_another: bool,
}

/// Engines' workers and requests.
#[derive(Default)]
pub(super) struct Executing {
    /// Oldest first.
    requests: VecDeque<Request>,
    grants: Vec<Grant>,
    /// Whose workers were ended for another socket's sake: their next ones are not charged to their guests.
    evicted: HashSet<(u32, TenantId)>,
}

impl Executing {
    /// What tools are told of engines' workers.
    pub(super) fn listed(&self) -> impl Iterator<Item = Listed> {
        self.grants.iter().map(|grant| Listed {
            pid: grant.pid,
            task: Task::Runs(Arc::clone(&grant.last_use)),
            role: grant.tenant.id.role,
            guest: Some(grant.tenant.guest.id),
            space: Some(grant.tenant.space),
            engine: Some(grant.engine),
        })
    }

    /// Adds a request. The engine has given up the worker that comes with it.
    pub(super) fn ask(&mut self, request: Request) {
        if request.held.is_some() {
            self.take(request.engine, request.tenant.id);
        }
        self.requests.push_back(request);
    }

    /// An engine has a worker no longer. Returns whose it was.
    pub(super) fn gone(&mut self, engine: u32, tenant: TenantId) -> Option<Arc<GuestWorkers>> {
        let grant = self.take(engine, tenant)?;
        if grant.for_another && !grant.tenant.has_ended() {
            self.evicted.insert((engine, tenant));
        }
        Some(Arc::clone(&grant.tenant.guest))
    }

    fn take(&mut self, engine: u32, tenant: TenantId) -> Option<Grant> {
        let is_it = |grant: &Grant| (grant.engine, grant.tenant.id) == (engine, tenant);
        let index = self.grants.iter().position(is_it)?;
        Some(self.grants.swap_remove(index))
    }

    /// Recalls the workers of a destroyed tenant.
    pub(super) fn end(&mut self, mailboxes: &Mailboxes, tenant: TenantId) {
        self.evicted.retain(|(_, evicted)| *evicted != tenant);
        for grant in self.grants.iter_mut().filter(|grant| grant.tenant.id == tenant) {
            grant.recall(mailboxes, false);
        }
    }

    /// When time alone makes a difference to requests that wait for places.
    pub(super) fn next(&self) -> Option<Instant> {
        if self.requests.is_empty() {
            return None;
        }
        let now = Instant::now();
        let times = self.grants.iter().map(|grant| match grant.recalled {
            Some(recalled) => recalled + PATIENCE,
            None => grant.since + STAY,
        });
        times.filter(|time| *time > now).min()
    }
}

impl Grant {
    fn recall(&mut self, mailboxes: &Mailboxes, for_another: bool) {
        if self.recalled.is_none() {
            self.recalled = Some(Instant::now());
            self.for_another = for_another;
            mailboxes.note(self.engine, Note::GiveUp(self.tenant.id));
        }
    }

    /// What becomes of its place.
    fn state(&self, now: Instant) -> State {
        match self.recalled {
            Some(recalled) if now.duration_since(recalled) >= PATIENCE => State::Overdue,
            Some(_) => State::Leaving,
            None => State::Held {
                used: self.last_use.read(),
                is_settled: now.duration_since(self.since) >= STAY,
            },
        }
    }
}

/// A look at the requests for places of a role.
#[derive(Default)]
struct Look {
    /// The sockets whose guests have places, or want some.
    sockets: HashSet<SocketId>,
    /// Those whose next request has to wait.
    blocked: HashSet<SocketId>,
    /// How many places are being given up for those.
    awaited: usize,
}

impl Manager {
    /// Serves the requests that can be served now. The others wait until engines give up workers. Those of
    /// sockets below their shares come first.
    pub(super) fn serve_requests(&mut self) {
        let mut looks: HashMap<Role, Look> = HashMap::new();
        let prepared = self.processes.iter().filter_map(|process| match &process.duty {
            Duty::Executor(request, _) => Some(&request.tenant),
            _ => None,
        });
        let Executing { requests, grants, .. } = &self.executing;
        let asked = requests.iter().map(|request| &request.tenant);
        for tenant in prepared.chain(asked).chain(grants.iter().map(|grant| &grant.tenant)) {
            looks.entry(tenant.id.role).or_default().sockets.insert(tenant.guest.socket);
        }
        for only_below in [true, false] {
            let mut requests = std::mem::take(&mut self.executing.requests);
            let mut waiting = VecDeque::new();
            while let Some(request) = requests.pop_front() {
                let look = looks.entry(request.tenant.id.role).or_default();
                waiting.extend(self.try_to_serve(request, look, only_below));
            }
            // What did not start has asked again.
            waiting.append(&mut self.executing.requests);
            self.executing.requests = waiting;
        }
    }

    /// Serves a request, or gives it back if it has to wait. Those of sockets with their shares wait if `only_below`.
    fn try_to_serve(
        &mut self,
        mut request: Request,
        look: &mut Look,
        only_below: bool,
    ) -> Option<Request> {
        let (tenant, engine) = (Arc::clone(&request.tenant), request.engine);
        let (TenantId { role, .. }, guest) = (tenant.id, &tenant.guest);
        let is_free = self.executing.evicted.contains(&(engine, tenant.id));
        if !tenant.has_ended() {
            // Whatever is loaded is compiled again.
            let may_load = is_free || !request.compiles() || self.pace.may_compile(guest);
            if may_load && request.held.is_some() {
                self.serve(request, is_free);
                return None;
            }
            if let Some(held) = request.held.take() {
                self.reaper.kill(held.into(), None);
            }
            if !may_load || look.blocked.contains(&guest.socket) {
                return Some(request);
            }
            // Nobody makes room for a guest that then starts nothing.
            if !is_free && !self.pace.may_start(guest) {
                return Some(request);
            }
            // A role that is not configured has no workers: starting one fails.
            if let Some(limits) = self.limits(role) {
                let (places, grants) = self.places(role);
                let sockets = look.sockets.len();
                if only_below && !limits.is_below(&places, sockets, guest.socket) {
                    return Some(request);
                }
                match limits.rule(&places, sockets, look.awaited, guest.socket) {
                    Ruling::Takes => {}
                    _ if role.remembers() => {
                        let why = "there are as many workers as there may be";
                        self.not_prepared(&request, &End::NotStarted(NotStarted::refused(why)));
                        return None;
                    }
                    ruling => {
                        look.blocked.insert(guest.socket);
                        let given_up = match ruling {
                            Ruling::GivenUp(place) => grants.get(place).copied(),
                            _ => None,
                        };
                        look.awaited += usize::from(ruling != Ruling::Waits);
                        if let Some(grant) = given_up
                            && let Some(grant) = self.executing.grants.get_mut(grant)
                        {
                            let for_another = grant.tenant.guest.socket != guest.socket;
                            grant.recall(&self.mailboxes, for_another);
                        }
                        return Some(request);
                    }
                }
            }
            if !self.executing.evicted.remove(&(engine, tenant.id)) {
                self.pace.started(guest);
            }
        }
        self.serve(request, is_free);
        None
    }

    fn limits(&self, role: Role) -> Option<Limits> {
        let config = self.config.of(role)?;
        let [all, each] = [config.workers, config.workers_per_guest].map(|most| most.max(1));
        Some(Limits { all: all as usize, each: each as usize })
    }

    /// The places of a role that are taken: those of workers that engines have first, with the grants' indices.
    fn places(&self, role: Role) -> (Vec<Place>, Vec<usize>) {
        let now = Instant::now();
        let granted = self.executing.grants.iter().enumerate();
        let granted = granted.filter(|(_, grant)| grant.tenant.id.role == role);
        let place = |(index, grant): (usize, &Grant)| {
            (Place { socket: grant.tenant.guest.socket, state: grant.state(now) }, index)
        };
        let (mut places, grants): (Vec<_>, Vec<_>) = granted.map(place).unzip();
        places.extend(self.processes.iter().filter_map(|process| match &process.duty {
            Duty::Executor(request, _) if request.tenant.id.role == role => {
                Some(Place { socket: request.tenant.guest.socket, state: State::Prepared })
            }
            _ => None,
        }));
        (places, grants)
    }

    fn serve(&mut self, mut request: Request, is_free: bool) {
        let held = request.held.take();
        if request.tenant.has_ended() {
            if let Some(held) = held {
                self.reaper.kill(held.into(), None);
            }
            return self.not_prepared(&request, &End::Unneeded);
        }
        if let Some(held) = held {
            let (role, duty) = (request.tenant.id.role, Duty::Executor(request, 0));
            let worker = Body::TenantWorker(held);
            self.processes.push(Process { is_free, ..Process::new(worker, role, true, duty) });
            self.load_next(self.processes.len() - 1);
            return;
        }
        match self.employ(Duty::Executor(request, 0)) {
            Ok(index) => {
                let Some(process) = self.processes.get_mut(index) else { return };
                process.is_free = is_free;
                if process.ready {
                    self.load_next(index);
                }
            }
            Err(Duty::Executor(request, _)) => {
                let why = self.why_none(request.tenant.id.role);
                self.not_prepared(&request, &End::NotStarted(why));
            }
            Err(_) => {}
        }
    }

    /// Loads the next module of a request that the worker does not have, has it make a pipeline, or hands it to its engine.
    /// Returns false if the manager has the worker no longer.
    pub(super) fn load_next(&mut self, index: usize) -> bool {
        let now = self.mailboxes.chip.now();
        let process = self.processes.swap_remove(index);
        let Process { worker, role, ready, is_free, duty, .. } = process;
        let Duty::Executor(mut request, mut next) = duty else { return false };
        let mut held = match worker {
            Body::TenantWorker(held) => held,
            Body::Free(worker) => {
                Box::new(TenantWorker::new(*worker, Arc::clone(&request.tenant), now))
            }
        };
        while request.modules.get(next).is_some_and(|module| held.has(module)) {
            next += 1;
        }
        let begun = Begun::now(held.worker.id());
        let loads = match (request.modules.get(next), request.makes) {
            (Some(module), _) => held.load(module),
            (None, 0) => {
                self.hand_over(&request, held);
                return false;
            }
            (None, makes) => {
                request.makes = makes - 1;
                held.worker.task(CommandsTask::MAKE.as_bytes())
            }
        };
        let (duty, worker) = (Duty::Executor(request, next), Body::TenantWorker(held));
        let mut process = Process { is_free, ..Process::new(worker, role, ready, duty) };
        process.begin(begun, self.config.compile_timeout);
        self.processes.push(process);
        // Back where it was: the caller goes through the indices from the last.
        let last = self.processes.len() - 1;
        self.processes.swap(index, last);
        if let Err(error) = loads {
            self.end(index, End::Ended(error.to_string()));
            return false;
        }
        true
    }

    /// A worker has compiled the module that it was asked for. Returns false if the manager has it no longer.
    pub(super) fn module_is_loaded(&mut self, index: usize) -> bool {
        self.charge(index);
        let Some(process) = self.processes.get_mut(index) else { return false };
        if let (Duty::Executor(request, next), Body::TenantWorker(held)) =
            (&process.duty, &mut process.worker)
            && let Some(module) = request.modules.get(*next)
        {
            held.loaded(module);
        }
        self.load_next(index)
    }

    /// A worker has made a pipeline, and says whether others lack. Returns false if the manager has it no longer.
    pub(super) fn pipeline_is_made(&mut self, index: usize, answer: &[u8]) -> bool {
        self.charge(index);
        let Some(process) = self.processes.get_mut(index) else { return false };
        let Duty::Executor(request, _) = &mut process.duty else { return false };
        let answer = CommandsAnswer::read(answer);
        if answer.is_ok_and(|answer| answer.result != CommandsResult::LACKS) {
            request.makes = 0;
        }
        if request.makes == 0 {
            return self.load_next(index);
        }
        // Whether the guest may have another one compiled is looked at as for any other request.
        let Process { worker, duty, .. } = self.processes.swap_remove(index);
        if let (Duty::Executor(mut request, _), Body::TenantWorker(held)) = (duty, worker) {
            request.held = Some(held);
            self.executing.requests.push_back(request);
        }
        false
    }

    fn hand_over(&mut self, request: &Request, held: Box<TenantWorker>) {
        let Request { engine, tenant, .. } = request;
        if tenant.has_ended() {
            self.reaper.kill(held.into(), None);
            return self.not_prepared(request, &End::Unneeded);
        }
        self.executing.grants.push(Grant {
            engine: *engine,
            tenant: Arc::clone(tenant),
            pid: held.worker.id(),
            last_use: Arc::clone(&held.last_use),
            since: held.since,
            recalled: None,
            for_another: false,
        });
        self.mailboxes.note(*engine, Note::Ready(held));
    }

    /// Tells an engine that it gets no worker.
    pub(super) fn not_prepared(&mut self, request: &Request, end: &End) {
        let (failure, why) = end.failure();
        let guest = request.tenant.guest.id.0;
        tracing::debug!(guest, engine = request.engine, why, "an engine gets no worker");
        self.mailboxes.note(request.engine, Note::Failed(request.tenant.id, failure));
    }
}
