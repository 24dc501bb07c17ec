// SPDX-License-Identifier: MIT OR Apache-2.0

//! A thread that touches memory of guests, as the host's kernel sees it.

pub mod standstill;

use rustix::thread::gettid;
use std::sync::atomic::{AtomicI32, Ordering};

/// A thread. Before it has begun, it does not stand.
#[derive(Debug, Default)]
pub struct HostThread(AtomicI32);

impl HostThread {
    /// The thread: it is the calling one.
    pub fn begin(&self) {
        // Relaxed, like the load: the number names the thread, and hands nothing over.
        self.0.store(gettid().as_raw_nonzero().get(), Ordering::Relaxed);
    }

    /// Control plane: whether the thread waits uninterruptibly. An engine makes no system call that does, so it is in a
    /// page fault: in memory that a VMM punches a hole into, or that the host's kernel is reading from swap.
    #[expect(
        clippy::disallowed_methods,
        reason = "the control plane: a file of the kernel in memory"
    )]
    pub fn stands(&self) -> bool {
        let thread = self.0.load(Ordering::Relaxed);
        if thread == 0 {
            return false;
        }
        let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
        // The thread's name is in parentheses, and its state follows.
        stat.is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('D')))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_runs_does_not_stand() {
        let thread = HostThread::default();
        assert!(!thread.stands());
        thread.begin();
        assert!(!thread.stands());
        // A thread that has ended does not either.
        let ended = std::thread::spawn(|| {
            let thread = HostThread::default();
            thread.begin();
            thread
        });
        assert!(!ended.join().unwrap().stands());
    }
}
