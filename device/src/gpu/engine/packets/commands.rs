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
}

impl Commands {
    /// Begins a stream. `None` if it is empty.
    ///
    /// # Errors
    /// The rule that the packet broke.
    pub fn new(
        context: &mut Context<'_>,
        packet: &ExecuteCommands,
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
        let commands = Self { space, task, in_flight: None, lacks: false, makes: 0 };
        Ok((length > 0).then_some(commands))
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
        if self.lacks {
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
                if answer.result != CommandsResult::LACKS {
                    return ended(&answer);
                }
                if self.task.kind != CommandsTaskKind::EXECUTE {
                    return Err(nonsense(Malformed::Field("answer about commands")));
                }
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
