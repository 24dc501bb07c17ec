// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "what a worker that is taken over would try are system calls")]

//! Tries what a worker that is taken over would.

use super::{Confined, FILE, Limits, REACH, close_others, enter};
use crate::messages::PAGE;
use anyhow::ensure;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{CWD, MemfdFlags, Mode, OFlags, SeekFrom, ftruncate, memfd_create, openat, seek};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};
use rustix::stdio::dup2_stdout;
use std::ffi::{CStr, c_int, c_long};
use std::ptr::null_mut;
use std::thread;

const PATH: &CStr = c"/etc/passwd";
const DEVICE: &CStr = c"/dev/zero";
const OTHER_DEVICE: &CStr = c"/dev/null";
const PROGRAM: &CStr = c"/bin/true";
/// Bytes of the file in memory that stands for a guest's.
const GUESTS: u64 = 16 << 20;
/// Bytes of own memory that the process here may have.
const MEMORY: u64 = 1 << 30;
const TEBIBYTE: u64 = 1 << 40;

/// A way out: what it is, its system call, and the arguments; the others are 0.
type Way<'a> = (&'static str, c_long, &'a [c_long]);

/// Enters the sandbox of such a process, tries to escape, and returns what the sandbox did not refuse. Where a system call
/// is to be refused, another failure is no refusal: only the sandbox counts.
///
/// # Errors
/// When the sandbox cannot be entered.
pub fn try_to_leave(confined: Confined) -> anyhow::Result<Vec<&'static str>> {
    close_others();
    // As if the owner had sent it. It is standard output as well, since that may be written; nothing else writes there.
    let file = memfd_create("guest", MemfdFlags::CLOEXEC)?;
    ftruncate(&file, GUESTS)?;
    seek(&file, SeekFrom::Start(FILE))?;
    dup2_stdout(&file)?;
    let (access, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
    // SAFETY: a new mapping where nothing is, which only the system calls below name.
    let mapped = unsafe { mmap(null_mut(), GUESTS as usize, access, shared, &file, 0) }?;
    // SAFETY: it has no arguments.
    let parent = c_long::from(unsafe { libc::getppid() });
    let reach = if confined == Confined::Keys { 0 } else { REACH };
    // As if it were a GPU.
    let _device = openat(CWD, DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    enter(confined, &Limits { memory: MEMORY, reach, file: FILE })?;
    if confined == Confined::Gpu {
        let flags = (libc::O_RDWR | libc::O_CLOEXEC).into();
        let again = ("", libc::SYS_openat, &[libc::AT_FDCWD.into(), at(DEVICE), flags][..]);
        ensure!(is_open(&again), "the sandbox refuses a device that the driver has");
    }
    let mut left = past_the_filter(confined, &file, mapped.addr() as c_long, parent);
    left.extend(past_the_limits(confined, &file));
    Ok(left)
}

/// Tries what the filter refuses.
fn past_the_filter(
    confined: Confined,
    file: &OwnedFd,
    mapped: c_long,
    parent: c_long,
) -> Vec<&'static str> {
    let fd = c_long::from(file.as_raw_fd());
    let (page, own) = (PAGE as c_long, c_long::from(std::process::id()));
    // SAFETY: it has no arguments.
    let thread = c_long::from(unsafe { libc::gettid() });
    let calls: &[Way<'_>] = &[
        ("open a file", libc::SYS_openat, &[libc::AT_FDCWD.into(), at(PATH)]),
        ("open a file in another way", libc::SYS_openat2, &[libc::AT_FDCWD.into(), at(PATH)]),
        ("open itself", libc::SYS_openat, &[libc::AT_FDCWD.into(), at(c"/proc/self/mem"), 2]),
        ("open a device", libc::SYS_openat, &[libc::AT_FDCWD.into(), at(OTHER_DEVICE), 2]),
        ("make a file", libc::SYS_openat, &[libc::AT_FDCWD.into(), at(c"/nowhere"), 0o102, 0o600]),
        ("look at a file", libc::SYS_newfstatat, &[libc::AT_FDCWD.into(), at(PATH)]),
        ("list files", libc::SYS_getdents64, &[]),
        ("remove a file", libc::SYS_unlinkat, &[libc::AT_FDCWD.into(), at(c"/nowhere")]),
        ("make a folder", libc::SYS_mkdirat, &[libc::AT_FDCWD.into(), at(c"/nowhere/at")]),
        ("mount", libc::SYS_mount, &[]),
        ("change its root", libc::SYS_chroot, &[at(c"/")]),
        ("shorten a file", libc::SYS_ftruncate, &[0]),
        ("make a hole in a file", libc::SYS_fallocate, &[0, 3, 0, 4096]),
        ("control a device", libc::SYS_ioctl, &[]),
        ("type into a terminal", libc::SYS_ioctl, &[0, libc::TIOCSTI as c_long, mapped]),
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
        ("go on when it is stopped", libc::SYS_tgkill, &[own, thread, libc::SIGCONT.into()]),
        ("send itself any signal", libc::SYS_tgkill, &[own, thread, libc::SIGURG.into()]),
        ("be sent a signal by a timer", libc::SYS_timer_create, &[]),
        ("be sent a signal by an alarm", libc::SYS_setitimer, &[]),
        ("be sent a signal by a file", libc::SYS_fcntl, &[fd, 10, libc::SIGCONT.into()]),
        ("make a hole in a file that it maps", libc::SYS_madvise, &[mapped, page, 9]),
        ("read much in one call", libc::SYS_madvise, &[mapped, page, 22]),
        ("write much in one call", libc::SYS_madvise, &[mapped, page, 23]),
        ("read ahead", libc::SYS_madvise, &[mapped, page, 3]),
        ("swap much in one call", libc::SYS_madvise, &[mapped, page, 21]),
        ("collapse pages", libc::SYS_madvise, &[mapped, page, 25]),
        ("give advice to others", libc::SYS_process_madvise, &[0]),
        ("map a mapping twice", libc::SYS_mremap, &[mapped, 0, page, libc::MREMAP_MAYMOVE.into()]),
        ("lengthen a mapping", libc::SYS_mremap, &[mapped, page, 2 * page, 1]),
        ("map a file's pages in any order", libc::SYS_remap_file_pages, &[mapped, page, 0, 1]),
        ("lock memory", libc::SYS_mlock, &[mapped, page]),
        ("lock all memory", libc::SYS_mlockall, &[libc::MCL_FUTURE.into()]),
        ("share memory by a number", libc::SYS_shmget, &[libc::IPC_PRIVATE.into(), page, 0o600]),
        ("make a queue of messages", libc::SYS_msgget, &[libc::IPC_PRIVATE.into(), 0o600]),
        ("have secret memory", libc::SYS_memfd_secret, &[]),
        ("have segments", libc::SYS_modify_ldt, &[]),
        ("have a key of protection", libc::SYS_pkey_alloc, &[]),
        ("choose its memory's node", libc::SYS_mbind, &[]),
        ("write a file", libc::SYS_write, &[fd]),
        ("write a file at a place", libc::SYS_pwritev2, &[fd]),
        ("lengthen a file", libc::SYS_fallocate, &[fd, 0, 0, 2 * GUESTS as c_long]),
        ("copy between files", libc::SYS_copy_file_range, &[fd, 0, fd]),
        ("send a file", libc::SYS_sendfile, &[fd, fd]),
        ("move pages into a pipe", libc::SYS_splice, &[fd, 0, fd]),
        ("watch files", libc::SYS_inotify_init1, &[]),
        ("have a descriptor for signals", libc::SYS_signalfd4, &[-1]),
        ("have a descriptor for time", libc::SYS_timerfd_create, &[]),
        ("have a descriptor to wait", libc::SYS_epoll_create1, &[]),
        ("interrupt all processors", libc::SYS_membarrier, &[2]),
        ("run before others", libc::SYS_sched_setscheduler, &[0, libc::SCHED_FIFO.into()]),
        ("run before others in another way", libc::SYS_sched_setattr, &[]),
        ("read before others", libc::SYS_ioprio_set, &[1, 0, 0x2000]),
        ("be another kind of process", libc::SYS_personality, &[]),
        ("lend its priority", libc::SYS_futex, &[mapped, libc::FUTEX_LOCK_PI.into()]),
        ("move who waits", libc::SYS_futex, &[mapped, libc::FUTEX_CMP_REQUEUE_PI.into()]),
        ("protect a stack that grows", libc::SYS_mprotect, &[mapped, page, 0x0100_0003]),
    ];
    let mut left: Vec<_> = calls.iter().filter(|way| is_open(way)).map(|way| way.0).collect();
    let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let data = libc::PROT_READ | libc::PROT_WRITE;
    for (what, protection, flags, fd) in [
        ("share memory that nothing counts", data, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1),
        ("have a stack that nothing counts", data, private | libc::MAP_GROWSDOWN, -1),
        ("take the host's huge pages", data, private | libc::MAP_HUGETLB, -1),
        ("lock memory as it maps it", data, private | libc::MAP_LOCKED, -1),
        ("fill memory as it maps it", data, private | libc::MAP_POPULATE, -1),
        ("fill a file as it maps it", data, libc::MAP_SHARED | libc::MAP_POPULATE, fd as c_int),
        ("map a file in another way", data, libc::MAP_SHARED_VALIDATE, fd as c_int),
        ("copy a file as it stores", data, libc::MAP_PRIVATE, fd as c_int),
        ("replace its own memory", data, private | libc::MAP_FIXED, -1),
        ("run a file", libc::PROT_EXEC, libc::MAP_SHARED, fd as c_int),
        ("map with an unknown flag", data, private | 1 << 30, -1),
    ] {
        let at = if flags & libc::MAP_FIXED == 0 { 0 } else { mapped };
        let numbers = [protection, flags, fd].map(c_long::from);
        let arguments = [at, page, numbers[0], numbers[1], numbers[2]];
        if is_open(&(what, libc::SYS_mmap, &arguments)) {
            left.push(what);
        }
    }
    if matches!(confined, Confined::Video | Confined::Keys) {
        let code = c_long::from(libc::PROT_READ | libc::PROT_EXEC);
        let make = [0, page, code, private.into(), -1];
        for way in [
            ("have memory for code", libc::SYS_mmap, &make[..]),
            ("make code", libc::SYS_mprotect, &[mapped, page, code]),
        ] {
            if is_open(&way) {
                left.push(way.0);
            }
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
    left
}

/// Tries what is allowed, beyond what the limits allow.
fn past_the_limits(confined: Confined, file: &OwnedFd) -> Vec<&'static str> {
    let mut left = Vec::new();
    let map = |length: u64, protection, flags| {
        // SAFETY: a new mapping where nothing is, and nothing refers to it.
        unsafe { mmap_anonymous(null_mut(), length as usize, protection, flags) }
    };
    let data = ProtFlags::READ | ProtFlags::WRITE;
    let no_reserve = MapFlags::PRIVATE | MapFlags::NORESERVE;
    for (what, length, protection, flags) in [
        ("have more memory", MEMORY, data, MapFlags::PRIVATE),
        ("have more memory that is not reserved", MEMORY, data, no_reserve),
        ("have page tables for a tebibyte", TEBIBYTE, ProtFlags::READ, no_reserve),
        ("reserve a tebibyte", TEBIBYTE, ProtFlags::empty(), no_reserve),
    ] {
        if map(length, protection, flags).is_ok() {
            left.push(what);
        }
    }
    // SAFETY: more of the heap, which nothing uses; Linux returns the old end if it refuses.
    let moved = unsafe {
        let end = libc::syscall(libc::SYS_brk, 0_i64);
        libc::syscall(libc::SYS_brk, end + MEMORY as c_long) > end
    };
    if moved {
        left.push("have a longer heap");
    }
    if confined != Confined::Keys {
        // What may only be read counts as no data until it may be stored to.
        if let Ok(read) = map(MEMORY, ProtFlags::READ, no_reserve) {
            let arguments = [read.addr() as c_long, MEMORY as c_long, data.bits().into()];
            // SAFETY: the mapping is the one of the line above.
            let result = unsafe {
                libc::syscall(libc::SYS_mprotect, arguments[0], arguments[1], arguments[2])
            };
            if result == 0 {
                left.push("store to more memory");
            }
        }
        // SAFETY: new mappings where nothing is, and nothing refers to them.
        let twice = |_: &u64| unsafe {
            mmap(null_mut(), GUESTS as usize, ProtFlags::READ, MapFlags::SHARED, file, 0).is_ok()
        };
        // As often as would make a tebibyte, if so many mappings were allowed.
        let times = (0..TEBIBYTE / GUESTS).take_while(twice).count() as u64;
        if times * GUESTS > 4 * REACH {
            left.push("map one file for ever");
        }
    }
    // SAFETY: a signal is ignored from now on, so that the calls below fail instead.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    if rustix::io::write(rustix::stdio::stdout(), &[0]).is_ok() {
        left.push("write beyond what it may say");
    }
    if rustix::io::pwrite(file.as_fd(), &[0], GUESTS).is_ok() {
        left.push("lengthen a file at its end");
    }
    left
}

/// Whether a system call is not refused.
fn is_open((_, call, arguments): &Way<'_>) -> bool {
    let argument = |index| arguments.get(index).copied().unwrap_or(0);
    let [a, b, c, d, e, f] = [0, 1, 2, 3, 4, 5].map(argument);
    // SAFETY: pointers are to strings, to the mapping of the file that stands for a guest's, or null; what is stored at one
    // is stored in that mapping. A call that succeeds is reported as a way out.
    let result = unsafe { libc::syscall(*call, a, b, c, d, e, f) };
    !is_refused(result)
}

/// A string as an argument.
fn at(text: &'static CStr) -> c_long {
    text.as_ptr() as c_long
}

/// Whether the sandbox refused a call: the filter, or Landlock.
fn is_refused(result: c_long) -> bool {
    let error = std::io::Error::last_os_error().raw_os_error();
    let refused = [Errno::PERM, Errno::ACCESS].map(|error| Some(error.raw_os_error()));
    result == -1 && refused.contains(&error)
}
