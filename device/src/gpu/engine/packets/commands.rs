// SPDX-License-Identifier: MIT OR Apache-2.0

//! `EXECUTE_COMMANDS`: the worker of the queue's address space has the host's Vulkan execute a stream of commands. The engine
//! does not look into the stream: whatever it says, the worker reaches the memory of its own guest alone.

use super::context::Context;
use super::progress::Progress;
use crate::gpu::engine::workers::{InFlight, Lost, Start, Task, Wait};
use crate::gpu::memory::mmu::Access;
use crate::gpu::memory::violation::{Violation, aligned};
use crate::gpu::workers::kernels::table::KernelSpace;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::UNIT;
use bellhop_protocol::packet::commands::ExecuteCommands;
use bellhop_protocol::vulkan::MAX_STREAM;
use bellhop_worker::messages::Malformed;
use bellhop_worker::messages::commands::{
    CommandsAnswer, CommandsResult, CommandsTask, CommandsTaskKind, Scope,
};
use bellhop_worker::owner::WorkerError;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// How often a stream's pipelines are made before it begins: others may take the place of what was made. After that, they are
/// made while it runs, and that is all they may take.
const MOST_MAKES: u32 = 2;

/// A stream in progress. If it is dropped while a worker executes it, the engine ends that worker.
#[derive(Debug)]
pub struct Commands {
    space: Arc<KernelSpace>,
    task: CommandsTask,
    in_flight: Option<InFlight>,
    /// Whether the manager has yet to be asked for what the stream lacks.
    lacks: bool,
    /// How often it was asked.
    makes: u32,
    /// What the worker was told of that follows.
    next: Option<Box<Next>>,
    /// Whether the answer that comes is of what was to follow and was not begun, since this stream lacks something.
    next_answers: bool,
}

/// A stream that a worker was told of while it executed the one before, so that it begins it by itself. If it is dropped before its
/// packet takes it over, the engine ends that worker.
#[derive(Debug)]
pub struct Next {
    task: CommandsTask,
    in_flight: InFlight,
}

impl Commands {
    /// Begins a stream. `None` if it is empty. The worker may have been told of it.
    ///
    /// # Errors
    /// The rule that the packet broke.
    pub fn new(
        context: &mut Context<'_>,
        packet: &ExecuteCommands,
        next: Option<Box<Next>>,
    ) -> Result<Option<Self>, Violation> {
        let unsupported =
            Violation::new(FaultReason::NOT_SUPPORTED_BY_NODE, u64::from(packet.header.opcode.0));
        let scope = match context.engine_type {
            EngineType::THREE_D => Scope::ALL,
            EngineType::COMPUTE => Scope::COMPUTE,
            _ => return Err(unsupported),
        };
        // The system context executes none, and a host without Vulkan has no such spaces.
        let workers = context.workers.as_deref().filter(|_| !context.is_system);
        let space = workers.and_then(|workers| workers.kernels(context.queue.space.id()));
        let space = space.ok_or(unsupported)?;
        let length = packet.length();
        if length > MAX_STREAM || !length.is_multiple_of(UNIT as u32) {
            return Err(Violation::new(FaultReason::BAD_COMMANDS, length.into()));
        }
        aligned(packet.gpu_va, UNIT as u64)?;
        context.time_turn();
        let kind = CommandsTaskKind::EXECUTE;
        let task = CommandsTask { address: packet.gpu_va, length, kind, scope };
        // A worker that was told of another stream executes what no packet names any more.
        let next = next.filter(|next| next.task == follower(task));
        let in_flight = next.map(|next| next.in_flight);
        let (lacks, makes, next, next_answers) = (false, 0, None, false);
        let commands = Self { space, task, in_flight, lacks, makes, next, next_answers };
        Ok((length > 0).then_some(commands))
    }

    /// Whether the worker can be told of the stream that follows.
    pub fn may_be_followed(&self) -> bool {
        self.in_flight.is_some() && self.next.is_none() && !self.next_answers
    }

