// SPDX-License-Identifier: MIT OR Apache-2.0

//! For tests: counts what an engine looks at.

use std::cell::Cell;

thread_local! {
    static LOOKS: Cell<u64> = const { Cell::new(0) };
}

/// Counts a look of this thread's engine at an entry of its run list, its doorbells or its order of guests.
pub fn note() {
    LOOKS.set(LOOKS.get() + 1);
}

/// The number of looks of this thread's engine during `act`.
pub fn during(act: impl FnOnce()) -> u64 {
    let before = LOOKS.get();
    act();
    LOOKS.get() - before
}
