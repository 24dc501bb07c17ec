// SPDX-License-Identifier: MIT OR Apache-2.0

//! Workers for engines: with the right kernels loaded, and no more of them than allowed.

use super::{Body, Duty, End, Manager};
use crate::gpu::workers::desk::{Desk, Failure, Note, Request};
use crate::gpu::workers::held::{Held, LastUse};
use crate::gpu::workers::roster::{Listed, Task};
use crate::gpu::workers::tenant::{Tenant, TenantId};
use bellhop_host_kmd::hardware::GuestId;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

/// A worker that an engine has.
struct Grant {
    engine: u32,
    tenant: Arc<Tenant>,
    pid: u32,
    last_use: Arc<LastUse>,
    /// Whether the engine was asked to give it up.
    recalled: bool,
}

/// Engines' workers and requests.
#[derive(Default)]
pub(super) struct Executing {
    /// Oldest first.
    requests: VecDeque<Request>,
    grants: Vec<Grant>,
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
            self.gone(request.engine, request.tenant.id);
        }
        self.requests.push_back(request);
    }

    /// An engine has a worker no longer.
    pub(super) fn gone(&mut self, engine: u32, tenant: TenantId) {
        self.grants.retain(|grant| (grant.engine, grant.tenant.id) != (engine, tenant));
    }

    /// Recalls the workers of a destroyed tenant.
    pub(super) fn end(&mut self, desk: &Desk, tenant: TenantId) {
        for grant in self.grants.iter_mut().filter(|grant| grant.tenant.id == tenant) {
            grant.recall(desk);
        }
    }

    /// Recalls the worker that was not used for longest, of those that `which` chooses, unless one is recalled already.
    fn recall(&mut self, desk: &Desk, which: impl Fn(&Grant) -> bool) {
        let candidates = || self.grants.iter().enumerate().filter(|(_, grant)| which(grant));
        if candidates().any(|(_, grant)| grant.recalled) {
            return;
        }
        let oldest = candidates().min_by_key(|(_, grant)| grant.last_use.read());
        if let Some(index) = oldest.map(|(index, _)| index) {
            self.grants[index].recall(desk);
        }
    }
}

impl Grant {
    fn recall(&mut self, desk: &Desk) {
        if !std::mem::replace(&mut self.recalled, true) {
            desk.note(self.engine, Note::GiveUp(self.tenant.id));
        }
    }
}

/// Why a request waits.
enum Full {
    /// Its guest has as many workers as it may have.
    Guest,
    /// There are as many workers as there may be.
    All,
}

impl Manager {
    /// Serves the requests that can be served now. The others wait until engines give up workers.
    pub(super) fn serve_requests(&mut self) {
        let mut waiting = VecDeque::new();
        let mut waiting_guests: HashMap<GuestId, u32> = HashMap::new();
        let mut waiting_all = 0;
        while let Some(request) = self.executing.requests.pop_front() {
            let (role, guest) = (request.tenant.id.role, Arc::clone(&request.tenant.guest));
            if !request.tenant.has_ended()
                && let Some(full) = self.is_full(&request)
            {
                if role.remembers() {
                    let why = "there are as many workers as there may be".to_owned();
                    self.not_prepared(&request, &End::NotStarted(why));
                    continue;
                }
                let is_rival = |grant: &Grant| grant.tenant.id.role == role;
                match full {
                    Full::Guest => {
                        self.executing.recall(&self.desk, |grant| {
                            is_rival(grant) && grant.tenant.guest.id == guest.id
                        });
                        *waiting_guests.entry(guest.id).or_default() += 1;
                    }
                    Full::All => {
                        self.executing.recall(&self.desk, is_rival);
                        waiting_all += 1;
                    }
                }
                waiting.push_back(request);
                continue;
            }
            let needs_another = request.held.is_none() && !request.tenant.has_ended();
            if needs_another && !self.pace.may_start(&guest) {
                waiting.push_back(request);
                continue;
            }
            self.serve(request);
        }
        for request in &waiting {
            let guest = &request.tenant.guest;
            guest.set_waiting(waiting_guests.get(&guest.id).copied().unwrap_or(0));
        }
        self.desk.set_waiting(waiting_all);
        self.executing.requests = waiting;
    }

