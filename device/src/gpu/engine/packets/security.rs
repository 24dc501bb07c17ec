// SPDX-License-Identifier: MIT OR Apache-2.0

//! `SEAL`, `OPEN` and `ATTEST`: packets of a security node, which the worker with the keys executes.
//!
//! The engine reads all that the worker needs, waits for it in slices of time, and writes what came of it. What was
//! protected is written to protected memory only.

use super::context::Context;
use super::progress::Progress;
use crate::gpu::memory::mmu::{Access, check_range, protected};
use crate::gpu::memory::violation::{Violation, aligned};
use crate::gpu::security::unit::{InFlight, MAX_DATA, OwnJob, Start, Wait, lost};
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::Opcode;
use bellhop_protocol::packet::security::{Attest, Open, Ranges, Seal};
use bellhop_protocol::security::{
    MAX_ASSOCIATED, MAX_SEALED, NONCE_SIZE, SEALED_OVERHEAD, SealedHeader, SecurityOutcome,
    SecurityStatus, Statement,
};
use zerocopy::FromBytes;

/// What a packet wants.
#[derive(Debug, Clone, Copy)]
enum Task {
    Seal(Ranges),
    Open(Ranges),
    Attest { destination: u64, status: u64, nonce: [u8; NONCE_SIZE] },
}

/// A packet of a security node in progress.
#[derive(Debug)]
pub struct Securing {
    task: Task,
    in_flight: Option<InFlight>,
    /// Whether the plaintext that is being opened goes to protected memory only.
    is_protected: bool,
}

impl Securing {
    /// Starts a `SEAL`.
    ///
    /// # Errors
    /// The rule that the packet broke.
    pub fn seal(context: &Context<'_>, packet: &Seal) -> Result<Self, Violation> {
        let ranges = packet.ranges();
        let written = u64::from(ranges.length) + SEALED_OVERHEAD as u64;
        check(context, Opcode::SEAL, &ranges, MAX_SEALED, written)?;
        Ok(Self::new(Task::Seal(ranges)))
    }

    /// Starts an `OPEN`.
    ///
    /// # Errors
    /// The rule that the packet broke.
    pub fn open(context: &Context<'_>, packet: &Open) -> Result<Self, Violation> {
        let ranges = packet.ranges();
        let written = u64::from(ranges.length).saturating_sub(SEALED_OVERHEAD as u64);
        check(context, Opcode::OPEN, &ranges, MAX_DATA as u32, written)?;
        Ok(Self::new(Task::Open(ranges)))
    }

    /// Starts an `ATTEST`.
    ///
    /// # Errors
    /// The rule that the packet broke.
    pub fn attest(context: &Context<'_>, packet: &Attest) -> Result<Self, Violation> {
        check_node(context, Opcode::ATTEST)?;
        let Attest { destination, status, nonce, .. } = *packet;
        check_range(destination, size_of::<Statement>() as u64)?;
        check_status(status)?;
        Ok(Self::new(Task::Attest { destination, status, nonce }))
    }

    fn new(task: Task) -> Self {
        Self { task, in_flight: None, is_protected: false }
    }

    /// See `Operation::step`. If the worker has not answered at the end of a slice of time, the turn is over.
    ///
    /// # Errors
    /// A fault of memory, or `SECURITY_LOST`.
    pub fn step(&mut self, context: &mut Context<'_>) -> Result<Progress, Violation> {
        let lost = lost(self.opcode());
        let in_flight = match self.in_flight.take() {
            Some(in_flight) => in_flight,
            None => match self.begin(context, lost)? {
                Some(Start::Begun(in_flight)) => in_flight,
                Some(Start::Busy) => return Ok(Progress::TurnIsOver),
                Some(Start::Waits) => return Ok(Progress::Waits),
                None => return Ok(Progress::Finished),
            },
        };
        let Some(unit) = context.security.as_deref_mut() else { return Err(lost) };
        match unit.wait(in_flight, lost)? {
            Wait::Again => Ok(Progress::TurnIsOver),
            Wait::GoesOn(in_flight) => {
                self.in_flight = Some(in_flight);
                Ok(Progress::TurnIsOver)
            }
            Wait::Done(answer) => {
                let written = match answer.outcome {
                    SecurityOutcome::DONE => self.write(context, answer.length),
                    _ => Ok(()),
                };
                if let Some(unit) = context.security.as_deref_mut() {
                    unit.forget(answer.length);
                }
                written?;
                self.tell(context, answer.outcome, answer.length as u64)?;
                Ok(Progress::Finished)
            }
        }
    }

    fn opcode(&self) -> Opcode {
        match self.task {
            Task::Seal(_) => Opcode::SEAL,
            Task::Open(_) => Opcode::OPEN,
            Task::Attest { .. } => Opcode::ATTEST,
        }
    }

