// SPDX-License-Identifier: MIT OR Apache-2.0

//! A kernel's content, as workers compile it.

use super::source::Source;
use bellhop_host_kmd::hardware::KernelOutcome;
use bellhop_protocol::control::kernel::KernelResult;
use bellhop_worker::owner::{self, Worker, WorkerError};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// The next module's number in workers.
static NUMBERS: AtomicU32 = AtomicU32::new(1);

/// A kernel's content, which several kernels of a guest may share.
#[derive(Debug)]
pub struct Module {
    /// Its number in workers.
    pub number: u32,
    /// Bytes of push constants.
    pub push_constants: u32,
    /// Number of descriptors.
    pub descriptors: u32,
    source: Arc<Source>,
    /// What the compiler said, once it has.
    verdict: OnceLock<Result<(), String>>,
}

impl Module {
    /// A module that was not compiled yet.
    pub fn new(source: Arc<Source>) -> Self {
        Self {
            // Relaxed: only the uniqueness of the number matters.
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            push_constants: source.push_constants,
            descriptors: source.descriptors,
            source,
            verdict: OnceLock::new(),
        }
    }

    /// Whether the compiler took it.
    pub fn is_compiled(&self) -> bool {
        matches!(self.verdict.get(), Some(Ok(())))
    }

    /// What the compiler said, if it has.
    pub fn outcome(&self) -> Option<KernelOutcome> {
        Some(match self.verdict.get()? {
            Ok(()) => KernelOutcome::Compiled,
            Err(why) => KernelOutcome::Failed(KernelResult::REFUSED, why.clone()),
        })
    }

    /// Manager: stores what the compiler said; the first time counts.
    pub fn decide(&self, verdict: Result<(), String>) {
        let _ = self.verdict.set(verdict);
    }

    /// Manager: asks a worker to compile it.
    ///
    /// # Errors
    /// If the worker has ended, or the operating system has no memory or file descriptors.
    pub fn load_into(&self, worker: &mut Worker) -> Result<(), WorkerError> {
        let Source { entry_point, push_constants, descriptors, constants, spirv } = &*self.source;
        // The daemon has the file while it hands it over: a guest's kernels take none of its descriptors.
        let file =
            file(spirv).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        let module = owner::Module {
            spirv: file.as_fd(),
            length: spirv.len() as u64,
            entry_point,
            push_constants: *push_constants,
            descriptors: *descriptors,
            constants,
        };
        worker.load(self.number, &module)
    }
}

/// A file with these bytes that nobody changes.
#[expect(
    clippy::disallowed_methods,
    reason = "the manager of workers: 1 MiB at most, into memory that no worker has yet"
)]
fn file(bytes: &[u8]) -> io::Result<File> {
    let file = memfd_create("spirv", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut file = File::from(file);
    file.write_all(bytes)?;
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    fcntl_add_seals(&file, seals)?;
    Ok(file)
}
