// SPDX-License-Identifier: MIT OR Apache-2.0

//! The thread that manages workers: it starts them, has kernels compiled and loaded, and reaps them.
//!
//! Only this thread starts workers: they end with the thread that started them. It waits for all of them at once, each
//! with a deadline, so a slow compiler delays nobody but its guest.
//!
//! Nothing of a guest's memory is mapped in any worker here, so none of them delays a TLB flush. Those that compile never
//! have memory mapped, and each compiles for one guest only: what one guest's kernel does to a compiler is seen by no
//! other guest.

mod compiling;
mod executing;
mod groups;
mod pace;
mod places;
mod reaper;
mod spent;
mod starting;

use super::config::WorkersConfig;
use super::kernels::module::Module;
use super::mailboxes::{Failure, Mailboxes, Order, Request};
use super::roster::{Listed, Roster, Task};
use super::tenant::GuestWorkers;
use super::tenant_worker::TenantWorker;
use bellhop_host_kmd::hardware::AddressSpaceId;
use bellhop_worker::owner::{Event, Options, Role, Worker, WorkerError};
use compiling::Compiling;
use executing::Executing;
use groups::Groups;
use pace::Pace;
use reaper::{Condemned, Reaper};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use spent::Begun;
use starting::{NotStarted, Starting};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a worker may take to start. A self-test takes a second at most, but the driver may be on a slow disk.
const START: Duration = Duration::from_secs(60);

/// A worker that the manager has.
struct Process {
    worker: Body,
    role: Role,
    /// Whether it has passed its self-test.
    ready: bool,
    /// When it has taken too long.
    deadline: Option<Instant>,
    /// When it began to compile what it compiles.
    begun: Option<Begun>,
    /// Whether it replaces a worker that was ended for another guest's sake: its own guest is not charged for it.
    is_free: bool,
    duty: Duty,
}

impl Process {
    fn new(worker: Body, role: Role, ready: bool, duty: Duty) -> Self {
        Self { worker, role, ready, deadline: None, begun: None, is_free: false, duty }
    }

    /// It compiles something from now on, for so long at most.
    fn begin(&mut self, begun: Begun, timeout: Duration) {
        self.begun = Some(begun);
        self.deadline = Some(Instant::now() + timeout);
    }

    /// What tools are told of it.
    fn listed(&self) -> Listed {
        let worker = match &self.worker {
            Body::Free(worker) => worker,
            Body::TenantWorker(held) => &held.worker,
        };
        let (state, guest, request) = match &self.duty {
            Duty::Spare => ("spare", None, None),
            Duty::Executor(request, _) => ("loading", Some(request.tenant.guest.id), Some(request)),
            Duty::Compiler { guest, job: Some(_) } => ("compiling", Some(guest.id), None),
            Duty::Compiler { guest, job: None } => ("compiler", Some(guest.id), None),
        };
        Listed {
            pid: worker.id(),
            role: self.role,
            task: Task::Does(if self.ready { state } else { "starting" }),
            guest,
            space: request.map(|request| request.tenant.space),
            engine: request.map(|request| request.engine),
        }
    }

    /// Whether a process that was asked for nothing has not ended.
    fn is_alive(&mut self) -> bool {
        matches!(self.worker.worker().next(Some(Duration::ZERO)), Ok(None))
    }
}

/// The process itself.
enum Body {
    /// Without a tenant.
    Free(Box<Worker>),
    /// Of a tenant.
    TenantWorker(Box<TenantWorker>),
}

impl Body {
    fn worker(&mut self) -> &mut Worker {
        match self {
            Self::Free(worker) => worker,
            Self::TenantWorker(held) => &mut held.worker,
        }
    }

    fn into_worker(self) -> Worker {
        match self {
            Self::Free(worker) => *worker,
            Self::TenantWorker(held) => held.worker,
        }
    }
}

/// What the manager has a worker for.
enum Duty {
    /// The next process that needs one for kernels.
    Spare,
    /// A request of an engine, with the number of modules that it has loaded.
    Executor(Request, usize),
    /// Compiling for a guest.
    Compiler { guest: Arc<GuestWorkers>, job: Option<Job> },
}

/// What a worker compiles aside.
struct Job {
    compile: super::mailboxes::Compile,
    /// The kernel's content.
    module: Arc<Module>,
}

/// Why a process of the manager's ends.
enum End {
    /// It refused to start, or does not start.
    NotStarted(NotStarted),
    /// It ended, or sent nonsense.
    Ended(String),
    /// It took too long to compile.
    TooSlow,
    /// It could not load a kernel that was compiled before.
    NotLoaded(String),
    /// It is not needed any more.
    Unneeded,
}

