// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "descriptors that nothing owns are closed by number")]

//! What a worker gives up before it runs guests' code: files, the network, other processes, new descriptors, new
//! threads, and memory beyond its limit.

mod calls;
mod escape;
mod limits;

use crate::messages::Role;
use anyhow::Context;
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, RestrictSelfAttr, Ruleset,
    RulesetAttr, Scope,
};
use rustix::fd::BorrowedFd;

pub use escape::try_to_leave;
pub use limits::{FILE, Limits, REACH};

/// A process that gives everything up but what it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Confined {
    /// A worker that compiles and runs guests' kernels: it makes code.
    Kernels,
    /// A worker with a video session.
    Video,
    /// The process with the keys, which has no guest's memory.
    Keys,
}

impl From<Role> for Confined {
    fn from(role: Role) -> Self {
        match role {
            Role::Kernels => Self::Kernels,
            Role::Video => Self::Video,
        }
    }
}

/// Closes all descriptors but the standard ones. Must be called before the program opens any other.
pub fn close_others() {
    // SAFETY: no value of this program owns one of these descriptors yet.
    unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, 0_u32) };
}

/// Gives the driver's own files in memory as many bytes, together, as the worker may have. Lavapipe keeps what it
/// allocates in such a file for each instance, and lengthens it on demand, which the filter refuses: a worker could
/// shorten a guest's memory by that. An unused byte costs nothing.
fn lengthen_files_in_memory(bytes: u64) -> anyhow::Result<()> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd").context("cannot list descriptors")? {
        let path = entry.context("cannot list descriptors")?.path();
        let number = path.file_name().and_then(|name| name.to_str()?.parse().ok());
        let Some(number) = number.filter(|number| *number > libc::STDERR_FILENO) else { continue };
        // The list itself is closed by now, or a folder.
        let Ok(name) = std::fs::read_link(&path) else { continue };
        if name.to_string_lossy().starts_with("/memfd:") {
            numbers.push(number);
        }
    }
    let each = bytes / (numbers.len() as u64).max(1);
    for number in numbers {
        // SAFETY: the driver's descriptor stays open: nothing else runs while the worker enters its sandbox.
        let file = unsafe { BorrowedFd::borrow_raw(number) };
        let length = rustix::fs::fstat(file).context("cannot look at a file in memory")?.st_size;
        if length.cast_unsigned() < each {
            rustix::fs::ftruncate(file, each).context("cannot lengthen a file in memory")?;
        }
    }
    Ok(())
}

/// Gives everything up, for all threads. Landlock is optional: older versions of Linux lack it, or cannot apply it to
/// existing threads. The seccomp filter refuses files and sockets in any case.
///
/// # Errors
/// When Linux refuses. Missing Landlock is no error.
pub fn enter(confined: Confined, limits: &Limits) -> anyhow::Result<()> {
    if confined == Confined::Kernels {
        lengthen_files_in_memory(limits.memory)?;
    }
    // When memory is short, Linux ends a worker rather than its owner, and of several the one that takes most, page tables
    // included. Without this it only chooses worse.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    limits.apply()?;
    let abi = ABI::V6;
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(abi)))
        .and_then(|rules| rules.scope(Scope::from_all(abi)))
        .and_then(|rules| rules.create())
        .and_then(|rules| rules.all_threads(true))
        .and_then(|rules| rules.restrict_self())
        .context("cannot give up files")?;
    let filter = calls::filter(confined).context("cannot make the filter of system calls")?;
    seccompiler::apply_filter_all_threads(&filter).context("cannot give up system calls")
}
