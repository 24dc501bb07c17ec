// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(
    unsafe_code,
    reason = "a handler of signals is installed, and reads what the kernel gives it"
)]

//! Page faults of kernels: a SIGSEGV handler asks the owner for the memory, and waits.
//!
//! The handler interrupts a kernel's thread at any instruction. It makes system calls, and uses one word for each
//! waiting thread. It allocates nothing, takes no lock, and uses no thread-local variable.

use crate::messages::{Missing, SLOTS, Wild};
use crate::socket::send;
use libc::{c_int, c_void, siginfo_t, ucontext_t};
use rustix::stdio::stdin;
use rustix::thread::futex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The slot has no thread.
const FREE: u32 = 0;
/// The slot's thread waits for an answer.
const WAITING: u32 = 1;
/// The owner has answered: the thread retries its access.
const ANSWERED: u32 = 2;

/// The slots of waiting threads.
///
/// A word publishes no memory: Linux's page tables hold what the owner mapped. A thread that retries too early or in
/// vain faults again and asks again. So relaxed accesses suffice. The futex compares the word under Linux's lock, so no
/// wake-up is lost.
static WAITERS: [AtomicU32; SLOTS] = [const { AtomicU32::new(FREE) }; SLOTS];

/// The window: its first address, and the address after its last.
static WINDOW: OnceLock<(u64, u64)> = OnceLock::new();

/// The bit of a page fault's error code that marks a store.
const STORE: i64 = 1 << 1;

/// Makes all threads that touch missing memory wait for [`answered`]. Must be called once.
///
/// # Errors
/// When Linux refuses the handler.
pub fn watch(start: u64, end: u64) -> std::io::Result<()> {
    let _ = WINDOW.set((start, end));
    // SAFETY: all zeros is a valid value of this structure.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handle as extern "C" fn(c_int, *mut siginfo_t, *mut c_void) as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: the handler only makes system calls and accesses atomics.
    let installed =
        unsafe { libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut()) };
    if installed == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Makes the thread in this slot retry its access. Does nothing if the slot has no waiting thread.
pub fn answered(slot: u32) {
    let Some(word) = WAITERS.get(slot as usize) else { return };
    if word.compare_exchange(WAITING, ANSWERED, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        // Only a bad address fails.
        let _ = futex::wake(word, futex::Flags::PRIVATE, 1);
    }
}

extern "C" fn handle(_signal: c_int, information: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: Linux passes both structures to a handler with SA_SIGINFO, filled in for SIGSEGV.
    let (code, address, error) = unsafe {
        let registers = &(*context.cast::<ucontext_t>()).uc_mcontext.gregs;
        ((*information).si_code, (*information).si_addr(), registers[libc::REG_ERR as usize])
    };
    let (address, store) = (address.addr() as u64, u32::from(error & STORE != 0));
    // A non-canonical address raises a general protection exception without the address: code SI_KERNEL.
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
        // The wait may also return early, so the loop re-checks the word.
        let _ = futex::wait(word, futex::Flags::PRIVATE, WAITING, None);
    }
    word.store(FREE, Ordering::Relaxed);
}

/// Ends the process at once, whatever its other threads do.
pub fn end() -> ! {
    // SAFETY: this system call does not return.
    unsafe { libc::_exit(1) }
}
