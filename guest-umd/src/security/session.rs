// SPDX-License-Identifier: MIT OR Apache-2.0

//! A program's session with the security node.

use super::error::SecurityError;
use super::protected::Protected;
use crate::adapter::Adapter;
use crate::commands::command_buffer::CommandBuffer;
use crate::context::hardware::Context;
use crate::device::Device;
use crate::error::Error;
use crate::memory::allocation::pages;
use crate::memory::mapping::GpuMapping;
use crate::queue::fallback::FallbackQueue;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::control::security::SecurityCaps;
use bellhop_protocol::packet::security::Ranges;
use bellhop_protocol::security::{
    MAX_ASSOCIATED, MAX_SEALED, NONCE_SIZE, SEALED_OVERHEAD, SecurityOutcome, SecurityStatus,
    Statement,
};
use std::time::Duration;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// How long a packet may take: longer than the device lets any.
const PATIENCE: Duration = Duration::from_secs(60);
/// Where the staging memory has the status block, the associated data, and data to read and to write.
const STATUS: usize = 0;
const ABOUT: usize = 64;
const INPUT: usize = 4096;
const ROOM: usize = MAX_SEALED as usize + 4096;
const OUTPUT: usize = INPUT + ROOM;
const SIZE: usize = OUTPUT + ROOM;
const _: () = assert!(ABOUT + MAX_ASSOCIATED as usize <= INPUT && SEALED_OVERHEAD <= 4096);

/// A queue on the security node, with memory to pass data through. One call at a time.
pub struct SecureSession {
    device: Device,
    context: Context,
    queue: FallbackQueue,
    commands: CommandBuffer,
    staging: GpuMapping,
    caps: SecurityCaps,
}

impl SecureSession {
    /// Begins a session on a device of this adapter.
    ///
    /// # Errors
    /// [`SecurityError::NotOffered`] if the adapter has no security node.
    pub fn new(adapter: &Adapter, device: &Device) -> Result<Self, SecurityError> {
        let caps = adapter.security_caps()?;
        if !caps.is_supported() {
            return Err(SecurityError::NotOffered);
        }
        let context = device.create_context(caps.node)?;
        let queue = context.create_fallback_queue(4096)?;
        let commands = CommandBuffer::new(device, 4096)?;
        let staging = device.create_allocation(AllocationKind::SYSTEM, pages(SIZE as u64))?;
        let staging = staging.map(Protection::WRITE)?;
        Ok(Self { device: device.clone(), context, queue, commands, staging, caps })
    }

    /// What the node offers.
    #[must_use]
    pub fn caps(&self) -> &SecurityCaps {
        &self.caps
    }

    /// Protected memory of `size` bytes, which holds zeroes.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no room.
    pub fn protected(&self, size: u64) -> Result<Protected, SecurityError> {
        Protected::new(&self.device, size)
    }

    /// Puts bytes into protected memory.
    ///
    /// # Errors
    /// [`SecurityError::OutOfRange`].
    pub fn put(&mut self, to: &Protected, offset: u64, bytes: &[u8]) -> Result<(), SecurityError> {
        to.at(offset, bytes.len() as u64)?;
        for (index, part) in bytes.chunks(MAX_SEALED as usize).enumerate() {
            let at = to.at(offset + index as u64 * u64::from(MAX_SEALED), part.len() as u64)?;
            let from = self.place(INPUT);
            self.write(INPUT, part)?;
            self.commands.reset();
            self.commands.copy(from, at, part.len() as u64)?;
            self.run()?;
        }
        Ok(())
    }

    /// Copies protected bytes to protected memory.
    ///
    /// # Errors
    /// [`SecurityError::OutOfRange`].
    pub fn copy(
        &mut self,
        (from, first): (&Protected, u64),
        (to, offset): (&Protected, u64),
        length: u64,
    ) -> Result<(), SecurityError> {
        let (from, to) = (from.at(first, length)?, to.at(offset, length)?);
        self.commands.reset();
        self.commands.copy(from, to, length)?;
        self.run()
    }

    /// Seals bytes of the program: at most 1 MiB, with at most 1,024 bytes of associated data.
    ///
    /// # Errors
    /// [`SecurityError::TooLong`].
    pub fn seal(&mut self, bytes: &[u8], associated: &[u8]) -> Result<Vec<u8>, SecurityError> {
        self.check(bytes.len(), self.caps.max_sealed as usize)?;
        self.write(INPUT, bytes)?;
        let source = (self.place(INPUT), bytes.len());
        self.work(source, self.place(OUTPUT), associated, true)?;
        self.read(bytes.len() + SEALED_OVERHEAD)
    }

    /// Seals protected bytes, which open into protected memory only.
    ///
    /// # Errors
    /// [`SecurityError::TooLong`] or [`SecurityError::OutOfRange`].
    pub fn seal_protected(
        &mut self,
        from: &Protected,
        offset: u64,
        length: usize,
        associated: &[u8],
    ) -> Result<Vec<u8>, SecurityError> {
        self.check(length, self.caps.max_sealed as usize)?;
        let source = (from.at(offset, length as u64)?, length);
        self.work(source, self.place(OUTPUT), associated, true)?;
        self.read(length + SEALED_OVERHEAD)
    }