    /// Why a request must wait, if it must.
    fn is_full(&self, request: &Request) -> Option<Full> {
        if request.held.is_some() {
            return None;
        }
        let role = request.tenant.id.role;
        // A role that is not configured has no workers: starting one fails.
        let config = self.config.of(role)?;
        let preparing = self.processes.iter().filter_map(|process| match &process.duty {
            Duty::Executor(request, _) => Some(&request.tenant),
            _ => None,
        });
        let granted = self.executing.grants.iter().map(|grant| &grant.tenant);
        let all: Vec<_> = granted.chain(preparing).filter(|of| of.id.role == role).collect();
        let guest = request.tenant.guest.id;
        let guests = all.iter().filter(|tenant| tenant.guest.id == guest).count();
        if guests >= config.workers_per_guest.max(1) as usize {
            return Some(Full::Guest);
        }
        (all.len() >= config.workers.max(1) as usize).then_some(Full::All)
    }

    fn serve(&mut self, mut request: Request) {
        request.tenant.guest.set_waiting(0);
        let held = request.held.take();
        if request.tenant.has_ended() {
            if let Some(held) = held {
                self.graves.dig(held.worker, request.tenant.id.role, None);
            }
            return self.not_prepared(&request, &End::Unneeded);
        }
        if let Some(held) = held {
            let (role, duty) = (request.tenant.id.role, Duty::Executor(request, 0));
            let worker = Body::Held(held);
            let process = super::Process { worker, role, ready: true, deadline: None, duty };
            self.processes.push(process);
            self.load_next(self.processes.len() - 1);
            return;
        }
        match self.employ(Duty::Executor(request, 0)) {
            Ok(index) => {
                if self.processes.get(index).is_some_and(|process| process.ready) {
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

    /// Loads the next module of a request that the worker does not have, or hands the worker to its engine. Returns
    /// false if the manager has the worker no longer.
    pub(super) fn load_next(&mut self, index: usize) -> bool {
        let now = self.desk.chip.now();
        let process = self.processes.swap_remove(index);
        let super::Process { worker, role, ready, duty, .. } = process;
        let Duty::Executor(request, mut next) = duty else { return false };
        let mut held = match worker {
            Body::Held(held) => held,
            Body::Free(worker) => Box::new(Held::new(worker, Arc::clone(&request.tenant), now)),
        };
        while request.modules.get(next).is_some_and(|module| held.has(module)) {
            next += 1;
        }
        let Some(module) = request.modules.get(next) else {
            self.hand_over(&request, held);
            return false;
        };
        let loads = held.load(module);
        let deadline = Some(Instant::now() + self.config.compile_timeout);
        let (duty, worker) = (Duty::Executor(request, next), Body::Held(held));
        self.processes.push(super::Process { worker, role, ready, deadline, duty });
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
        let Some(process) = self.processes.get_mut(index) else { return false };
        if let (Duty::Executor(request, next), Body::Held(held)) =
            (&process.duty, &mut process.worker)
            && let Some(module) = request.modules.get(*next)
        {
            held.loaded(module);
        }
        self.load_next(index)
    }

    fn hand_over(&mut self, request: &Request, held: Box<Held>) {
        let Request { engine, tenant, .. } = request;
        if tenant.has_ended() {
            self.graves.dig(held.worker, tenant.id.role, None);
            return self.not_prepared(request, &End::Unneeded);
        }
        self.executing.grants.push(Grant {
            engine: *engine,
            tenant: Arc::clone(tenant),
            pid: held.worker.id(),
            last_use: Arc::clone(&held.last_use),
            recalled: false,
        });
        self.desk.note(*engine, Note::Ready(held));
    }

    /// Tells an engine that it gets no worker.
    pub(super) fn not_prepared(&mut self, request: &Request, end: &End) {
        let (failure, why) = match end {
            End::NotStarted(why) | End::NotLoaded(why) => (Failure::Refused, why.as_str()),
            End::TooSlow => (Failure::Refused, "compiling a kernel took too long"),
            End::Ended(why) => (Failure::Lost, why.as_str()),
            End::Unneeded => (Failure::Lost, "its process has ended"),
        };
        let guest = request.tenant.guest.id.0;
        tracing::debug!(guest, engine = request.engine, why, "an engine gets no worker");
        self.desk.note(request.engine, Note::Failed(request.tenant.id, failure));
    }
}