impl End {
    /// What an engine that waits for the process is told.
    fn failure(&self) -> (Failure, &str) {
        match self {
            Self::NotStarted(NotStarted { why, has_ended: true }) | Self::Ended(why) => {
                (Failure::Lost, why)
            }
            Self::NotStarted(NotStarted { why, .. }) | Self::NotLoaded(why) => {
                (Failure::Refused, why)
            }
            Self::TooSlow => (Failure::Refused, "compiling a kernel took too long"),
            Self::Unneeded => (Failure::Lost, "its process has ended"),
        }
    }
}

/// The manager's state.
pub struct Manager {
    mailboxes: Arc<Mailboxes>,
    config: WorkersConfig,
    processes: Vec<Process>,
    starting: BTreeMap<Role, Starting>,
    pace: Pace,
    compiling: Compiling,
    executing: Executing,
    reaper: Reaper,
    /// After what has processes: it removes the groups.
    groups: Groups,
}

impl Manager {
    /// A manager without workers.
    pub fn new(mailboxes: Arc<Mailboxes>, config: WorkersConfig) -> Self {
        Self {
            pace: Pace::new(&config),
            groups: Groups::new(&config),
            mailboxes,
            config,
            processes: Vec::new(),
            starting: BTreeMap::new(),
            compiling: Compiling::default(),
            executing: Executing::default(),
            reaper: Reaper::default(),
        }
    }

    /// Runs until it is told to stop.
    pub fn run(mut self) {
        loop {
            self.pace.begin();
            self.serve_requests();
            self.serve_compiles();
            self.keep_a_spare();
            self.mailboxes.roster.store(Arc::new(self.roster()));
            self.mailboxes.groups.store(Arc::new(self.groups.seen()));
            let alarm = self.mailboxes.ring_alarms();
            let deadline = self.deadline(alarm);
            let readable = self.wait(deadline);
            self.mailboxes.acknowledge();
            while let Some(order) = self.mailboxes.take_order() {
                if !self.take(order) {
                    return;
                }
            }
            // From the last: a process that ends is removed.
            for index in readable.into_iter().rev() {
                self.listen(index);
            }
            self.end_the_late();
            self.reaper.reap(&self.mailboxes);
        }
    }

    /// When to look again, if nothing happens; `alarm` is how long it is until an engine wants to be called.
    fn deadline(&self, alarm: Option<Duration>) -> Option<Instant> {
        let alarm = alarm.map(|left| Instant::now() + left);
        let deadlines = self.processes.iter().filter_map(|process| process.deadline);
        let retries = self.starting.values().filter_map(Starting::retry);
        let deadlines = deadlines.chain(retries).chain(self.pace.next());
        deadlines.chain(self.executing.next()).chain(alarm).min()
    }