    /// Opens what [`Self::seal`] made with this associated data.
    ///
    /// # Errors
    /// [`SecurityError::NotAuthentic`] or [`SecurityError::NotSealed`]. If it was sealed from protected memory, the queue is
    /// lost: [`Error::QueueLost`], with the fault `PROTECTED_MEMORY`.
    pub fn open(&mut self, sealed: &[u8], associated: &[u8]) -> Result<Vec<u8>, SecurityError> {
        self.check(sealed.len(), self.caps.max_sealed as usize + SEALED_OVERHEAD)?;
        self.write(INPUT, sealed)?;
        let source = (self.place(INPUT), sealed.len());
        let written = self.work(source, self.place(OUTPUT), associated, false)?;
        self.read(written)
    }

    /// Opens what was sealed with this associated data into protected memory. Returns the number of bytes.
    ///
    /// # Errors
    /// As [`Self::open`], and [`SecurityError::OutOfRange`].
    pub fn open_protected(
        &mut self,
        sealed: &[u8],
        associated: &[u8],
        to: &Protected,
        offset: u64,
    ) -> Result<usize, SecurityError> {
        self.check(sealed.len(), self.caps.max_sealed as usize + SEALED_OVERHEAD)?;
        let at = to.at(offset, sealed.len().saturating_sub(SEALED_OVERHEAD) as u64)?;
        self.write(INPUT, sealed)?;
        self.work((self.place(INPUT), sealed.len()), at, associated, false)
    }

    /// A signed statement about the device, over this nonce.
    ///
    /// # Errors
    /// Only the common errors.
    pub fn attest(&mut self, nonce: [u8; NONCE_SIZE]) -> Result<Statement, SecurityError> {
        let (to, status) = (self.place(OUTPUT), self.place(STATUS));
        self.begin()?;
        self.commands.attest(to, status, nonce)?;
        self.run()?;
        self.outcome()?;
        let bytes = self.read(size_of::<Statement>())?;
        Statement::read_from_bytes(&bytes).map_err(|_| SecurityError::BadAnswer(0))
    }

    /// Seals or opens. Returns the number of bytes written.
    fn work(
        &mut self,
        (source, length): (u64, usize),
        destination: u64,
        associated: &[u8],
        seals: bool,
    ) -> Result<usize, SecurityError> {
        self.check(associated.len(), self.caps.max_associated as usize)?;
        self.write(ABOUT, associated)?;
        let ranges = Ranges {
            source,
            length: length as u32,
            destination,
            associated: (self.place(ABOUT), associated.len() as u32),
            status: self.place(STATUS),
        };
        self.begin()?;
        if seals {
            self.commands.seal(ranges)?;
        } else {
            self.commands.open_sealed(ranges)?;
        }
        self.run()?;
        self.outcome()
    }

    fn check(&self, length: usize, most: usize) -> Result<(), SecurityError> {
        if length > most { Err(SecurityError::TooLong { length, most }) } else { Ok(()) }
    }

    /// The GPU virtual address of a place in the staging memory.
    fn place(&self, offset: usize) -> u64 {
        self.staging.gpu_va() + offset as u64
    }

    fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        self.staging.allocation().write(offset, bytes)
    }

    fn read(&self, length: usize) -> Result<Vec<u8>, SecurityError> {
        let mut bytes = vec![0; length.min(ROOM)];
        self.staging.allocation().read(OUTPUT, &mut bytes)?;
        Ok(bytes)
    }

    /// Begins a command buffer, with a status block that says nothing yet.
    fn begin(&mut self) -> Result<(), Error> {
        self.write(STATUS, &[0; size_of::<SecurityStatus>()])?;
        self.commands.reset();
        Ok(())
    }

    /// Runs the command buffer. If that loses the queue, the next call has another.
    fn run(&mut self) -> Result<(), SecurityError> {
        let submitted = self.queue.submit(&mut self.commands);
        let done = submitted.and_then(|value| self.queue.wait(value, PATIENCE));
        if done.is_err()
            && let Ok(queue) = self.context.create_fallback_queue(4096)
        {
            self.queue = queue;
        }
        Ok(done?)
    }

    /// What the status block says: the number of bytes written.
    fn outcome(&self) -> Result<usize, SecurityError> {
        let mut status = SecurityStatus::new_zeroed();
        self.staging.allocation().read(STATUS, status.as_mut_bytes())?;
        match status.outcome {
            SecurityOutcome::DONE => Ok(usize::try_from(status.written).unwrap_or(ROOM).min(ROOM)),
            SecurityOutcome::NOT_AUTHENTIC => Err(SecurityError::NotAuthentic),
            SecurityOutcome::NOT_SEALED => Err(SecurityError::NotSealed),
            SecurityOutcome(unknown) => Err(SecurityError::BadAnswer(unknown)),
        }
    }
}