    /// Reads what the worker needs, and gives it that. `None` if there is nothing for the worker to do.
    fn begin(
        &mut self,
        context: &mut Context<'_>,
        lost: Violation,
    ) -> Result<Option<Start>, Violation> {
        let Context { security, mmu, queue, partition, .. } = context;
        let Some(unit) = security.as_deref_mut() else { return Err(lost) };
        if let Some(later) = unit.prepare(lost)? {
            return Ok(Some(later));
        }
        let job = match self.task {
            Task::Attest { nonce, .. } => OwnJob::Attest(nonce),
            Task::Seal(ranges) | Task::Open(ranges) => {
                let (at, about) = ranges.associated;
                let (length, about) = (ranges.length as usize, about as usize);
                // Both were checked.
                let associated = unit.associated.get_mut(..about).unwrap_or_default();
                // The only reads: the guest may store there at any time.
                mmu.read(at, associated)?;
                let data = unit.data.get_mut(..length).unwrap_or_default();
                let mut was_protected = false;
                let mut done = 0;
                while let Some(rest) = data.get_mut(done..)
                    && !rest.is_empty()
                {
                    let at = ranges.source.wrapping_add(done as u64);
                    let run = mmu.run(at, rest.len(), Access::Read)?;
                    let part = rest.get_mut(..run.len()).unwrap_or_default();
                    match self.task {
                        // What is sealed stays secret.
                        Task::Seal(_) => mmu.load_protected(at, &run, part)?,
                        _ => mmu.load(at, &run, part)?,
                    }
                    was_protected |= run.is_protected();
                    done += run.len();
                }
                if let Task::Seal(_) = self.task {
                    OwnJob::Seal(length, was_protected, about)
                } else {
                    let header =
                        SealedHeader::read_from_prefix(data).ok().map(|(header, _)| header);
                    let Some(header) = header.filter(|header| header.plaintext(length).is_some())
                    else {
                        self.tell(context, SecurityOutcome::NOT_SEALED, 0)?;
                        return Ok(None);
                    };
                    self.is_protected = header.is_protected();
                    OwnJob::Open(length, about)
                }
            }
        };
        Ok(Some(unit.begin(queue, partition.identity(), job)))
    }

    /// Writes what came of it.
    fn write(&self, context: &mut Context<'_>, length: usize) -> Result<(), Violation> {
        let Context { security, mmu, .. } = context;
        let destination = match self.task {
            Task::Seal(ranges) | Task::Open(ranges) => ranges.destination,
            Task::Attest { destination, .. } => destination,
        };
        let data = security.as_deref().and_then(|unit| unit.data.get(..length)).unwrap_or_default();
        if !self.is_protected {
            return mmu.write(destination, data);
        }
        let mut done = 0;
        while let Some(rest) = data.get(done..)
            && !rest.is_empty()
        {
            let at = destination.wrapping_add(done as u64);
            let run = mmu.run(at, rest.len(), Access::Write)?;
            if !run.is_protected() {
                return Err(protected(at));
            }
            mmu.store(at, &run, rest.get(..run.len()).unwrap_or_default())?;
            done += run.len();
        }
        Ok(())
    }

    /// Writes the status block.
    fn tell(
        &self,
        context: &mut Context<'_>,
        outcome: SecurityOutcome,
        written: u64,
    ) -> Result<(), Violation> {
        let status = match self.task {
            Task::Seal(ranges) | Task::Open(ranges) => ranges.status,
            Task::Attest { status, .. } => status,
        };
        const { assert!(size_of::<SecurityStatus>() == 16) };
        context.mmu.store_word(status.wrapping_add(8), written)?;
        // A guest that polls the word sees what was written before it.
        context.mmu.store_word(status, outcome.0.into())
    }
}

/// Checks that the node executes such packets.
fn check_node(context: &Context<'_>, opcode: Opcode) -> Result<(), Violation> {
    // The system context has no secrets.
    if context.engine_type == EngineType::CRYPTO && !context.is_system {
        return Ok(());
    }
    Err(Violation::new(FaultReason::NOT_SUPPORTED_BY_NODE, opcode.0.into()))
}

fn check_status(status: u64) -> Result<(), Violation> {
    aligned(status, size_of::<u64>() as u64)?;
    check_range(status, size_of::<SecurityStatus>() as u64)
}

/// Checks the ranges of a packet that reads at most `most` bytes and writes so many.
fn check(
    context: &Context<'_>,
    opcode: Opcode,
    ranges: &Ranges,
    most: u32,
    written: u64,
) -> Result<(), Violation> {
    check_node(context, opcode)?;
    let bad = |length: u32| Violation::new(FaultReason::BAD_SECURITY_ARGUMENTS, length.into());
    let (at, about) = ranges.associated;
    if ranges.length > most {
        return Err(bad(ranges.length));
    }
    if about > MAX_ASSOCIATED {
        return Err(bad(about));
    }
    check_status(ranges.status)?;
    check_range(ranges.source, ranges.length.into())?;
    check_range(ranges.destination, written)?;
    check_range(at, about.into())
}
