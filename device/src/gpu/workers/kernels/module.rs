// SPDX-License-Identifier: MIT OR Apache-2.0

//! A kernel's content: its SPIR-V and everything else that the compiler takes.

use super::source::Source;
use bellhop_host_kmd::hardware::KernelOutcome;
use bellhop_protocol::control::kernel::KernelResult;
use bellhop_worker::owner;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

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
    spirv: File,
    /// Bytes of the SPIR-V.
    pub length: u32,
    /// The name of its entry point.
    pub entry_point: String,
    constants: Vec<[u32; 2]>,
    /// What the compiler said, once it has.
    verdict: OnceLock<Result<(), String>>,
}

impl Module {
    /// A module that was not compiled yet.
    ///
    /// # Errors
    /// If the operating system has no memory or file descriptors.
    pub fn new(source: &Source) -> io::Result<Self> {
        let file = memfd_create("spirv", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let mut spirv = File::from(file);
        spirv.write_all(&source.spirv)?;
        // Workers of one guest share the file: none changes it.
        let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        fcntl_add_seals(&spirv, seals)?;
        Ok(Self {
            // Relaxed: only the uniqueness of the number matters.
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            push_constants: source.push_constants,
            descriptors: source.descriptors,
            spirv,
            // Bounded by `Source::read`.
            length: source.spirv.len() as u32,
            entry_point: source.entry_point.clone(),
            constants: source.constants.clone(),
            verdict: OnceLock::new(),
        })
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

    /// As a worker takes it.
    pub fn to_load(&self) -> owner::Module<'_> {
        owner::Module {
            spirv: self.spirv.as_fd(),
            length: self.length.into(),
            entry_point: &self.entry_point,
            push_constants: self.push_constants,
            descriptors: self.descriptors,
            constants: &self.constants,
        }
    }
}