    /// Waits for an order, for a process or for the deadline. Returns the indices of processes that said something.
    #[expect(
        clippy::disallowed_methods,
        reason = "the manager of workers: orders, sockets and pidfds of all workers, whichever comes first"
    )]
    fn wait(&self, deadline: Option<Instant>) -> Vec<usize> {
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let order = self.mailboxes.fd();
        let mut polled = vec![PollFd::from_borrowed_fd(order, PollFlags::IN)];
        for process in &self.processes {
            let worker = match &process.worker {
                Body::Free(worker) => worker,
                Body::TenantWorker(held) => &held.worker,
            };
            polled.push(PollFd::from_borrowed_fd(worker.socket(), PollFlags::IN));
        }
        polled.extend(self.reaper.fds());
        match poll(&mut polled, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => tracing::error!(%error, "the manager of workers cannot wait"),
        }
        let processes = polled.iter().skip(1).take(self.processes.len()).enumerate();
        processes.filter(|(_, fd)| !fd.revents().is_empty()).map(|(index, _)| index).collect()
    }

    /// Starts a worker for this duty, or takes the one that is ready. Gives the duty back if there can be none now.
    fn employ(&mut self, duty: Duty) -> Result<usize, Duty> {
        let is_spare = |process: &Process| matches!(process.duty, Duty::Spare);
        let role = duty.role();
        let spare = self.processes.iter().position(is_spare).filter(|_| role == Role::Kernels);
        if let Some(index) = spare {
            let process = &mut self.processes[index];
            if !process.ready || process.is_alive() {
                (process.duty, process.is_free) = (duty, false);
                self.confine(index);
                return Ok(index);
            }
            self.end(index, End::Unneeded);
        }
        let index = self.start(duty)?;
        self.confine(index);
        Ok(index)
    }

    /// A process of a guest's is in the guest's cgroup from now on.
    fn confine(&mut self, index: usize) {
        let Some(process) = self.processes.get_mut(index) else { return };
        let Some(guest) = process.duty.guest() else { return };
        self.groups.admit(guest, process.worker.worker().id());
    }

    /// All workers, for tools.
    fn roster(&self) -> Roster {
        let own = self.processes.iter().map(Process::listed);
        own.chain(self.executing.listed()).chain(self.reaper.listed()).collect()
    }

    /// Starts a spare worker for kernels, if there is none: a driver takes long to start.
    fn keep_a_spare(&mut self) {
        let is_spare = |process: &Process| matches!(process.duty, Duty::Spare);
        if self.config.of(Role::Kernels).is_some() && !self.processes.iter().any(is_spare) {
            let _ = self.start(Duty::Spare);
        }
    }

    fn start(&mut self, duty: Duty) -> Result<usize, Duty> {
        let role = duty.role();
        let starting = self.starting.entry(role).or_default();
        let Some(config) = self.config.of(role).filter(|_| starting.trouble().is_none()) else {
            return Err(duty);
        };
        // A session that has ended meanwhile needs no worker any more.
        let session = duty.session().and_then(|(space, of)| self.mailboxes.session(space, of));
        let options = Options {
            role,
            window: self.mailboxes.window.clone(),
            memory: config.memory,
            device: config.device,
            threads: config.threads,
            samples: session.map_or(0, |session| session.samples_to_decode()),
        };
        match Worker::spawn(config.worker.command(), &options) {
            Ok(worker) => {
                let deadline = Some(Instant::now() + START);
                let process = Process::new(Body::Free(Box::new(worker)), role, false, duty);
                self.processes.push(Process { deadline, ..process });
                Ok(self.processes.len() - 1)
            }
            Err(error) => {
                starting.pause(role, &NotStarted::refused(error.to_string()));
                Err(duty)
            }
        }
    }

    /// Why no worker of a role is started now.
    fn why_none(&self, role: Role) -> NotStarted {
        let trouble = self.starting.get(&role).and_then(Starting::trouble);
        trouble.cloned().unwrap_or_else(|| NotStarted::refused("it does not start"))
    }

    /// Follows an order. Returns false if it is to stop.
    fn take(&mut self, order: Order) -> bool {
        match order {
            Order::Compile(compile) => self.compiling.push(compile),
            Order::Prepare(request) => self.executing.ask(request),
            Order::Reap { engine, tenant, worker, exit } => {
                let _guest = self.executing.gone(engine, tenant);
                let condemned = Condemned { worker, role: tenant.role, _guest };
                self.reaper.kill(condemned, Some((engine, exit)));
            }
            Order::EndTenant(tenant) => {
                self.compiling.forget(|compile| compile.space.tenant.id == tenant);
                self.executing.end(&self.mailboxes, tenant);
            }
            Order::Resize(guest) => self.groups.resize(&guest),
            Order::EndGuest(guest) => {
                self.compiling.forget_guest(guest);
                let compilers = (0..self.processes.len()).rev().filter(|index| {
                    matches!(&self.processes[*index].duty, Duty::Compiler { guest: of, .. } if of.id == guest)
                });
                for index in compilers.collect::<Vec<_>>() {
                    self.end(index, End::Unneeded);
                }
                self.groups.gone(guest);
            }
            Order::Stop => return false,
        }
        true
    }

    /// Hears everything that a process has said.
    fn listen(&mut self, index: usize) {
        while let Some(process) = self.processes.get_mut(index) {
            match process.worker.worker().next(Some(Duration::ZERO)) {
                Ok(None) => return,
                Ok(Some(event)) => {
                    if !self.hear(index, event) {
                        return;
                    }
                }
                Err(error) => {
                    let end = why(process.ready, &error);
                    return self.end(index, end);
                }
            }
        }
    }

    /// Hears an event of a process. Returns false if the manager has the process no longer.
    fn hear(&mut self, index: usize, event: Event) -> bool {
        let Some(process) = self.processes.get_mut(index) else { return false };
        match event {
            Event::Ready { .. } if !process.ready => {
                process.ready = true;
                process.deadline = None;
                self.starting.entry(process.role).or_default().succeeded();
                self.go_on(index)
            }
            Event::Refused(why) => {
                self.end(index, End::NotStarted(NotStarted::refused(why)));
                false
            }
            Event::Loaded(_) => match &process.duty {
                Duty::Executor(..) => self.module_is_loaded(index),
                _ => {
                    self.is_compiled(index, Ok(()));
                    true
                }
            },
            Event::NotLoaded(_, why) => match &process.duty {
                Duty::Executor(..) => {
                    self.end(index, End::NotLoaded(why));
                    false
                }
                _ => {
                    self.is_compiled(index, Err(why));
                    true
                }
            },
            Event::Answer(answer) if matches!(process.duty, Duty::Executor(..)) => {
                self.pipeline_is_made(index, &answer)
            }
            // A worker that follows a wild pointer ends; it tells nothing else without a request.
            _ => {
                self.end(index, End::Ended("it used an invalid address".into()));
                false
            }
        }
    }

    /// Continues with a process that is ready. Returns false if the manager has it no longer.
    fn go_on(&mut self, index: usize) -> bool {
        match self.processes.get(index).map(|process| &process.duty) {
            Some(Duty::Executor(..)) => self.load_next(index),
            Some(Duty::Compiler { .. }) => {
                self.begin_job(index);
                true
            }
            _ => true,
        }
    }

    /// Ends processes that have taken too long.
    fn end_the_late(&mut self) {
        let now = Instant::now();
        for index in (0..self.processes.len()).rev() {
            let process = &self.processes[index];
            if process.deadline.is_none_or(|deadline| deadline > now) {
                continue;
            }
            let end = match &process.duty {
                _ if !process.ready => {
                    let why = "it did not pass its self-test in time";
                    End::NotStarted(NotStarted::refused(why))
                }
                Duty::Compiler { job: None, .. } => End::Unneeded,
                _ => End::TooSlow,
            };
            self.end(index, end);
        }
    }

    /// Charges a guest what compiling has taken for it in a process.
    fn charge(&mut self, index: usize) {
        let Some(process) = self.processes.get_mut(index) else { return };
        let Some(begun) = process.begun.take().filter(|_| !process.is_free) else { return };
        let spent = begun.spent(process.worker.worker().id());
        let tenant = match &process.duty {
            Duty::Executor(request, _) => &request.tenant,
            Duty::Compiler { job: Some(job), .. } => &job.compile.space.tenant,
            Duty::Spare | Duty::Compiler { job: None, .. } => return,
        };
        self.pace.compiled(&tenant.guest, spent);
    }

    /// Ends a process, and tells those who wait for it.
    fn end(&mut self, index: usize, end: End) {
        self.charge(index);
        let Process { worker, role, duty, .. } = self.processes.swap_remove(index);
        let _guest = duty.guest().cloned();
        self.reaper.kill(Condemned { worker: worker.into_worker(), role, _guest }, None);
        if let End::NotStarted(why) = &end
            && self.starting.entry(role).or_default().failed(role, why)
        {
            match duty {
                Duty::Spare | Duty::Compiler { job: None, .. } => {}
                Duty::Executor(request, _) => self.executing.ask(request),
                Duty::Compiler { job: Some(job), .. } => self.compiling.push(job.compile),
            }
            return;
        }
        match duty {
            Duty::Spare => {}
            Duty::Executor(request, _) => self.not_prepared(&request, &end),
            Duty::Compiler { job: Some(job), .. } => self.not_compiled(&job.compile, end),
            Duty::Compiler { job: None, .. } => {}
        }
    }
}

