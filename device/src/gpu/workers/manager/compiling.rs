// SPDX-License-Identifier: MIT OR Apache-2.0

//! Compiling kernels aside, before any engine executes them.

use super::spent::Begun;
use super::{Duty, End, Job, Manager, Process};
use crate::gpu::workers::kernels::remembered::Remembered;
use crate::gpu::workers::mailboxes::{Compile, Outcome};
use bellhop_host_kmd::hardware::{GuestId, KernelOutcome};
use bellhop_protocol::control::kernel::KernelResult;
use bellhop_worker::owner::Role;
use rustix::process::{Pid, getpriority_process, setpriority_pgrp};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most workers that compile. Each does so for one guest.
const COMPILERS: usize = 8;
/// How long a worker that compiles waits for its guest's next kernel.
const PATIENCE: Duration = Duration::from_secs(30);
/// By how much nicer a worker that compiles is than the daemon: nobody waits for it but its guest.
const NICER: i32 = 4;

/// What is compiled, and was.
#[derive(Default)]
pub(super) struct Compiling {
    /// Kernels that wait to be compiled, oldest first.
    waiting: VecDeque<Compile>,
    /// What was compiled for each guest.
    remembered: HashMap<GuestId, Remembered>,
    /// Guests whose workers were ended for another socket's sake: their next ones are not charged to them.
    evicted: HashSet<GuestId>,
}

impl Compiling {
    /// Adds a kernel.
    pub(super) fn push(&mut self, compile: Compile) {
        self.waiting.push_back(compile);
    }

    /// Forgets kernels that nobody wants any more.
    pub(super) fn forget(&mut self, which: impl Fn(&Compile) -> bool) {
        self.waiting.retain(|compile| !which(compile));
    }

    /// Forgets a guest that is gone.
    pub(super) fn forget_guest(&mut self, guest: GuestId) {
        self.forget(|compile| compile.space.tenant.guest.id == guest);
        self.remembered.remove(&guest);
        self.evicted.remove(&guest);
    }
}

impl Manager {
    /// Begins to compile what can be compiled now.
    pub(super) fn serve_compiles(&mut self) {
        let mut waiting = VecDeque::new();
        while let Some(compile) = self.compiling.waiting.pop_front() {
            waiting.extend(self.try_to_compile(compile));
        }
        // What did not start has asked again.
        waiting.append(&mut self.compiling.waiting);
        self.compiling.waiting = waiting;
    }

    /// Gives the kernel back if it has to wait.
    fn try_to_compile(&mut self, compile: Compile) -> Option<Compile> {
        let Compile { space, number } = &compile;
        // Nobody wants it any more.
        let kernel = space.kernel(*number)?;
        let tenant = &space.tenant;
        let guest = tenant.guest.id;
        if !self.pace.may_compile(&tenant.guest) {
            return Some(compile);
        }
        let begun = Instant::now();
        let remembered = self.compiling.remembered.entry(guest).or_default();
        let mut is_new = false;
        let module = kernel.module(|source| {
            is_new = true;
            remembered.module(source)
        })?;
        if is_new {
            // To look for its content takes long, too.
            self.pace.compiled(&tenant.guest, begun.elapsed());
        }
        // Another kernel of the same content was compiled before.
        if let Some(outcome) = module.outcome() {
            self.mailboxes.tell(Outcome { space: space.id(), number: *number, outcome });
            return None;
        }
        // One at a time for the guests of each socket.
        let is_busy = |process: &Process| match &process.duty {
            Duty::Compiler { guest, job: Some(_) } => guest.socket == tenant.guest.socket,
            _ => false,
        };
        if self.processes.iter().any(is_busy) {
            return Some(compile);
        }
        let mut compilers = 0;
        let (mut idle, mut of_sibling) = (None, None);
        for (index, process) in self.processes.iter_mut().enumerate() {
            let Duty::Compiler { guest: of, job } = &mut process.duty else { continue };
            compilers += 1;
            if of.id != guest {
                if job.is_none() && process.ready {
                    idle = Some(index);
                }
                if of.socket == tenant.guest.socket {
                    of_sibling = Some(index);
                }
                continue;
            }
            if process.ready && !process.is_alive() {
                self.end(index, End::Unneeded);
                return self.try_to_compile(compile);
            }
            let Duty::Compiler { job, .. } = &mut process.duty else { continue };
            *job = Some(Job { compile, module });
            if process.ready {
                self.begin_job(index);
            }
            return None;
        }
        // One for the guests of each socket, and never the same one for two guests.
        let idle = of_sibling.or(idle.filter(|_| compilers >= COMPILERS));
        if compilers >= COMPILERS && idle.is_none() {
            return Some(compile);
        }
        if !self.compiling.evicted.contains(&guest) && !self.pace.may_start(&tenant.guest) {
            return Some(compile);
        }
        if let Some(idle) = idle {
            if let Some(Duty::Compiler { guest: of, .. }) =
                self.processes.get(idle).map(|p| &p.duty)
                && of.socket != tenant.guest.socket
            {
                self.compiling.evicted.insert(of.id);
            }
            self.end(idle, End::Unneeded);
        }
        if !self.compiling.evicted.remove(&guest) {
            self.pace.started(&tenant.guest);
        }
        let guest = Arc::clone(&tenant.guest);
        match self.employ(Duty::Compiler { guest, job: Some(Job { compile, module }) }) {
            Ok(index) => {
                if self.processes.get(index).is_some_and(|process| process.ready) {
                    self.begin_job(index);
                }
            }
            Err(Duty::Compiler { job: Some(job), .. }) => {
                let why = self.why_none(Role::Kernels);
                self.not_compiled(&job.compile, End::NotStarted(why));
            }
            Err(_) => {}
        }
        None
    }

