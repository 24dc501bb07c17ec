// SPDX-License-Identifier: MIT OR Apache-2.0

//! Signals the eventfds that VMMs provide for calls, without ever waiting.
//!
//! A write to an eventfd waits while its counter is full, and a VMM can keep the counter full. `O_NONBLOCK`
//! does not help, since the VMM can clear it, and neither does a check before the write. The kernel itself
//! does not wait: when an asynchronous request completes, the kernel signals an eventfd (`IOCB_FLAG_RESFD`,
//! `eventfd_signal`), and a full counter stays as it is. A call is therefore the completion of a read of no
//! bytes.

use super::event::FrontEndEvent;
use crate::gpu::Nudge;
use arc_swap::ArcSwapOption;
use libc::{c_long, iocb};
use rustix::fs::MemfdFlags;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::Arc;

/// Completed requests that the kernel keeps until they are fetched.
const REMEMBERED: c_long = 1024;
/// Completed requests fetched at once.
const FETCHED: usize = 256;
/// Attempts to find room for a request: other threads may take the room that one attempt frees.
const TRIES: usize = 64;
/// `IOCB_CMD_PREAD` of `linux/aio_abi.h`.
const READ: u16 = 0;
/// `IOCB_FLAG_RESFD` of `linux/aio_abi.h`.
const SIGNALS: u32 = 1;

/// The call of one virtqueue: how the device notifies the driver.
#[derive(Debug)]
pub struct Call {
    calls: Arc<Calls>,
    /// The front end may replace it at any time.
    event: ArcSwapOption<FrontEndEvent>,
}

impl Call {
    /// A call without an eventfd; `calls` signals its eventfd once it has one.
    #[must_use]
    pub fn new(calls: Arc<Calls>) -> Self {
        Self { calls, event: ArcSwapOption::empty() }
    }

    /// Sets the eventfd to signal, or removes it.
    pub fn set(&self, event: Option<FrontEndEvent>) {
        self.event.store(event.map(Arc::new));
    }

    /// Notifies the driver, if it has an eventfd. Takes no lock and never waits.
    pub fn make(&self) {
        if let Some(event) = &*self.event.load()
            && let Err(error) = self.calls.signal(event.as_fd())
        {
            tracing::debug!(%error, "cannot notify the guest");
        }
    }
}

/// The call of the event queue. Its driver examines its fences if a call brings no event.
impl Nudge for Call {
    fn nudge(&self) {
        self.make();
    }
}

/// `struct io_event` of `linux/aio_abi.h`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Done {
    data: u64,
    request: u64,
    results: [i64; 2],
}

/// Makes the calls of all guests.
#[derive(Debug)]
pub struct Calls {
    /// The kernel's name for the context, `aio_context_t`.
    context: c_long,
    /// An empty file: the target of reads of no bytes.
    nothing: OwnedFd,
}

