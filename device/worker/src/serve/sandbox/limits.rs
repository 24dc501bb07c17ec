// SPDX-License-Identifier: MIT OR Apache-2.0

//! The resource limits of a confined process, which it cannot raise: no system call that changes one is left to it.

use crate::messages::{MAX_SAID, PAGE};
use anyhow::Context;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Most descriptors of a worker: its own few, and one that the owner sends.
const DESCRIPTORS: u64 = 64;
/// Most bytes of the window that are mapped at once. Linux's page tables for them, and the time that it takes to remove
/// them all when the worker ends, are in proportion: at most 16 MiB and two million pages for these.
pub const REACH: u64 = 8 << 30;
/// The longest file that is written. A worker that says more than its file for that can have is refused by the file's seal,
/// which is an error; this limit would be a signal.
pub const FILE: u64 = 2 * MAX_SAID;
/// Addresses beyond those in use when the sandbox is entered, for what allocators reserve for each thread and do not use.
const HEAPS: u64 = 4 << 30;
/// Most bytes of the main thread's stack; other threads' do not grow.
const STACK: u64 = 8 << 20;

/// What a confined process may have.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most bytes of its own memory; a driver may have as many in files.
    pub memory: u64,
    /// Most bytes of others' memory that are mapped at once.
    pub reach: u64,
    /// The longest file that it may write. It lengthens none beyond.
    pub file: u64,
}

/// Bytes of this process's mappings: the first number of `/proc/self/statm`, in pages; proc_pid_statm(5).
fn addresses_in_use() -> anyhow::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = text.split(' ').next().unwrap_or_default().parse()?;
    Ok(pages.saturating_mul(PAGE))
}

impl Limits {
    /// The limits of a worker with a window.
    pub fn with_window(memory: u64) -> Self {
        Self { memory, reach: REACH, file: FILE }
    }

    /// Limits this process.
    pub(super) fn apply(&self) -> anyhow::Result<()> {
        let in_use = addresses_in_use().context("cannot find out how many addresses are in use")?;
        let own = self.memory.saturating_mul(2).saturating_add(HEAPS);
        let addresses = own.saturating_add(self.reach).saturating_add(in_use);
        for (resource, most) in [
            // A limit of 0 does not count where another program takes the core dump (core(5)), and Linux writes none for
            // this one.
            (Resource::Core, 1),
            (Resource::Nofile, DESCRIPTORS),
            (Resource::Data, self.memory),
            // Neither memory that may only be read nor page tables count as data.
            (Resource::As, addresses),
            (Resource::Fsize, self.file),
            (Resource::Stack, STACK),
            (Resource::Memlock, 0),
        ] {
            // Whoever started this process may have given it less, and only a privileged one raises that.
            let most = getrlimit(resource).maximum.map_or(most, |already| already.min(most));
            setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
                .with_context(|| format!("cannot limit {resource:?}"))?;
        }
        Ok(())
    }
}