    /// A compiler begins with its kernel.
    pub(super) fn begin_job(&mut self, index: usize) {
        let Some(process) = self.processes.get_mut(index) else { return };
        let Duty::Compiler { job: Some(Job { module, .. }), .. } = &process.duty else { return };
        let worker = process.worker.worker();
        be_nice(worker.id());
        let begun = Begun::now(worker.id());
        match module.load_into(worker) {
            Ok(()) => process.begin(begun, self.config.compile_timeout),
            Err(error) => self.end(index, End::Ended(error.to_string())),
        }
    }

    /// A compiler has compiled its kernel, or refused it.
    pub(super) fn is_compiled(&mut self, index: usize, verdict: Result<(), String>) {
        self.charge(index);
        let Some(process) = self.processes.get_mut(index) else { return };
        let Duty::Compiler { job, .. } = &mut process.duty else { return };
        let Some(Job { compile: Compile { space, number }, module }) = job.take() else { return };
        process.deadline = Some(Instant::now() + PATIENCE);
        // It is compiled again where it is executed. If the worker has ended, that is heard next.
        let _ = process.worker.worker().unload(module.number);
        module.decide(verdict);
        if let Some(outcome) = module.outcome() {
            self.mailboxes.tell(Outcome { space: space.id(), number, outcome });
        }
    }

    /// A kernel was not compiled, for another reason than that it is refused: the next try may succeed.
    pub(super) fn not_compiled(&mut self, compile: &Compile, end: End) {
        let (result, why) = match end {
            End::NotStarted(not_started) => (KernelResult::NO_WORKER, not_started.why),
            End::TooSlow => {
                let seconds = self.config.compile_timeout.as_secs_f32();
                (KernelResult::TOO_SLOW, format!("compiling took more than {seconds} s"))
            }
            End::Ended(why) | End::NotLoaded(why) => (KernelResult::COMPILER_CRASHED, why),
            End::Unneeded => return,
        };
        let (space, number) = (compile.space.id(), compile.number);
        tracing::debug!(guest = compile.space.tenant.guest.id.0, number, %why, "a kernel was not compiled");
        self.mailboxes.tell(Outcome { space, number, outcome: KernelOutcome::Failed(result, why) });
    }
}

/// Makes all threads of a worker that compiles nicer than the daemon's. It cannot undo that.
fn be_nice(worker: u32) {
    let group = i32::try_from(worker).ok().and_then(Pid::from_raw);
    let nice = getpriority_process(None).map(|own| own.saturating_add(NICER));
    if let Err(error) = nice.and_then(|nice| setpriority_pgrp(group, nice)) {
        tracing::debug!(%error, worker, "a worker that compiles is no nicer than others");
    }
}
