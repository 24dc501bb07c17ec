// SPDX-License-Identifier: MIT OR Apache-2.0

//! The system calls that the broker makes once it serves.

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use std::collections::BTreeMap;

/// Messages of programs and of the device, by sockets that are there, or that a pair of is made.
const MESSAGES: &[i64] = &[
    libc::SYS_accept4,
    libc::SYS_close,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_getsockopt,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_read,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Memory of programs, and the broker's own; what a device behind VFIO or UIO takes to reach it.
const MEMORY: &[i64] = &[
    libc::SYS_brk,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_ftruncate,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_madvise,
    libc::SYS_memfd_create,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
];

/// Threads, time, and the end.
const THREADS: &[i64] = &[
    // No process either: see `filters`.
    libc::SYS_clone3,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_geteuid,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_nanosleep,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_unlinkat,
];

/// Those that only this architecture has.
#[cfg(target_arch = "x86_64")]
const OLD: &[i64] = &[libc::SYS_poll, libc::SYS_unlink];
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[i64] = &[];

type Condition = Result<SeccompCondition, seccompiler::BackendError>;

/// An argument of which these bits are as in a number.
fn masked(index: u8, mask: u64, number: i32) -> Condition {
    let number = u64::from(number.cast_unsigned());
    SeccompCondition::new(index, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(mask), number)
}

/// An argument, of which Linux takes 32 bits, that is this number.
fn is(index: u8, number: i32) -> Condition {
    let number = u64::from(number.cast_unsigned());
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, number)
}

/// Calls of which only some uses are allowed.
fn some_uses() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let any_of = |conditions: Vec<Condition>| -> Result<Vec<_>, seccompiler::BackendError> {
        conditions.into_iter().map(|condition| SeccompRule::new(vec![condition?])).collect()
    };
    let no_code = || masked(2, !u64::from((libc::PROT_READ | libc::PROT_WRITE).cast_unsigned()), 0);
    let thread = libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND;
    Ok(BTreeMap::from([
        (libc::SYS_mmap, any_of(vec![no_code()])?),
        (libc::SYS_mprotect, any_of(vec![no_code()])?),
        // A thread, and no process.
        (libc::SYS_clone, any_of(vec![masked(0, thread.cast_unsigned().into(), thread)])?),
        // VFIO's.
        (libc::SYS_ioctl, any_of(vec![masked(1, !0xff, 0x3b00)])?),
        // A name of a thread, or of memory.
        (libc::SYS_prctl, any_of(vec![is(0, libc::PR_SET_NAME), is(0, libc::PR_SET_VMA)])?),
        (libc::SYS_socketpair, any_of(vec![is(0, libc::AF_UNIX)])?),
        // A thread's own table of descriptors, with which it ends.
        (libc::SYS_unshare, any_of(vec![is(0, libc::CLONE_FILES)])?),
        (libc::SYS_tgkill, any_of(vec![is(2, libc::SIGABRT)])?),
    ]))
}

fn filter(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    others: SeccompAction,
    these: SeccompAction,
) -> anyhow::Result<BpfProgram> {
    let target = std::env::consts::ARCH.try_into()?;
    Ok(SeccompFilter::new(rules, others, these, target)?.try_into()?)
}

/// The filters of the broker. The first one says that there is no `clone3`, whose arguments no filter can see; C libraries then
/// use `clone`.
pub(super) fn filters() -> anyhow::Result<[BpfProgram; 2]> {
    let absent = SeccompAction::Errno(libc::ENOSYS as u32);
    let none = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let mut calls = some_uses()?;
    let any = [MESSAGES, MEMORY, THREADS, OLD].concat();
    calls.extend(any.into_iter().map(|call| (call, Vec::new())));
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    Ok([filter(none, SeccompAction::Allow, absent)?, filter(calls, refused, SeccompAction::Allow)?])
}
