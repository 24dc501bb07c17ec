// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "descriptors that nothing owns are closed by number")]

//! What a worker gives up before it runs guests' code: files, the network, other processes, new descriptors, new
//! threads, and memory beyond its limit.

mod escape;

use anyhow::Context;
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, RestrictSelfAttr, Ruleset,
    RulesetAttr, Scope,
};
use rustix::fd::BorrowedFd;
use rustix::process::{Resource, Rlimit, setrlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use std::collections::BTreeMap;

pub use escape::try_to_leave;

/// Most descriptors of a worker: its own few, and one that the owner sends.
const DESCRIPTORS: u64 = 64;

/// System calls that compilers and kernels need: memory, waiting, and the existing socket.
const ALLOWED: &[i64] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_pread64,
    libc::SYS_close,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_membarrier,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getrusage,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigaction,
    libc::SYS_sigaltstack,
    libc::SYS_rseq,
    libc::SYS_set_robust_list,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// System calls that the process with the keys needs: its socket, its buffer, and memory of its own.
const ALLOWED_WITH_KEYS: &[i64] = &[
    libc::SYS_write,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_close,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigaction,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

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
pub fn enter(memory: u64) -> anyhow::Result<()> {
    lengthen_files_in_memory(memory)?;
    enter_with(memory, ALLOWED)
}

/// As [`enter`], for the process with the keys, which needs less and has no driver.
///
/// # Errors
/// As [`enter`].
pub fn enter_for_keys(memory: u64) -> anyhow::Result<()> {
    enter_with(memory, ALLOWED_WITH_KEYS)
}

fn enter_with(memory: u64, calls: &[i64]) -> anyhow::Result<()> {
    let limit = |resource, most| {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
            .with_context(|| format!("cannot limit {resource:?}"))
    };
    // When memory is short, Linux ends a worker rather than its owner. Without this it only chooses worse.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    limit(Resource::Core, 0)?;
    limit(Resource::Nofile, DESCRIPTORS)?;
    limit(Resource::Data, memory)?;
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
    let filter = filter(calls).context("cannot make the filter of system calls")?;
    seccompiler::apply_filter_all_threads(&filter).context("cannot give up system calls")
}

fn filter(calls: &[i64]) -> anyhow::Result<BpfProgram> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        calls.iter().map(|call| (*call, Vec::new())).collect();
    // A thread aborts by a signal to itself. Signals to other processes are refused.
    let own = SeccompCondition::new(
        0,
        SeccompCmpArgLen::Dword,
        SeccompCmpOp::Eq,
        u64::from(std::process::id()),
    )?;
    rules.insert(libc::SYS_tgkill, vec![SeccompRule::new(vec![own])?]);
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let target = std::env::consts::ARCH.try_into()?;
    Ok(SeccompFilter::new(rules, refused, SeccompAction::Allow, target)?.try_into()?)
}
