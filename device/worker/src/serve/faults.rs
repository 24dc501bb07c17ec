// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(
    unsafe_code,
    reason = "a handler of signals is installed, and reads what the kernel gives it"
)]

//! Kernels that touch memory which is not mapped: a handler of SIGSEGV asks the owner, and waits.
//!
//! The handler runs in whatever thread a kernel runs in, at any instruction. It makes system calls, and uses one word
//! for each waiting thread. It allocates nothing, takes no lock, and uses no variable of its thread.

use crate::messages::{Missing, SLOTS, Wild};
use crate::socket::send;
use libc::{c_int, c_void, siginfo_t, ucontext_t};
use rustix::stdio::stdin;
use rustix::thread::futex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// No thread has the slot.
const FREE: u32 = 0;
/// A thread waits for an answer.
const WAITING: u32 = 1;
/// The answer is there: the access is tried again.
const ANSWERED: u32 = 2;

/// The waiting threads.
///
/// A word hands over no memory: what the owner mapped, the kernel's page tables hold. A thread that tries its access
/// again too early, or for nothing, faults again and asks again. So relaxed accesses suffice, and the futex, which
/// compares the word under the kernel's lock, loses no wake-up.
static WAITERS: [AtomicU32; SLOTS] = [const { AtomicU32::new(FREE) }; SLOTS];

/// The window: its first address, and that after its last.
static WINDOW: OnceLock<(u64, u64)> = OnceLock::new();

/// In the error code of a page fault, what tells a store.
const STORE: i64 = 1 << 1;

/// Has all threads that touch missing memory wait for [`answered`]. To be called once.
///
/// # Errors
/// When the kernel refuses.
pub fn watch(start: u64, end: u64) -> std::io::Result<()> {
    let _ = WINDOW.set((start, end));
    // SAFETY: all-zero is a value of this structure.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handle as extern "C" fn(c_int, *mut siginfo_t, *mut c_void) as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: the handler makes system calls and relaxed accesses to atomics, and nothing else.
    let installed = unsafe { libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut()) };
    if installed == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Has the thread in this slot try again. A slot without a thread is left alone.
pub fn answered(slot: u32) {
    let Some(word) = WAITERS.get(slot as usize) else { return };
    if word.compare_exchange(WAITING, ANSWERED, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        // Nothing but a bad address fails.
        let _ = futex::wake(word, futex::Flags::PRIVATE, 1);
    }
}

extern "C" fn handle(_signal: c_int, information: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO both structures, of SIGSEGV.
    let (code, address, error) = unsafe {
        let registers = &(*context.cast::<ucontext_t>()).uc_mcontext.gregs;
        ((*information).si_code, (*information).si_addr(), registers[libc::REG_ERR as usize])
    };
    let (address, store) = (address.addr() as u64, u32::from(error & STORE != 0));
    // An address that no page table has raises another exception, which tells no address: code SI_KERNEL.
    let known = u32::from(code > 0 && code != libc::SI_KERNEL);
    let inside = WINDOW.get().is_some_and(|(start, end)| (*start..*end).contains(&address));
    if known == 0 || !inside {
        let _ = send(stdin(), Wild { store, known, address }, None);
        end();
    }
    let claimed = WAITERS.iter().position(|word| {
        word.compare_exchange(FREE, WAITING, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    });
    let Some(slot) = claimed else { end() };
    let word = &WAITERS[slot];
    let missing = Missing { slot: slot as u32, store, address };
    if send(stdin(), missing, None).is_err() {
        end();
    }
    while word.load(Ordering::Relaxed) == WAITING {
        // It also returns for other reasons; the word tells.
        let _ = futex::wait(word, futex::Flags::PRIVATE, WAITING, None);
    }
    word.store(FREE, Ordering::Relaxed);
}

fn end() -> ! {
    // SAFETY: a system call that does not return.
    unsafe { libc::_exit(1) }
}
