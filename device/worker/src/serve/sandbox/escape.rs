// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "what a worker that is taken over would try are system calls")]

//! Tries what a worker that is taken over would.

use super::{close_others, enter};
use rustix::io::Errno;
use std::ffi::{CStr, c_long};
use std::thread;

const PATH: &CStr = c"/etc/passwd";
const PROGRAM: &CStr = c"/bin/true";

/// Enters the sandbox, tries to escape, and returns what the sandbox did not refuse. Another failure is no refusal: only
/// the sandbox counts.
///
/// # Errors
/// When the sandbox cannot be entered.
pub fn try_to_leave(memory: u64) -> anyhow::Result<Vec<&'static str>> {
    close_others();
    // SAFETY: it has no arguments.
    let parent = c_long::from(unsafe { libc::getppid() });
    enter(memory)?;
    let mut left = Vec::new();
    // Each with its number and its arguments; the others are 0.
    let calls: &[(&str, c_long, &[c_long])] = &[
        ("open a file", libc::SYS_openat, &[libc::AT_FDCWD.into(), at(PATH)]),
        ("open a file in another way", libc::SYS_openat2, &[libc::AT_FDCWD.into(), at(PATH)]),
        ("open itself", libc::SYS_openat, &[libc::AT_FDCWD.into(), at(c"/proc/self/mem"), 2]),
        ("look at a file", libc::SYS_newfstatat, &[libc::AT_FDCWD.into(), at(PATH)]),
        ("list files", libc::SYS_getdents64, &[]),
        ("remove a file", libc::SYS_unlinkat, &[libc::AT_FDCWD.into(), at(c"/nowhere")]),
        ("make a folder", libc::SYS_mkdirat, &[libc::AT_FDCWD.into(), at(c"/nowhere/at")]),
        ("mount", libc::SYS_mount, &[]),
        ("change its root", libc::SYS_chroot, &[at(c"/")]),
        ("shorten a file", libc::SYS_ftruncate, &[0]),
        ("make a hole in a file", libc::SYS_fallocate, &[0, 3, 0, 4096]),
        ("control a device", libc::SYS_ioctl, &[]),
        ("open a socket", libc::SYS_socket, &[libc::AF_INET.into(), libc::SOCK_STREAM.into()]),
        (
            "open a local socket",
            libc::SYS_socket,
            &[libc::AF_UNIX.into(), libc::SOCK_STREAM.into()],
        ),
        (
            "make a pair of sockets",
            libc::SYS_socketpair,
            &[libc::AF_UNIX.into(), libc::SOCK_STREAM.into()],
        ),
        ("connect", libc::SYS_connect, &[]),
        ("listen", libc::SYS_listen, &[]),
        ("accept a connection", libc::SYS_accept4, &[]),
        ("send in another way", libc::SYS_sendto, &[]),
        ("trace its parent", libc::SYS_ptrace, &[libc::PTRACE_SEIZE.into(), parent]),
        ("read its parent", libc::SYS_process_vm_readv, &[parent]),
        ("write its parent", libc::SYS_process_vm_writev, &[parent]),
        ("compare with its parent", libc::SYS_kcmp, &[parent, parent]),
        ("signal its parent", libc::SYS_kill, &[parent]),
        ("signal a thread of its parent", libc::SYS_tgkill, &[parent, parent]),
        ("signal another thread", libc::SYS_tkill, &[parent]),
        ("signal its parent with a value", libc::SYS_rt_sigqueueinfo, &[parent]),
        ("signal everybody", libc::SYS_kill, &[-1]),
        ("signal by a descriptor", libc::SYS_pidfd_send_signal, &[0]),
        ("name its parent", libc::SYS_pidfd_open, &[parent]),
        ("take a descriptor", libc::SYS_pidfd_getfd, &[0, 0]),
        ("make a file in memory", libc::SYS_memfd_create, &[at(c"")]),
        ("make an event", libc::SYS_eventfd2, &[]),
        ("make a pipe", libc::SYS_pipe2, &[]),
        ("copy a descriptor", libc::SYS_dup, &[]),
        ("copy a descriptor in another way", libc::SYS_fcntl, &[0, libc::F_DUPFD.into()]),
        ("unseal a file", libc::SYS_fcntl, &[0, libc::F_ADD_SEALS.into()]),
        ("wait for pages of its own", libc::SYS_userfaultfd, &[]),
        ("make system calls by a ring", libc::SYS_io_uring_setup, &[1]),
        ("make system calls aside", libc::SYS_io_setup, &[1]),
        ("load a program into Linux", libc::SYS_bpf, &[]),
        ("watch the processor", libc::SYS_perf_event_open, &[]),
        ("use Linux's keys", libc::SYS_keyctl, &[]),
        ("start a program", libc::SYS_execve, &[at(PROGRAM)]),
        (
            "start a program in another way",
            libc::SYS_execveat,
            &[libc::AT_FDCWD.into(), at(PROGRAM)],
        ),
        ("start a process in another way", libc::SYS_clone3, &[]),
        ("lift its limits", libc::SYS_prlimit64, &[0, c_long::from(libc::RLIMIT_NOFILE)]),
        ("limit its parent", libc::SYS_prlimit64, &[parent, c_long::from(libc::RLIMIT_NOFILE)]),
        ("have more processors", libc::SYS_sched_setaffinity, &[]),
        ("be more important", libc::SYS_setpriority, &[0, 0, -20]),
        ("slow its parent", libc::SYS_setpriority, &[0, parent, 19]),
        ("be another user", libc::SYS_setuid, &[]),
        ("outlive its parent", libc::SYS_prctl, &[libc::PR_SET_PDEATHSIG.into(), 0]),
        ("be in a group of its own", libc::SYS_setsid, &[]),
        ("make a user namespace", libc::SYS_unshare, &[libc::CLONE_NEWUSER.into()]),
        ("enter a namespace", libc::SYS_setns, &[0]),
    ];
    for (what, call, arguments) in calls {
        let argument = |index| arguments.get(index).copied().unwrap_or(0);
        let [a, b, c, d] = [0, 1, 2, 3].map(argument);
        let none: c_long = 0;
        // SAFETY: pointers are to strings or null, and no call stores anything at an address that it is given. A call that
        // succeeds is reported as a way out.
        let result = unsafe { libc::syscall(*call, a, b, c, d, none, none) };
        if !is_refused(result) {
            left.push(*what);
        }
    }
    // SAFETY: the child of a call that succeeds shares nothing with this process, and ends at once.
    let child = unsafe {
        let none: c_long = 0;
        libc::syscall(libc::SYS_clone, c_long::from(libc::SIGCHLD), none, none, none, none)
    };
    if child == 0 {
        // SAFETY: it only ends the child.
        unsafe { libc::_exit(0) };
    }
    if !is_refused(child) {
        left.push("start a process");
    }
    if thread::Builder::new().spawn(|| {}).is_ok() {
        left.push("start a thread");
    }
    Ok(left)
}

/// A string as an argument.
fn at(text: &'static CStr) -> c_long {
    text.as_ptr() as c_long
}

/// Whether the filter refused a call.
fn is_refused(result: c_long) -> bool {
    result == -1
        && std::io::Error::last_os_error().raw_os_error() == Some(Errno::PERM.raw_os_error())
}
