// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packets that only 3D and Compute nodes execute.

use super::context::{BUFFER, Context};
use super::progress::{Cursor, Progress};
use crate::gpu::memory::mmu::{Access, check_range};
use crate::gpu::memory::violation::{Violation, aligned};
use crate::gpu::shared::chip::reset;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::Opcode;
use bellhop_protocol::packet::dispatch::{Dispatch, Kernel, apply_xor_stream};
use multiversion::multiversion;
use std::thread;
use std::time::{Duration, Instant};

const WORD: usize = size_of::<u64>();

/// `DISPATCH`: starts a kernel.
///
/// # Errors
/// `NOT_SUPPORTED_BY_NODE`, or the error of the kernel's arguments.
pub fn dispatch(context: &Context<'_>, packet: &Dispatch) -> Result<KernelRun, Violation> {
    if !context.engine_type.computes() {
        let opcode = u64::from(Opcode::DISPATCH.0);
        return Err(Violation::new(FaultReason::NOT_SUPPORTED_BY_NODE, opcode));
    }
    match packet.kernel() {
        Kernel::XOR_STREAM => XorStream::new(packet).map(KernelRun::XorStream),
        Kernel::SPIN_UNTIL => SpinUntil::new(packet).map(KernelRun::SpinUntil),
        Kernel::HANG_UNTIL_ENGINE_RESET if context.chip.test_kernels => {
            Ok(KernelRun::Hang(Hang { ends_with: reset::ENGINE }))
        }
        Kernel::HANG_UNTIL_ADAPTER_RESET if context.chip.test_kernels => {
            Ok(KernelRun::Hang(Hang { ends_with: reset::ADAPTER }))
        }
        Kernel(number) => {
            Err(Violation::new(FaultReason::NOT_SUPPORTED_BY_NODE, u64::from(number)))
        }
    }
}

/// A kernel in progress.
#[derive(Debug)]
pub enum KernelRun {
    /// `XOR_STREAM`.
    XorStream(XorStream),
    /// `SPIN_UNTIL`.
    SpinUntil(SpinUntil),
    /// A kernel that hangs.
    Hang(Hang),
}

impl KernelRun {
    /// See `Operation::step`.
    pub fn step(&mut self, context: &mut Context<'_>, limit: usize) -> Result<Progress, Violation> {
        match self {
            Self::XorStream(kernel) => kernel.step(context, limit),
            Self::SpinUntil(kernel) => kernel.step(context, limit),
            Self::Hang(kernel) => kernel.step(context),
        }
    }
}

/// `XOR_STREAM` of bytes from this word on, compiled for several kinds of processors: one that multiplies eight
/// words at a time needs a tenth of the time.
#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))]
fn transform(bytes: &mut [u8], key: u64, first: u64) {
    apply_xor_stream(bytes, key, first);
}

/// `XOR_STREAM` in progress.
#[derive(Debug)]
pub struct XorStream {
    source: u64,
    destination: u64,
    key: u64,
    cursor: Cursor,
}

impl XorStream {
    fn new(packet: &Dispatch) -> Result<Self, Violation> {
        for value in [packet.source, packet.destination, packet.length] {
            aligned(value, WORD as u64)?;
        }
        check_range(packet.source, packet.length)?;
        check_range(packet.destination, packet.length)?;
        Ok(Self {
            source: packet.source,
            destination: packet.destination,
            key: packet.parameter,
            cursor: Cursor::new(packet.length),
        })
    }

    /// See `Operation::step`. Lengths and limits are multiples of 8, so steps are whole words.
    pub fn step(&mut self, context: &mut Context<'_>, limit: usize) -> Result<Progress, Violation> {
        let Some(next) = self.cursor.next(limit.min(BUFFER)) else { return Ok(Progress::Finished) };
        let done = self.cursor.done;
        let source = context.mmu.run(self.source + done, next, Access::Read)?;
        let destination = context.mmu.run(self.destination + done, source.len(), Access::Write)?;
        let buffer = &mut context.scratch.first[..destination.len()];
        context.mmu.load(self.source + done, &source, buffer)?;
        transform(buffer, self.key, done / WORD as u64);
        context.mmu.store(self.destination + done, &destination, buffer)?;
        Ok(self.cursor.advance(destination.len()))
    }
}

/// `SPIN_UNTIL` in progress.
#[derive(Debug)]
pub struct SpinUntil {
    source: u64,
    destination: u64,
    least: u64,
    is_over: bool,
}

impl SpinUntil {
    fn new(packet: &Dispatch) -> Result<Self, Violation> {
        for value in [packet.source, packet.destination] {
            aligned(value, WORD as u64)?;
            check_range(value, WORD as u64)?;
        }
        if packet.length != WORD as u64 {
            return Err(Violation::new(FaultReason::MISALIGNED, packet.length));
        }
        let Dispatch { source, destination, parameter: least, .. } = *packet;
        Ok(Self { source, destination, least, is_over: false })
    }

    /// See `Operation::step`. If the value is not there yet, the step uses up the rest of the turn.
    pub fn step(&mut self, context: &mut Context<'_>, limit: usize) -> Result<Progress, Violation> {
        if self.is_over {
            return Ok(Progress::Finished);
        }
        let word = context.mmu.load_word(self.source)?;
        if word < self.least {
            return Ok(Progress::Moved(limit));
        }
        context.mmu.store_word(self.destination, word)?;
        self.is_over = true;
        Ok(Progress::Moved(WORD))
    }
}

/// `HANG_UNTIL_ENGINE_RESET` or `HANG_UNTIL_ADAPTER_RESET` in progress.
#[derive(Debug)]
pub struct Hang {
    /// The weakest [`reset`] that ends the kernel.
    ends_with: u64,
}

impl Hang {
    /// See `Operation::step`. Against the rules there, this step ends only with a reset.
    ///
    /// # Errors
    /// `ENGINE_TIMEOUT`, after a reset has ended it.
    #[expect(
        clippy::disallowed_methods,
        reason = "an engine, with `debug.test_kernels` alone: until it is reset"
    )]
    pub fn step(&mut self, context: &Context<'_>) -> Result<Progress, Violation> {
        /// Between two checks for a reset.
        const PAUSE: Duration = Duration::from_millis(1);
        let began = Instant::now();
        let Some(port) = context.chip.engines.get(context.engine as usize) else {
            return Ok(Progress::Finished);
        };
        while !port.is_reset(self.ends_with) {
            thread::sleep(PAUSE);
        }
        let milliseconds = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Err(Violation::new(FaultReason::ENGINE_TIMEOUT, milliseconds))
    }
}
