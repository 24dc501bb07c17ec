// SPDX-License-Identifier: MIT OR Apache-2.0

//! Swaps the orders of the hand-offs, one at a time.
//!
//! A weaker ordering allows a processor to swap operations; here the source swaps them. A model that notices the
//! first should notice the second.

use std::ops::Range;

/// Statements that are swapped.
pub struct Swap {
    /// The hand-off's file.
    file: &'static str,
    /// A description of the other order, for the table.
    pub what: &'static str,
    /// The statements as written; they stand once in the file.
    written: &'static str,
    /// The other order.
    swapped: &'static str,
}

/// A place in a source text with statements that can be swapped.
pub struct Swappable {
    /// The statements as they are written.
    pub place: Range<usize>,
    /// The swap.
    pub swap: &'static Swap,
}

/// All orders that are swapped.
const SWAPS: [Swap; 11] = [
    Swap {
        file: "doorbell.rs",
        what: "ring: status before doorbell",
        written: "
        self.doorbell.store(write_pointer, Ordering::Release);
        fence(Ordering::SeqCst);
        self.status()",
        swapped: "
        let status = self.status();
        fence(Ordering::SeqCst);
        self.doorbell.store(write_pointer, Ordering::Release);
        status",
    },
    Swap {
        file: "doorbell.rs",
        what: "disconnect: fence before status",
        written: "
        self.status.swap(reason.into().0, Ordering::Release);
        fence(Ordering::SeqCst);",
        swapped: "
        fence(Ordering::SeqCst);
        self.status.swap(reason.into().0, Ordering::Release);",
    },
    Swap {
        file: "fence.rs",
        what: "signal: decision before CurrentValue",
        written: "
        self.write(value)?;
        Ok(self.publish(published, value))",
        swapped: "
        let signaled = self.publish(published, value);
        self.write(value)?;
        Ok(signaled)",
    },
    Swap {
        file: "fence.rs",
        what: "publish: decision before the fence",
        written: "
        let current = match published {
            Some(published) => self.make_visible(published, value),
            None => {
                fence(Ordering::SeqCst);
                self.counted()
            }
        };
        self.decide(current)",
        swapped: "
        let signaled = self.decide(value);
        match published {
            Some(published) => _ = self.make_visible(published, value),
            None => fence(Ordering::SeqCst),
        }
        signaled",
    },
    Swap {
        file: "fence.rs",
        what: "monitor: fence before MonitoredValue",
        written: "
        for (cell, monitored) in values {
            cell.monitored.store(monitored, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);",
        swapped: "
        fence(Ordering::SeqCst);
        for (cell, monitored) in values {
            cell.monitored.store(monitored, Ordering::Relaxed);
        }",
    },
    Swap {
        file: "fence.rs",
        what: "wait: CurrentValue before the wait",
        written: "
        self.waiting_engines.fetch_or(1 << engine, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.has_reached(published, value)",
        swapped: "
        let reached = self.has_reached(published, value);
        fence(Ordering::SeqCst);
        self.waiting_engines.fetch_or(1 << engine, Ordering::Relaxed);
        reached",
    },
    Swap {
        file: "fence.rs",
        what: "abandon: published before the mark",
        written: "
        self.always.store(1, Ordering::Relaxed);
        self.publish(published, u64::MAX)",
        swapped: "
        let signaled = self.publish(published, u64::MAX);
        self.always.store(1, Ordering::Relaxed);
        signaled",
    },
    Swap {
        file: "fence_log.rs",
        what: "write: position before entry",
        written: "
        for (word, value) in place.iter().zip(entry) {
            word.store(value, Ordering::Relaxed);
        }
        let next = position.plus(1, self.number_of_entries());
        self.header[0].store(next.0, Ordering::Release);",
        swapped: "
        let next = position.plus(1, self.number_of_entries());
        self.header[0].store(next.0, Ordering::Release);
        for (word, value) in place.iter().zip(entry) {
            word.store(value, Ordering::Relaxed);
        }",
    },
    Swap {
        file: "pending.rs",
        what: "raise_for: line before cause",
        written: "
        self.causes.mark(causes);
        self.raised.mark()",
        swapped: "
        let first = self.raised.mark();
        self.causes.mark(causes);
        first",
    },
    Swap {
        file: "pending.rs",
        what: "take: causes before the line",
        written: "
        self.raised.take();
        self.causes.take()",
        swapped: "
        let causes = self.causes.take();
        self.raised.take();
        causes",
    },
    Swap {
        file: "quiescence.rs",
        what: "pass: look before the ticket",
        written: "
        publication::publish(&self.0, ticket);
        fence(Ordering::SeqCst);
        let passed = Self::on_all(all);
        (passed >= ticket).then_some(passed)",
        swapped: "
        let passed = Self::on_all(all);
        fence(Ordering::SeqCst);
        publication::publish(&self.0, ticket);
        (passed >= ticket).then_some(passed)",
    },
];

/// The places of a file's swaps, in order.
///
/// # Errors
/// When the statements of a swap are not in the file, or more than once.
pub fn places(file: &str, source: &str) -> Result<Vec<Swappable>, String> {
    let of_file = SWAPS.iter().filter(|swap| swap.file == file);
    let found = of_file.map(|swap| {
        let mut places = source.match_indices(swap.written);
        match (places.next(), places.next()) {
            (Some((start, text)), None) => Ok(Swappable { place: start..start + text.len(), swap }),
            _ => Err(format!("{file} does not have exactly once what \"{}\" swaps", swap.what)),
        }
    });
    found.collect()
}

impl Swap {
    /// The text before the statements: a choice between both orders, on a separate line.
    pub fn before(&self, number: usize) -> String {
        format!("\nif super::mutant::is_swapped({number}) {{{}\n}} else {{", self.swapped)
    }

    /// The text behind the statements.
    pub const AFTER: &'static str = "\n}";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swap_leaves_nothing_out() {
        let accesses = |text: &str| {
            [
                "store(",
                "swap(",
                "fetch_or(",
                "fence(",
                "load(",
                "mark(",
                "take(",
                "publish(",
                "on_all(",
            ]
            .map(|name| text.matches(name).count())
        };
        for swap in &SWAPS {
            assert_ne!(swap.written, swap.swapped);
            assert_eq!(accesses(swap.written), accesses(swap.swapped), "{}", swap.what);
        }
    }

    #[test]
    fn what_is_not_there_once_cannot_be_swapped() {
        assert!(places("fence.rs", "").is_err());
        let twice = SWAPS.iter().filter(|swap| swap.file == "fence.rs");
        let twice: String = twice.flat_map(|swap| [swap.written, swap.written]).collect();
        assert!(places("fence.rs", &twice).is_err());
        assert!(places("other.rs", "").unwrap().is_empty());
    }
}