    /// Tells the worker of the stream that follows, if it takes that.
    pub fn follow_with(&mut self, context: &mut Context<'_>, packet: &ExecuteCommands) {
        // What is wrong with the packet is found when its turn comes.
        let Ok(Some(Self { task, space, .. })) = Self::new(context, packet, None) else { return };
        let Some(workers) = context.workers.as_deref_mut() else { return };
        let task = follower(task);
        let stream = (task.address, task.length.into(), Access::Read);
        let asked = Task { bytes: task.as_bytes(), ranges: &[stream] };
        // Of a worker that has ended, the wait for its answer tells.
        let told = workers.follow(space.tenant.id, context.queue, &context.mmu, asked);
        let in_flight = told.ok().flatten();
        self.next = in_flight.map(|in_flight| Box::new(Next { task, in_flight }));
    }

    /// Gives away what the worker goes on with.
    pub fn take_next(&mut self) -> Option<Box<Next>> {
        self.next.take()
    }

    /// See `Operation::step`. If the worker has not answered at the end of a slice of time, the turn is over.
    ///
    /// # Errors
    /// What ended the stream. A worker that had begun is killed unless it says itself what was wrong.
    pub fn step(&mut self, context: &mut Context<'_>) -> Result<Progress, Violation> {
        self.go_on(context).map_err(|lost| lost.of_kernels(|offset| offset))
    }

    fn go_on(&mut self, context: &mut Context<'_>) -> Result<Progress, Lost> {
        let Some(workers) = context.workers.as_deref_mut() else { return Err(Lost::Gone) };
        let tenant = &self.space.tenant;
        if self.lacks && !self.next_answers {
            self.lacks = !workers.make_pipelines(tenant, context.queue.id)?;
            return Ok(Progress::Waits);
        }
        let in_flight = match self.in_flight.take() {
            Some(in_flight) => in_flight,
            None => {
                let stream = (self.task.address, self.task.length.into(), Access::Read);
                let task = Task { bytes: self.task.as_bytes(), ranges: &[stream] };
                match workers.begin_task(tenant, context.queue, &context.mmu, task)? {
                    Start::Begun(in_flight) => in_flight,
                    Start::Waits => return Ok(Progress::Waits),
                }
            }
        };
        match workers.wait_for_task(in_flight, tenant.id, &context.mmu, context.others)? {
            Wait::GoesOn(in_flight) => {
                self.in_flight = Some(in_flight);
                Ok(Progress::TurnIsOver)
            }
            Wait::Done(answer) => {
                let answer = CommandsAnswer::read(&answer);
                let nonsense = |nonsense| Lost::Worker(WorkerError::Nonsense(nonsense));
                let answer = answer.map_err(nonsense)?;
                let is_of_next = std::mem::take(&mut self.next_answers);
                if is_of_next != (answer.result == CommandsResult::NOT_BEGUN) {
                    return Err(nonsense(Malformed::Field("answer about what follows")));
                }
                if is_of_next {
                    return self.go_on(context);
                }
                if answer.result != CommandsResult::LACKS {
                    return ended(&answer);
                }
                if self.task.kind != CommandsTaskKind::EXECUTE {
                    return Err(nonsense(Malformed::Field("answer about commands")));
                }
                self.in_flight = self.next.take().map(|next| next.in_flight);
                self.next_answers = self.in_flight.is_some();
                self.makes += 1;
                if self.makes > MOST_MAKES {
                    self.task.kind = CommandsTaskKind::MAKE_AND_EXECUTE;
                } else {
                    self.lacks = true;
                }
                self.go_on(context)
            }
        }
    }
}

/// A task that a worker begins by itself.
fn follower(task: CommandsTask) -> CommandsTask {
    CommandsTask { kind: CommandsTaskKind::FOLLOW, ..task }
}

/// What came of a stream, by the worker's word: a worker that lies deceives its own guest.
fn ended(answer: &CommandsAnswer) -> Result<Progress, Lost> {
    let (result, offset) = (answer.result, answer.offset);
    if result == CommandsResult::DONE {
        return Ok(Progress::Finished);
    }
    tracing::debug!(?result, offset, why = answer.text(), "a stream of commands was not executed");
    Err(if result == CommandsResult::MALFORMED {
        Violation::new(FaultReason::BAD_COMMANDS, offset.into()).into()
    } else {
        Lost::NotDone(offset)
    })
}
