// SPDX-License-Identifier: MIT OR Apache-2.0

//! For tests: what an engine looks at, counted.

use std::cell::Cell;

thread_local! {
    static LOOKS: Cell<u64> = const { Cell::new(0) };
}

/// The engine of this thread looks at an entry of its run list, of its doorbells or of its order of guests.
pub fn note() {
    LOOKS.set(LOOKS.get() + 1);
}

/// How often the engine of this thread did while `act` lasted.
pub fn during(act: impl FnOnce()) -> u64 {
    let before = LOOKS.get();
    act();
    LOOKS.get() - before
}
