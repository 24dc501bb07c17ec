// SPDX-License-Identifier: MIT OR Apache-2.0

//! The thread that manages workers: it starts them, has kernels compiled and loaded, and buries them.
//!
//! Only this thread starts workers: they end with the thread that started them. It waits for all of them at once, each
//! with a deadline, so a slow compiler delays nobody but its guest.
//!
//! Nothing of a guest's memory is mapped in any worker here, so none of them delays a TLB flush. Those that compile never
//! have memory mapped, and each compiles for one guest only: what one guest's kernel does to a compiler is seen by no
//! other guest.

mod compiling;
mod executing;
mod graves;
mod pace;
mod starting;

use super::config::KernelsConfig;
use super::desk::{Desk, Order, Request};
use super::held::Held;
use super::roster::{Listed, Roster, Task};
use bellhop_host_kmd::hardware::GuestId;
use bellhop_worker::owner::{Event, Options, Worker, WorkerError};
use compiling::Compiling;
use executing::Executing;
use graves::Graves;
use pace::Pace;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use starting::Starting;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a worker may take to start. A self-test takes a second at most, but the driver may be on a slow disk.
const START: Duration = Duration::from_secs(60);

/// A worker that the manager has.
struct Process {
    worker: Body,
    /// Whether it has passed its self-test.
    ready: bool,
    /// When it has taken too long.
    deadline: Option<Instant>,
    role: Role,
}

