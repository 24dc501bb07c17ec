// SPDX-License-Identifier: MIT OR Apache-2.0

//! Waits until a descriptor is readable.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A descriptor that the runtime watches.
pub(super) struct Readable(AsyncFd<OwnedFd>);

impl Readable {
    /// Watches a duplicate of `descriptor`.
    pub(super) fn watch(descriptor: impl AsFd) -> io::Result<Self> {
        let duplicate = descriptor.as_fd().try_clone_to_owned()?;
        // SAFETY: an `OwnedFd` is open and names one description until it is dropped, its `as_raw_fd` always
        // returns that descriptor, and the `AsyncFd` owns it and never hands it out.
        #[expect(unsafe_code, reason = "the one safe way was deprecated; OwnedFd upholds the rest")]
        let registered = unsafe { AsyncFd::register_with_interest(duplicate, Interest::READABLE) };
        registered.map(Self).map_err(|error| error.into_parts().1)
    }

    /// Waits until the descriptor is readable; returns at once while it stays readable.
    pub(super) async fn readable(&self) -> io::Result<()> {
        loop {
            // The runtime reports changes only, and a report may be left over from an earlier wait.
            let mut now = [PollFd::new(self.0.get_ref(), PollFlags::IN)];
            match poll(&mut now, Some(&Timespec::default())) {
                Ok(0) => self.0.readable().await?.clear_ready(),
                Ok(_) => return Ok(()),
                // A signal arrived, for example SIGTERM to end the daemon: poll again.
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::task::{Context, Poll, Waker};
    use std::thread;
    use tokio::runtime::Builder;
    use tokio::signal::unix::{SignalKind, signal};
    use vmm_sys_util::signal::{Killable, SIGRTMIN};

    #[test]
    fn a_signal_does_not_end_the_wait() {
        let (ready, is_ready) = mpsc::channel();
        let done = Arc::new(AtomicBool::new(false));
        let is_done = Arc::clone(&done);
        let waiter = thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                // A handler for a signal that would otherwise end the process.
                let _handler = signal(SignalKind::from_raw(SIGRTMIN())).unwrap();
                let silent = Readable::watch(eventfd(0, EventfdFlags::empty()).unwrap()).unwrap();
                ready.send(()).unwrap();
                // Most of this time goes to the system call that a signal can interrupt.
                let mut context = Context::from_waker(Waker::noop());
                while !is_done.load(Ordering::Relaxed) {
                    if let Poll::Ready(ended) = pin!(silent.readable()).poll(&mut context) {
                        return Some(ended);
                    }
                }
                None
            })
        });
        is_ready.recv().unwrap();
        for _ in 0..100_000 {
            // An error means that the thread has ended; the result below shows why.
            if waiter.kill(SIGRTMIN()).is_err() {
                break;
            }
        }
        done.store(true, Ordering::Relaxed);
        let ended = waiter.join().unwrap();
        assert!(ended.is_none(), "{ended:?}");
    }
}
