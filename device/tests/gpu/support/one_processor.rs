// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests on a single processor.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Pins this thread, and those that it starts, to one of its processors.
pub fn stay_on_one_processor() {
    let allowed = sched_getaffinity(None).unwrap();
    let first = (0..CpuSet::MAX_CPU).find(|processor| allowed.is_set(*processor)).unwrap();
    let mut one = CpuSet::new();
    one.set(first);
    sched_setaffinity(None, &one).unwrap();
}