impl Process {
    /// What tools are told of it.
    fn listed(&self) -> Listed {
        let worker = match &self.worker {
            Body::Free(worker) => worker,
            Body::Held(held) => &held.worker,
        };
        let (state, guest, request) = match &self.role {
            Role::Spare => ("spare", None, None),
            Role::Executor(request, _) => ("loading", Some(request.space.guest.id), Some(request)),
            Role::Compiler { guest, job: Some(_) } => ("compiling", Some(*guest), None),
            Role::Compiler { guest, job: None } => ("compiler", Some(*guest), None),
        };
        Listed {
            pid: worker.id(),
            task: Task::Does(if self.ready { state } else { "starting" }),
            guest,
            space: request.map(|request| request.space.id),
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
    /// Without an address space.
    Free(Worker),
    /// Of an address space.
    Held(Box<Held>),
}

impl Body {
    fn worker(&mut self) -> &mut Worker {
        match self {
            Self::Free(worker) => worker,
            Self::Held(held) => &mut held.worker,
        }
    }

    fn into_worker(self) -> Worker {
        match self {
            Self::Free(worker) => worker,
            Self::Held(held) => held.worker,
        }
    }
}

/// What a worker of the manager's is for.
enum Role {
    /// The next process that needs one.
    Spare,
    /// A request of an engine, with the number of modules that it has loaded.
    Executor(Request, usize),
    /// Compiling for a guest.
    Compiler { guest: GuestId, job: Option<super::desk::Compile> },
}

/// Why a process of the manager's ends.
enum End {
    /// It refused to start, or does not start.
    NotStarted(String),
    /// It ended, or sent nonsense.
    Ended(String),
    /// It took too long to compile.
    TooSlow,
    /// It could not load a kernel that was compiled before.
    NotLoaded(String),
    /// It is not needed any more.
    Unneeded,
}

/// The manager's state.
pub struct Manager {
    desk: Arc<Desk>,
    config: KernelsConfig,
    processes: Vec<Process>,
    starting: Starting,
    pace: Pace,
    compiling: Compiling,
    executing: Executing,
    graves: Graves,
}

impl Manager {
    /// A manager without workers.
    pub fn new(desk: Arc<Desk>, config: KernelsConfig) -> Self {
        Self {
            pace: Pace::new(config.starts),
            desk,
            config,
            processes: Vec::new(),
            starting: Starting::default(),
            compiling: Compiling::default(),
            executing: Executing::default(),
            graves: Graves::default(),
        }
    }

    /// Runs until it is told to stop.
    pub fn run(mut self) {
        loop {
            self.pace.begin();
            self.serve_requests();
            self.serve_compiles();
            self.keep_a_spare();
            self.desk.roster.store(Arc::new(self.roster()));
            let deadline = self.deadline();
            let readable = self.wait(deadline);
            self.desk.acknowledge();
            while let Some(order) = self.desk.take_order() {
                if !self.take(order) {
                    return;
                }
            }
            // From the last: a process that ends is removed.
            for index in readable.into_iter().rev() {
                self.listen(index);
            }
            self.end_the_late();
            self.graves.fill(&self.desk);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let deadlines = self.processes.iter().filter_map(|process| process.deadline);
        deadlines.chain(self.starting.retry()).chain(self.pace.next()).min()
    }

    /// Waits for an order, for a process or for the deadline. Returns the indices of processes that said something.
    fn wait(&self, deadline: Option<Instant>) -> Vec<usize> {
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let order = self.desk.fd();
        let mut polled = vec![PollFd::from_borrowed_fd(order, PollFlags::IN)];
        for process in &self.processes {
            let worker = match &process.worker {
                Body::Free(worker) => worker,
                Body::Held(held) => &held.worker,
            };
            polled.push(PollFd::from_borrowed_fd(worker.socket(), PollFlags::IN));
        }
        polled.extend(self.graves.fds());
        match poll(&mut polled, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => tracing::error!(%error, "the manager of workers cannot wait"),
        }
        let processes = polled.iter().skip(1).take(self.processes.len()).enumerate();
        processes.filter(|(_, fd)| !fd.revents().is_empty()).map(|(index, _)| index).collect()
    }

    /// Starts a worker for this role, or takes the one that is ready. Gives the role back if there can be none now.
    fn employ(&mut self, role: Role) -> Result<usize, Role> {
        let is_spare = |process: &Process| matches!(process.role, Role::Spare);
        if let Some(index) = self.processes.iter().position(is_spare) {
            let process = &mut self.processes[index];
            if !process.ready || process.is_alive() {
                process.role = role;
                return Ok(index);
            }
            self.end(index, End::Unneeded);
        }
        self.start(role)
    }

    /// All workers, for tools.
    fn roster(&self) -> Roster {
        let own = self.processes.iter().map(Process::listed);
        own.chain(self.executing.listed()).chain(self.graves.listed()).collect()
    }

    /// Starts a spare worker, if there is none.
    fn keep_a_spare(&mut self) {
        if !self.processes.iter().any(|process| matches!(process.role, Role::Spare)) {
            let _ = self.start(Role::Spare);
        }
    }

    fn start(&mut self, role: Role) -> Result<usize, Role> {
        if self.starting.trouble().is_some() {
            return Err(role);
        }
        let options = Options {
            window: self.desk.window.clone(),
            memory: self.config.memory,
            device: self.config.device,
            threads: self.config.threads,
        };
        match Worker::spawn(self.config.worker.command(), &options) {
            Ok(worker) => {
                let deadline = Some(Instant::now() + START);
                let worker = Body::Free(worker);
                self.processes.push(Process { worker, ready: false, deadline, role });
                Ok(self.processes.len() - 1)
            }
            Err(error) => {
                self.starting.pause(&error.to_string());
                Err(role)
            }
        }
    }

    /// Follows an order. Returns false if it is to stop.
    fn take(&mut self, order: Order) -> bool {
        match order {
            Order::Compile(compile) => self.compiling.push(compile),
            Order::Prepare(request) => self.executing.ask(request),
            Order::Bury { engine, space, worker, grave } => {
                self.executing.gone(engine, space);
                self.graves.dig(worker, Some((engine, grave)));
            }
            Order::EndSpace(space) => {
                self.compiling.forget(|compile| compile.space.id == space);
                self.executing.end(&self.desk, space);
            }
            Order::EndGuest(guest) => {
                self.compiling.forget(|compile| compile.space.guest.id == guest);
                let compilers = (0..self.processes.len()).rev().filter(|index| {
                    matches!(self.processes[*index].role, Role::Compiler { guest: of, .. } if of == guest)
                });
                for index in compilers.collect::<Vec<_>>() {
                    self.end(index, End::Unneeded);
                }
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
                self.starting.succeeded();
                self.go_on(index)
            }
            Event::Refused(why) => {
                self.end(index, End::NotStarted(why));
                false
            }
            Event::Loaded(_) => match &process.role {
                Role::Executor(..) => self.module_is_loaded(index),
                _ => {
                    self.is_compiled(index, Ok(()));
                    true
                }
            },
            Event::NotLoaded(_, why) => match &process.role {
                Role::Executor(..) => {
                    self.end(index, End::NotLoaded(why));
                    false
                }
                _ => {
                    self.is_compiled(index, Err(why));
                    true
                }
            },
            // A compiler that follows a wild pointer ends; the worker tells nothing else without a request.
            _ => {
                self.end(index, End::Ended("the compiler used an invalid address".into()));
                false
            }
        }
    }

    /// Continues with a process that is ready. Returns false if the manager has it no longer.
    fn go_on(&mut self, index: usize) -> bool {
        match self.processes.get(index).map(|process| &process.role) {
            Some(Role::Executor(..)) => self.load_next(index),
            Some(Role::Compiler { .. }) => {
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
            let end = match &process.role {
                _ if !process.ready => {
                    End::NotStarted("it did not pass its self-test in time".into())
                }
                Role::Compiler { job: None, .. } => End::Unneeded,
                _ => End::TooSlow,
            };
            self.end(index, end);
        }
    }

    /// Ends a process, and tells those who wait for it.
    fn end(&mut self, index: usize, end: End) {
        let Process { worker, role, .. } = self.processes.swap_remove(index);
        self.graves.dig(worker.into_worker(), None);
        if let End::NotStarted(why) = &end
            && self.starting.failed(why)
        {
            match role {
                Role::Spare | Role::Compiler { job: None, .. } => {}
                Role::Executor(request, _) => self.executing.ask(request),
                Role::Compiler { job: Some(job), .. } => self.compiling.push(job),
            }
            return;
        }
        match role {
            Role::Spare => {}
            Role::Executor(request, _) => self.not_prepared(&request, &end),
            Role::Compiler { job: Some(job), .. } => self.not_compiled(&job, end),
            Role::Compiler { job: None, .. } => {}
        }
    }
}

/// Why a process ends that says this.
fn why(ready: bool, error: &WorkerError) -> End {
    if ready { End::Ended(error.to_string()) } else { End::NotStarted(error.to_string()) }
}
