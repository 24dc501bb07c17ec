// SPDX-License-Identifier: MIT OR Apache-2.0

//! Queries that are being counted. What was counted in a rendering is there when that has ended, and so is then said to be.

use super::super::drawn::{Available, Counting};
use super::super::recording::Recording;
use crate::query::{AVAILABLE, Counted};

impl Recording {
    /// Begins a query whose value goes to `destination`.
    pub(in super::super) fn begin_query(&mut self, counted: Counted, flags: u32, destination: u64) {
        let is_inside = self.scene().views().is_some();
        if !is_inside {
            // It is in the chunk in which it ends.
            self.hold();
        }
        let query = Counting { counted, flags, destination, is_inside };
        self.begin_counting(&query);
        self.drawing().counting.push(query);
    }

    /// Ends a query. `available` is where it is said to have a value.
    pub(in super::super) fn end_query(&mut self, destination: u64, available: u64) {
        let views = self.scene().views();
        let counting = &mut self.drawing().counting;
        let Some(at) = counting.iter().position(|query| query.destination == destination) else {
            return;
        };
        let query = counting.swap_remove(at);
        self.end_counting(&query);
        if views.is_none() {
            self.let_go();
        }
        self.say_available(available, views);
    }

    /// Says that there are values of a query and as many as there are `views`: now, or, in a rendering, when it has ended.
    pub(in super::super) fn say_available(&mut self, address: u64, views: Option<u32>) {
        match views {
            Some(count) => self.drawing().later.push(Available { address, count }),
            None => {
                self.barrier();
                self.fill_available(Available { address, count: 1 });
            }
        }
    }

    /// Says what was to be said when the rendering has ended.
    pub(super) fn tell_later(&mut self) {
        let later = std::mem::take(&mut self.drawing().later);
        if !later.is_empty() {
            self.barrier();
        }
        for available in later {
            self.fill_available(available);
        }
    }

    fn fill_available(&mut self, available: Available) {
        for query in 0..u64::from(available.count) {
            self.fill(available.address + query * AVAILABLE, 4, 1);
        }
    }

    /// How many queries a time is written into, if the recording is in a rendering.
    pub(in super::super) fn views(&mut self) -> Option<u32> {
        // Most recordings draw nothing.
        self.drawing.as_ref().and_then(|drawing| drawing.scene.views())
    }
}
