// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which images of a swap chain are free, and what has been shown: what the program's threads and the chain's own have in common.

use ash::vk;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The state of a swap chain.
pub(super) struct Chain {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Images that a program may acquire, in the order in which they became free.
    free: VecDeque<u32>,
    /// Why nothing can be acquired or presented any more.
    failure: Option<vk::Result>,
    /// The last identifier of an image that was shown, or passed over for a newer one.
    shown: u64,
}

impl Chain {
    /// All of so many images are free.
    pub(super) fn new(images: u32) -> Self {
        let state = State { free: (0..images).collect(), failure: None, shown: 0 };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an image, as soon as there is one; waits for so many nanoseconds at most, of which the largest have no end.
    ///
    /// # Errors
    /// `NOT_READY` without a wait, `TIMEOUT` after one, or why there is none.
    pub(super) fn acquire(&self, timeout: u64) -> Result<u32, vk::Result> {
        let mut taken = None;
        let take = |state: &mut State| {
            taken = state.free.pop_front();
            taken.is_some()
        };
        self.wait(timeout, take)?;
        let none = if timeout == 0 { vk::Result::NOT_READY } else { vk::Result::TIMEOUT };
        taken.ok_or(none)
    }

    /// Waits until an image of this identifier, or of a later one, has been shown.
    ///
    /// # Errors
    /// `TIMEOUT`, or why none will be.
    pub(super) fn wait_for(&self, id: u64, timeout: u64) -> Result<(), vk::Result> {
        let mut is_shown = false;
        self.wait(timeout, |state| {
            is_shown = state.shown >= id;
            is_shown
        })?;
        if is_shown { Ok(()) } else { Err(vk::Result::TIMEOUT) }
    }

    /// Waits until this is so, for so many nanoseconds at most.
    fn wait(
        &self,
        timeout: u64,
        mut is_so: impl FnMut(&mut State) -> bool,
    ) -> Result<(), vk::Result> {
        let end = Instant::now().checked_add(Duration::from_nanos(timeout));
        let mut state = self.state();
        loop {
            if let Some(failure) = state.failure {
                return Err(failure);
            }
            if is_so(&mut state) {
                return Ok(());
            }
            state = match end.map(|end| end.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => return Ok(()),
                Some(left) => {
                    let waited = self.changed.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Has what waits for this identifier go on: its image was shown, or passed over for a newer one. Frees the image that nobody shows
    /// any more, if there is one.
    pub(super) fn shown(&self, id: u64, freed: Option<u32>) {
        let mut state = self.state();
        state.shown = state.shown.max(id);
        state.free.extend(freed);
        drop(state);
        // Once for both: it wakes other threads.
        self.changed.notify_all();
    }

    /// Fails all who wait, and all who come. The first reason stays.
    pub(super) fn fail(&self, why: vk::Result) {
        self.state().failure.get_or_insert(why);
        self.changed.notify_all();
    }

    /// Why nothing can be presented any more.
    pub(super) fn failure(&self) -> Option<vk::Result> {
        self.state().failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn images_are_acquired_in_the_order_in_which_they_became_free() {
        let chain = Chain::new(3);
        assert_eq!([0; 3].map(|timeout| chain.acquire(timeout)), [Ok(0), Ok(1), Ok(2)]);
        assert_eq!(chain.acquire(0), Err(vk::Result::NOT_READY));
        assert_eq!(chain.acquire(1), Err(vk::Result::TIMEOUT));
        chain.shown(0, Some(2));
        chain.shown(0, Some(0));
        assert_eq!([0; 2].map(|timeout| chain.acquire(timeout)), [Ok(2), Ok(0)]);
    }

    #[test]
    fn who_waits_for_an_image_gets_the_one_that_becomes_free() {
        let chain = Chain::new(1);
        assert_eq!(chain.acquire(0), Ok(0));
        thread::scope(|threads| {
            let waiting = threads.spawn(|| chain.acquire(u64::MAX));
            chain.shown(0, Some(0));
            assert_eq!(waiting.join().unwrap(), Ok(0));
        });
    }

    #[test]
    fn an_identifier_is_shown_with_any_later_one() {
        let chain = Chain::new(2);
        assert_eq!(chain.wait_for(5, 0), Err(vk::Result::TIMEOUT));
        chain.shown(7, None);
        chain.shown(0, None);
        assert_eq!((chain.wait_for(5, 0), chain.wait_for(7, 0)), (Ok(()), Ok(())));
        assert_eq!(chain.wait_for(8, 1), Err(vk::Result::TIMEOUT));
    }

    #[test]
    fn a_failure_ends_all_waits_and_the_first_one_stays() {
        let chain = Chain::new(0);
        thread::scope(|threads| {
            let image = threads.spawn(|| chain.acquire(u64::MAX));
            let shown = threads.spawn(|| chain.wait_for(1, u64::MAX));
            chain.fail(vk::Result::ERROR_OUT_OF_DATE_KHR);
            chain.fail(vk::Result::ERROR_SURFACE_LOST_KHR);
            let out_of_date = vk::Result::ERROR_OUT_OF_DATE_KHR;
            assert_eq!(image.join().unwrap(), Err(out_of_date));
            assert_eq!(shown.join().unwrap(), Err(out_of_date));
            assert_eq!(chain.failure(), Some(out_of_date));
        });
    }
}
