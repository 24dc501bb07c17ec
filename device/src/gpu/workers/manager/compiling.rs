// SPDX-License-Identifier: MIT OR Apache-2.0

//! Compiling kernels aside, before any engine executes them.

use super::{Duty, End, Manager};
use crate::gpu::workers::desk::{Compile, Outcome};
use bellhop_host_kmd::hardware::KernelOutcome;
use bellhop_protocol::control::kernel::KernelResult;
use bellhop_worker::owner::Role;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Most workers that compile. Each does so for one guest.
const COMPILERS: usize = 8;
/// How long a worker that compiles waits for its guest's next kernel.
const PATIENCE: Duration = Duration::from_secs(30);

/// Kernels that wait to be compiled, oldest first.
#[derive(Default)]
pub(super) struct Compiling(VecDeque<Compile>);

impl Compiling {
    /// Adds a kernel.
    pub(super) fn push(&mut self, compile: Compile) {
        self.0.push_back(compile);
    }

    /// Forgets kernels that nobody wants any more.
    pub(super) fn forget(&mut self, which: impl Fn(&Compile) -> bool) {
        self.0.retain(|compile| !which(compile));
    }
}

impl Manager {
    /// Begins to compile what can be compiled now.
    pub(super) fn serve_compiles(&mut self) {
        let mut waiting = VecDeque::new();
        while let Some(compile) = self.compiling.0.pop_front() {
            if let Some(compile) = self.try_to_compile(compile) {
                waiting.push_back(compile);
            }
        }
        self.compiling.0 = waiting;
    }

    /// Gives the kernel back if it has to wait.
    fn try_to_compile(&mut self, compile: Compile) -> Option<Compile> {
        let Compile { space, number, module } = &compile;
        // Another kernel of the same content was compiled meanwhile.
        if let Some(outcome) = module.outcome() {
            self.desk.tell(Outcome { space: space.id(), number: *number, outcome });
            return None;
        }
        if !space.contains(*number) {
            return None;
        }
        let guest = space.tenant.guest.id;
        let mut compilers = 0;
        let mut idle = None;
        for (index, process) in self.processes.iter_mut().enumerate() {
            let Duty::Compiler { guest: of, job } = &mut process.duty else { continue };
            compilers += 1;
            if *of != guest {
                if job.is_none() && process.ready {
                    idle = Some(index);
                }
                continue;
            }
            // One at a time for each guest.
            if job.is_some() {
                return Some(compile);
            }
            if process.ready && !process.is_alive() {
                self.end(index, End::Unneeded);
                return self.try_to_compile(compile);
            }
            let Duty::Compiler { job, .. } = &mut process.duty else { continue };
            *job = Some(compile);
            if process.ready {
                self.begin_job(index);
            }
            return None;
        }
        if compilers >= COMPILERS && idle.is_none() {
            return Some(compile);
        }
        if !self.pace.may_start(&space.tenant.guest) {
            return Some(compile);
        }
        if compilers >= COMPILERS {
            let Some(idle) = idle else { return Some(compile) };
            self.end(idle, End::Unneeded);
        }
        match self.employ(Duty::Compiler { guest, job: Some(compile) }) {
            Ok(index) => {
                if self.processes.get(index).is_some_and(|process| process.ready) {
                    self.begin_job(index);
                }
            }
            Err(Duty::Compiler { job: Some(compile), .. }) => {
                let why = self.why_none(Role::Kernels);
                self.not_compiled(&compile, End::NotStarted(why));
            }
            Err(_) => {}
        }
        None
    }

    /// A compiler begins with its kernel.
    pub(super) fn begin_job(&mut self, index: usize) {
        let Some(process) = self.processes.get_mut(index) else { return };
        let Duty::Compiler { job: Some(compile), .. } = &process.duty else { return };
        let module = &compile.module;
        match process.worker.worker().load(module.number, &module.to_load()) {
            Ok(()) => process.deadline = Some(Instant::now() + self.config.compile_timeout),
            Err(error) => self.end(index, End::Ended(error.to_string())),
        }
    }

    /// A compiler has compiled its kernel, or refused it.
    pub(super) fn is_compiled(&mut self, index: usize, verdict: Result<(), String>) {
        let Some(process) = self.processes.get_mut(index) else { return };
        let Duty::Compiler { job, .. } = &mut process.duty else { return };
        let Some(Compile { space, number, module }) = job.take() else { return };
        process.deadline = Some(Instant::now() + PATIENCE);
        // It is compiled again where it is executed. If the worker has ended, that is heard next.
        let _ = process.worker.worker().unload(module.number);
        module.decide(verdict);
        if let Some(outcome) = module.outcome() {
            self.desk.tell(Outcome { space: space.id(), number, outcome });
        }
    }

    /// A kernel was not compiled, for another reason than that it is refused: the next try may succeed.
    pub(super) fn not_compiled(&mut self, compile: &Compile, end: End) {
        let (result, why) = match end {
            End::NotStarted(why) => (KernelResult::NO_WORKER, why),
            End::TooSlow => {
                let seconds = self.config.compile_timeout.as_secs_f32();
                (KernelResult::TOO_SLOW, format!("compiling took more than {seconds} s"))
            }
            End::Ended(why) | End::NotLoaded(why) => (KernelResult::COMPILER_CRASHED, why),
            End::Unneeded => return,
        };
        let (space, number) = (compile.space.id(), compile.number);
        tracing::debug!(guest = compile.space.tenant.guest.id.0, number, %why, "a kernel was not compiled");
        self.desk.tell(Outcome { space, number, outcome: KernelOutcome::Failed(result, why) });
    }
}
