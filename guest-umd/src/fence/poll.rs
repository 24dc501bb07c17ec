// SPDX-License-Identifier: MIT OR Apache-2.0

//! Polling a fence: the fastest way to wait. It occupies a processor.

use crate::error::Error;
use crate::fence::object::Fence;
use bellhop_protocol::handoff::publication;
use bellhop_protocol::polling::Yields;
use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

/// Loads of the fence in a row, without a system call and without a load of anything else.
const LOOKS_IN_A_SPELL: u32 = 32;
/// Spells between two looks at the clock, for a thread that has its processor to itself.
const SPELLS_PER_CLOCK: u32 = 8;
/// How long a fence is polled between two checks that the device is still there.
const CHECK: Duration = Duration::from_millis(1);

/// Most pauses between two loads of a progress fence: one for each submission that is not done.
const MOST_PAUSES: u64 = 64;

thread_local! {
    /// Whether this thread shares its processor with the engine that it polls for.
    static YIELDS: Cell<Yields> = const { Cell::new(Yields::new()) };
}

/// Called after a spell in which the fence did not move; lets an engine on this processor run.
#[cold]
fn end_spell() -> bool {
    with_yields(|yields| {
        yields.spell(|| {
            let start = Instant::now();
            thread::yield_now();
            start.elapsed()
        })
    })
}

fn with_yields<R>(act: impl FnOnce(&mut Yields) -> R) -> R {
    let mut yields = YIELDS.get();
    let result = act(&mut yields);
    YIELDS.set(yields);
    result
}

impl Fence {
    /// Reads the fence until it reaches `value`. Nothing is faster, and it occupies a processor. After
    /// some microseconds it yields the processor, if that lets an engine run there.
    ///
    /// # Errors
    /// [`Error::Timeout`] when `timeout` is over, [`Error::QueueLost`] when the queue that owns this
    /// progress fence was lost, [`Error::NotAvailable`] as in [`Self::current_value`].
    #[inline]
    pub fn poll(&self, value: u64, timeout: Duration) -> Result<(), Error> {
        let word = self.word()?;
        let counts_submissions = self.queue().is_some();
        let (mut deadline, mut next_check, mut gave_away) = (None, None, false);
        let mut spells = 0u32;
        loop {
            for _ in 0..LOOKS_IN_A_SPELL {
                let current = publication::read(word);
                if current >= value {
                    if gave_away {
                        with_yields(Yields::progress);
                    }
                    return self.reached(current);
                }
                // Each load takes the cache line from the engine, which needs it for the next signal.
                let before = if counts_submissions { value - current } else { 1 };
                for _ in 0..before.min(MOST_PAUSES) {
                    std::hint::spin_loop();
                }
            }
            spells = spells.wrapping_add(1);
            if !spells.is_multiple_of(SPELLS_PER_CLOCK) && !YIELDS.get().shares_processor() {
                continue;
            }
            self.check_queue()?;
            let now = Instant::now();
            let check = next_check.get_or_insert(now + CHECK);
            if now >= *check {
                *check = now + CHECK;
                self.check_device()?;
            }
            if now >= *deadline.get_or_insert(now + timeout) {
                let current = publication::read(word);
                return Err(Error::Timeout { value, current });
            }
            gave_away = end_spell();
        }
    }
}
