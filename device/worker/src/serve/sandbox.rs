// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "descriptors that nothing owns are closed by number")]

//! What a worker gives up before it runs guests' code: files, the network, other processes, new descriptors, new
//! threads, and memory beyond its limit.

mod calls;
mod devices;
mod escape;
mod files;
mod limits;

use anyhow::Context;

pub use escape::try_to_leave;
pub use limits::{FILE, Limits, REACH};

/// A process that gives everything up but what it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Confined {
    /// A worker that compiles and runs guests' kernels on processors: it makes code.
    Kernels,
    /// A worker that compiles and runs guests' kernels on a real GPU: it has the GPU's driver do so, through its devices.
    Gpu,
    /// A worker with a video session.
    Video,
    /// The process with the keys, which has no guest's memory.
    Keys,
}

/// Closes all descriptors but the standard ones. Must be called before the program opens any other.
pub fn close_others() {
    // SAFETY: no value of this program owns one of these descriptors yet.
    unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, 0_u32) };
}

/// Gives everything up, for all threads. Landlock is optional where the seccomp filter refuses files and sockets in any case:
/// older versions of Linux lack it, or cannot apply it to existing threads. The driver of a real GPU opens its devices again and
/// again, and only Landlock tells them from other files.
///
/// # Errors
/// When Linux refuses. Missing Landlock is an error for a real GPU, and no other.
pub fn enter(confined: Confined, limits: &Limits) -> anyhow::Result<()> {
    let devices = match confined {
        Confined::Gpu => Some(devices::in_use()?),
        Confined::Kernels => {
            files::lengthen_those_in_memory(limits.memory)?;
            None
        }
        Confined::Video | Confined::Keys => None,
    };
    // When memory is short, Linux ends a worker rather than its owner, and of several the one that takes most, page tables
    // included. Without this it only chooses worse.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    limits.apply()?;
    files::give_up(devices.as_deref())?;
    let filter = calls::filter(confined).context("cannot make the filter of system calls")?;
    seccompiler::apply_filter_all_threads(&filter).context("cannot give up system calls")
}
