// SPDX-License-Identifier: MIT OR Apache-2.0

//! How far the thread for memory has come: a batch waits for the requests that the owner sent before it.

use std::sync::{Condvar, Mutex, PoisonError};

/// The number of requests for memory that were obeyed, modulo 2^32.
#[derive(Default)]
pub struct Progress {
    state: Mutex<State>,
    advanced: Condvar,
}

#[derive(Default)]
struct State {
    obeyed: u32,
    /// Whether a thread waits.
    waited_for: bool,
}

impl Progress {
    /// Counts a request that was obeyed.
    pub fn advance(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.obeyed = state.obeyed.wrapping_add(1);
        // Otherwise nobody need be woken, which would be a system call.
        if state.waited_for {
            self.advanced.notify_all();
        }
    }

    /// Waits until so many requests were obeyed. Owner and worker count from 0, and differ by less than 2^31.
    pub fn wait(&self, sent: u32) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while sent.wrapping_sub(state.obeyed).cast_signed() > 0 {
            state.waited_for = true;
            state = self.advanced.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waited_for = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_batch_waits_for_what_was_sent_before_it_and_for_nothing_else() {
        let progress = Progress::default();
        progress.wait(0);
        progress.advance();
        progress.wait(0);
        progress.wait(1);
        thread::scope(|threads| {
            let waits = threads.spawn(|| progress.wait(3));
            progress.advance();
            assert!(!waits.is_finished());
            progress.advance();
            waits.join().unwrap();
        });
        // The counters wrap.
        progress.state.lock().unwrap().obeyed = u32::MAX;
        progress.wait(u32::MAX);
        progress.advance();
        progress.wait(0);
    }
}
