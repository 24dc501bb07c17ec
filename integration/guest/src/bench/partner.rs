// SPDX-License-Identifier: MIT OR Apache-2.0

//! A process on another processor that shares only cache lines with this one.

use crate::processors;
use anyhow::Context as _;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::process::{
    Pid, Signal, WaitOptions, kill_process, set_parent_process_death_signal, waitpid,
};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// Words in a cache line.
pub(super) const LINE: usize = 8;

/// Cache lines that processes forked from this one share with it. They begin as zeroes.
pub(super) struct SharedLines {
    start: NonNull<AtomicU64>,
    lines: usize,
}

impl SharedLines {
    pub(super) fn new(lines: usize) -> anyhow::Result<Self> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        let bytes = lines * LINE * size_of::<AtomicU64>();
        // SAFETY: without MAP_FIXED, a new mapping of this length overlaps no other memory.
        #[expect(unsafe_code, reason = "processes share memory by mapping it")]
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags) }
            .context("cannot share memory with another process")?;
        let start = NonNull::new(start.cast()).context("memory at address 0 cannot be used")?;
        Ok(Self { start, lines })
    }

    /// The words, line after line.
    pub(super) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, `lines` lines long and stays until `drop`. It holds
        // zeroes or what was stored to it, and any bits are an `AtomicU64`, which is `Sync`: the other
        // process, too, accesses it by atomic operations only.
        #[expect(unsafe_code, reason = "the mapping is memory like any other")]
        unsafe {
            std::slice::from_raw_parts(self.start.as_ptr(), self.lines * LINE)
        }
    }
}

impl Drop for SharedLines {
    fn drop(&mut self) {
        let bytes = self.lines * LINE * size_of::<AtomicU64>();
        // SAFETY: `new` made this mapping with this length, and all borrows of it have ended.
        #[expect(unsafe_code, reason = "what was mapped is unmapped")]
        let result = unsafe { munmap(self.start.as_ptr().cast(), bytes) };
        debug_assert!(result.is_ok());
    }
}

/// A process that runs beside this one. It is killed when this is dropped.
pub(super) struct Partner(Pid);

impl Partner {
    /// Starts a process that runs `body` on the partner's processor, and ends.
    ///
    /// `body` may load and store shared lines and make system calls. It must not allocate or lock, because
    /// other threads of this process may hold locks, which the new process inherits locked.
    pub(super) fn start(body: impl FnOnce()) -> anyhow::Result<Self> {
        Self::start_on(processors::pair().map(|(_, partner)| partner), body)
    }

    /// As [`Self::start`], on the processor of this thread, which is pinned to one.
    pub(super) fn start_here(body: impl FnOnce()) -> anyhow::Result<Self> {
        Self::start_on(None, body)
    }

    fn start_on(processor: Option<usize>, body: impl FnOnce()) -> anyhow::Result<Self> {
        // SAFETY: the child runs `body`, which by this function's contract is async-signal-safe, makes
        // three system calls, and ends without unwinding or destructors.
        #[expect(unsafe_code, reason = "another process is forked from this one")]
        match unsafe { libc::fork() } {
            0 => {
                // If either fails, only the figures are worse.
                let _ = set_parent_process_death_signal(Some(Signal::KILL));
                if let Some(processor) = processor {
                    let _ = processors::pin(&[processor]);
                }
                body();
                // SAFETY: ends the process, and nothing runs after it.
                unsafe { libc::_exit(0) }
            }
            child => Pid::from_raw(child.max(0))
                .map(Self)
                .ok_or_else(std::io::Error::last_os_error)
                .context("cannot start another process"),
        }
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        // The process was not waited for, so the number still names it.
        let _ = kill_process(self.0, Signal::KILL);
        let _ = waitpid(Some(self.0), WaitOptions::empty());
    }
}
