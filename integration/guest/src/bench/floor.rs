//! What anything between two processors costs at least.

use crate::timing::{Latency, time};
use crossbeam_utils::CachePadded;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Tells the other thread to end.
const END: u64 = u64::MAX;

/// A cache line to another thread and another one back, both polled.
pub(super) fn cache_line_round_trip(samples: u64) -> anyhow::Result<Latency> {
    let there = CachePadded::new(AtomicU64::new(0));
    let back = CachePadded::new(AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut seen = 0;
            while seen != END {
                let now = there.load(Ordering::Acquire);
                if now != seen {
                    seen = now;
                    back.store(now, Ordering::Release);
                } else {
                    std::hint::spin_loop();
                }
            }
        });
        let mut value = 0;
        let result = time(samples, || {
            value += 1;
            there.store(value, Ordering::Release);
            while back.load(Ordering::Acquire) != value {
                std::hint::spin_loop();
            }
            Ok::<_, Infallible>(())
        });
        there.store(END, Ordering::Release);
        result
    })
}
