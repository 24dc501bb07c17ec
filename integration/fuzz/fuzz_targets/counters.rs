// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(
    unsafe_code,
    reason = "libFuzzer is called, pages are protected, and a handler of signals is installed"
)]

//! Shows libFuzzer the counters that some input has changed, and no others.
//!
//! libFuzzer clears all counters that it knows before each input, and looks at all of them after it. The program of all
//! targets has some hundred thousand, of which a target reaches a part; and libFuzzer tells only two million features
//! apart, eight of each counter. So it is told of a page of counters when code first counts on that page: until then the
//! page is read-only, and a write to it is a fault, once in the life of the program.

use libc::{c_int, c_void, siginfo_t};
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Bytes of a page, and counters on it.
const PAGE: usize = 4096;
/// Bytes of what the compiler says of a counter.
const DESCRIPTION: usize = 16;
/// The most pages.
const MOST: usize = 1024;

/// The addresses of the program's counters, and of the first one's description.
static COUNTERS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
static DESCRIPTIONS: AtomicUsize = AtomicUsize::new(0);
/// Pages that were changed and that libFuzzer does not know, and whether there are any.
static CHANGED: [AtomicBool; MOST] = [const { AtomicBool::new(false) }; MOST];
static IS_ANY_CHANGED: AtomicBool = AtomicBool::new(false);
/// What faults elsewhere went to before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

// libFuzzer's, which the linker gives these names (`build.rs`).
unsafe extern "C" {
    fn __real___sanitizer_cov_8bit_counters_init(start: usize, end: usize);
    fn __real___sanitizer_cov_pcs_init(start: usize, end: usize);
}

/// What instrumented code calls in libFuzzer's place before anything runs: all of it names the same counters.
#[unsafe(no_mangle)]
extern "C" fn __wrap___sanitizer_cov_8bit_counters_init(start: usize, end: usize) {
    COUNTERS[0].store(start, Ordering::Relaxed);
    COUNTERS[1].store(end, Ordering::Relaxed);
}

/// The same with their descriptions.
#[unsafe(no_mangle)]
extern "C" fn __wrap___sanitizer_cov_pcs_init(start: usize, _end: usize) {
    DESCRIPTIONS.store(start, Ordering::Relaxed);
}

/// Shows libFuzzer the counters that lie on pages with something else, and has all others wait for their first change.
/// Where several processes tell each other of features, or libFuzzer says what was reached of each function, it must know
/// all counters from the start.
pub fn begin() {
    let [start, end] = COUNTERS.each_ref().map(|at| at.load(Ordering::Relaxed));
    let whole = pages();
    let flags = ["merge", "coverage"];
    let is_any = |argument: String| flags.iter().any(|flag| argument.contains(flag));
    if std::env::args().any(is_any) || whole.is_empty() || whole.len() / PAGE > MOST {
        tell(start..end);
        return;
    }
    tell(start..whole.start);
    tell(whole.end..end);
    // SAFETY: all zeros is a valid value of these structures.
    let (mut action, mut before): (libc::sigaction, libc::sigaction) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    action.sa_sigaction = handle as extern "C" fn(c_int, *mut siginfo_t, *mut c_void) as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the handler only makes a system call and accesses atomics. This file is not instrumented, so it changes no
    // counter itself.
    let installed = unsafe { libc::sigaction(libc::SIGSEGV, &action, &mut before) };
    assert_eq!(installed, 0, "no handler of faults");
    assert!(BEFORE.set(before).is_ok(), "it begins once");
    protect(whole, libc::PROT_READ);
}

/// Shows libFuzzer the pages that code has changed since the last time.
pub fn show() {
    if !IS_ANY_CHANGED.swap(false, Ordering::Acquire) {
        return;
    }
    for (first, changed) in pages().step_by(PAGE).zip(&CHANGED) {
        if changed.swap(false, Ordering::Acquire) {
            tell(first..first + PAGE);
        }
    }
}

/// The addresses of the pages that hold nothing but counters.
fn pages() -> Range<usize> {
    let [start, end] = COUNTERS.each_ref().map(|at| at.load(Ordering::Relaxed));
    start.next_multiple_of(PAGE)..end / PAGE * PAGE
}

/// Tells libFuzzer of counters.
fn tell(counters: Range<usize>) {
    if counters.is_empty() {
        return;
    }
    let first = COUNTERS[0].load(Ordering::Relaxed);
    let of = |counter| DESCRIPTIONS.load(Ordering::Relaxed) + (counter - first) * DESCRIPTION;
    // SAFETY: these are counters of the program, which exist as long as it runs, and what describes them.
    unsafe {
        __real___sanitizer_cov_8bit_counters_init(counters.start, counters.end);
        __real___sanitizer_cov_pcs_init(of(counters.start), of(counters.end));
    }
}

fn protect(pages: Range<usize>, how: c_int) {
    let start = std::ptr::with_exposed_provenance_mut(pages.start);
    // SAFETY: on these pages are counters and nothing else.
    unsafe { libc::mprotect(start, pages.len(), how) };
}

/// A fault: the first change on a page, or one that was none of ours.
extern "C" fn handle(signal: c_int, information: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: Linux passes the structure to a handler with SA_SIGINFO, filled in for SIGSEGV.
    let address = unsafe { (*information).si_addr() }.addr();
    let pages = pages();
    if pages.contains(&address) {
        let number = (address - pages.start) / PAGE;
        let first = pages.start + number * PAGE;
        protect(first..first + PAGE, libc::PROT_READ | libc::PROT_WRITE);
        CHANGED[number].store(true, Ordering::Release);
        IS_ANY_CHANGED.store(true, Ordering::Release);
    } else if let Some(before) = BEFORE.get() {
        type Handler = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);
        if before.sa_flags & libc::SA_SIGINFO != 0 {
            // SAFETY: it was the handler of such faults, and takes these arguments.
            let handler = unsafe { std::mem::transmute::<usize, Handler>(before.sa_sigaction) };
            handler(signal, information, context);
        } else {
            // It had none: the access faults again, and ends the program.
            // SAFETY: what is set was in use before.
            unsafe { libc::sigaction(signal, before, std::ptr::null_mut()) };
        }
    }
}