impl Calls {
    /// Sets up the asynchronous requests.
    ///
    /// # Errors
    /// If the kernel has no asynchronous requests, or other processes use all of them (`fs.aio-max-nr`).
    pub fn new() -> io::Result<Self> {
        let nothing = rustix::fs::memfd_create("bellhop-calls", MemfdFlags::CLOEXEC)?;
        let mut context: c_long = 0;
        // SAFETY: The kernel writes one `aio_context_t`, which has the size of a `c_long`, to a local
        // variable of this function.
        #[expect(unsafe_code, reason = "no crate wraps io_setup")]
        let made = unsafe { libc::syscall(libc::SYS_io_setup, REMEMBERED, &raw mut context) };
        if made != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { context, nothing })
    }

    /// Adds one to an eventfd's counter, unless the counter is full. Never waits.
    ///
    /// # Errors
    /// If the descriptor is not an eventfd, or the kernel is out of memory.
    pub fn signal(&self, event: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: All fields are integers, for which 0 is valid.
        #[expect(unsafe_code, reason = "libc has no constructor for it")]
        let mut request: iocb = unsafe { std::mem::zeroed() };
        request.aio_lio_opcode = READ;
        request.aio_fildes = descriptor(self.nothing.as_raw_fd());
        request.aio_flags = SIGNALS;
        request.aio_resfd = descriptor(event.as_raw_fd());
        for _ in 0..TRIES {
            let mut requests = [&raw mut request];
            // SAFETY: `io_setup` made the context, and it is destroyed when `self` is dropped. The kernel
            // reads one pointer and one request during the call only; both outlive the call. The request
            // reads no byte and needs no buffer.
            #[expect(unsafe_code, reason = "no crate wraps io_submit")]
            let taken = unsafe {
                libc::syscall(libc::SYS_io_submit, self.context, 1 as c_long, requests.as_mut_ptr())
            };
            if taken == 1 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            match error.kind() {
                // The kernel has no room: all requests that it keeps are complete.
                io::ErrorKind::WouldBlock => self.forget()?,
                io::ErrorKind::Interrupted => {}
                _ => return Err(error),
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Fetches completed requests, so that the kernel has room for new ones.
    fn forget(&self) -> io::Result<()> {
        let mut done = [Done::default(); FETCHED];
        let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: The context is valid as above. The kernel writes at most as many events as the local array
        // holds, and reads a local time.
        #[expect(unsafe_code, reason = "no crate wraps io_getevents")]
        let fetched = unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.context,
                0 as c_long,
                FETCHED as c_long,
                done.as_mut_ptr(),
                ptr::from_ref(&at_once),
            )
        };
        match fetched {
            0.. => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        // SAFETY: `io_setup` made the context, and this is its last use.
        #[expect(unsafe_code, reason = "no crate wraps io_destroy")]
        unsafe {
            libc::syscall(libc::SYS_io_destroy, self.context);
        }
    }
}

/// A descriptor as the kernel's structures hold it; an open descriptor is not negative.
fn descriptor(number: i32) -> u32 {
    number.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use std::thread;

    /// Takes the counter's value and sets it to 0.
    fn count(event: &OwnedFd) -> u64 {
        let mut count = [0; 8];
        rustix::io::read(event, &mut count).unwrap();
        u64::from_ne_bytes(count)
    }

    #[test]
    fn every_call_is_counted_however_many_there_are() {
        const CALLS: u64 = 10_000;
        let calls = Arc::new(Calls::new().unwrap());
        let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    for _ in 0..CALLS {
                        calls.signal(event.as_fd()).unwrap();
                    }
                });
            }
        });
        assert_eq!(count(&event), 4 * CALLS);
    }

    #[test]
    fn a_full_counter_blocks_no_guest() {
        let calls = Calls::new().unwrap();
        let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        for _ in 0..3 {
            calls.signal(event.as_fd()).unwrap();
        }
        assert!(count(&event) >= u64::MAX - 1);
        calls.signal(event.as_fd()).unwrap();
        assert_eq!(count(&event), 1);
    }

    #[test]
    fn a_descriptor_that_is_not_an_eventfd_is_refused() {
        let calls = Calls::new().unwrap();
        let (_reader, writer) = std::io::pipe().unwrap();
        let error = calls.signal(writer.as_fd()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_nudge_calls_by_the_eventfd_that_was_set_last_and_waits_for_none() {
        let call = Call::new(Arc::new(Calls::new().unwrap()));
        call.nudge();
        let events = [(); 2].map(|()| eventfd(0, EventfdFlags::CLOEXEC).unwrap());
        let set = |event: &OwnedFd| {
            call.set(Some(FrontEndEvent::new(event.try_clone().unwrap().into()).unwrap()));
        };
        set(&events[0]);
        call.nudge();
        assert_eq!(count(&events[0]), 1);
        // The front end keeps the counter full, so that a write would block.
        rustix::io::write(&events[1], &(u64::MAX - 1).to_ne_bytes()).unwrap();
        set(&events[1]);
        (0..3).for_each(|_| call.nudge());
        assert!(count(&events[1]) >= u64::MAX - 1);
        call.set(None);
        call.nudge();
        rustix::io::write(&events[0], &7u64.to_ne_bytes()).unwrap();
        assert_eq!(count(&events[0]), 7);
    }
}
