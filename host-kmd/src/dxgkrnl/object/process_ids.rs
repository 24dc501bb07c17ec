// SPDX-License-Identifier: MIT OR Apache-2.0

//! Ids of processes.

use std::collections::HashSet;

/// Ids of processes: never 0, and unique among the guests of an adapter.
#[derive(Debug, Default)]
pub(crate) struct ProcessIds {
    pub(crate) last: u32,
    pub(crate) live: HashSet<u32>,
}

impl ProcessIds {
    pub(crate) fn take(&mut self) -> u32 {
        // Ends: the guests' limits keep the number of live ids far below the number of ids.
        loop {
            self.last = self.last.wrapping_add(1);
            if self.last != 0 && self.live.insert(self.last) {
                return self.last;
            }
        }
    }

    /// Frees an id. It is reused only after all later ids.
    pub(crate) fn give_back(&mut self, id: u32) {
        self.live.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_never_0_and_never_one_that_lives() {
        let mut ids = ProcessIds { last: u32::MAX - 1, live: HashSet::from([1]) };
        assert_eq!(ids.take(), u32::MAX);
        assert_eq!(ids.take(), 2);
        ids.give_back(1);
        assert_eq!(ids.take(), 3);
    }
}