impl Duty {
    /// The guest that a worker with it works for.
    fn guest(&self) -> Option<&Arc<GuestWorkers>> {
        match self {
            Self::Spare => None,
            Self::Executor(request, _) => Some(&request.tenant.guest),
            Self::Compiler { guest, .. } => Some(guest),
        }
    }

    /// The role of a worker that has it.
    fn role(&self) -> Role {
        match self {
            Self::Spare | Self::Compiler { .. } => Role::Kernels,
            Self::Executor(request, _) => request.tenant.id.role,
        }
    }

    /// The video session of a worker that has it.
    fn session(&self) -> Option<(AddressSpaceId, u32)> {
        let Self::Executor(Request { tenant, .. }, _) = self else { return None };
        let number = u32::try_from(tenant.id.number).ok()?;
        (tenant.id.role == Role::Video).then_some((tenant.space, number))
    }
}

/// Why a process ends that says this.
fn why(ready: bool, error: &WorkerError) -> End {
    let why = error.to_string();
    if ready {
        return End::Ended(why);
    }
    End::NotStarted(NotStarted { why, has_ended: matches!(error, WorkerError::Ended(_)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_ends_is_lost_even_while_it_starts_and_one_that_refuses_is_not() {
        let killed = WorkerError::Ended(None);
        let refused = WorkerError::Refused("there is no Vulkan".into());
        assert_eq!(why(true, &killed).failure().0, Failure::Lost);
        assert_eq!(why(false, &killed).failure().0, Failure::Lost);
        assert_eq!(why(false, &refused).failure().0, Failure::Refused);
        // Also for those that come while no worker is started.
        let mut starting = Starting::default();
        let End::NotStarted(trouble) = why(false, &killed) else { panic!("it was not ready") };
        assert!(starting.failed(Role::Kernels, &trouble), "the first time may be chance");
        assert!(!starting.failed(Role::Kernels, &trouble));
        let trouble = starting.trouble().cloned().unwrap();
        assert_eq!(End::NotStarted(trouble).failure().0, Failure::Lost);
    }
}
