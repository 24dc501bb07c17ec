// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tell once, then look.
//!
//! A producer changes something and marks it pending. Only the producer that finds the mark absent tells the
//! consumer; the others know that the consumer has yet to look. The consumer clears the mark and then looks. A
//! change is therefore either seen by that look or marked again, and any number of marks before a look costs one
//! message.
//!
//! Marking and taking are read-modify-writes of one word, and each mark continues the release sequence of the
//! earlier ones: so the consumer acquires what every producer did.

use super::sync::{AtomicBool, AtomicU64, Ordering};

/// Whether the consumer has yet to look at one thing.
#[derive(Debug)]
pub struct Pending(AtomicBool);

impl Default for Pending {
    fn default() -> Self {
        Self::new()
    }
}

impl Pending {
    /// Nothing is pending.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Producer, after a change: sets the mark. Returns true if the producer must tell the consumer. Releases the
    /// change to [`Self::take`].
    #[must_use = "the consumer must be told"]
    #[inline]
    pub fn mark(&self) -> bool {
        !self.0.swap(true, Ordering::Release)
    }

    /// Clears the mark and returns whether it was set. Called by the consumer before it looks, and by a producer
    /// that cannot tell the consumer, before it falls back. Acquires the changes of all producers that had marked.
    #[inline]
    pub fn take(&self) -> bool {
        self.0.swap(false, Ordering::Acquire)
    }
}

/// The things that the consumer has yet to look at, one bit each. Another hand-off notifies the consumer.
#[derive(Debug)]
pub struct PendingSet(AtomicU64);

impl Default for PendingSet {
    fn default() -> Self {
        Self::new()
    }
}

impl PendingSet {
    /// Nothing is pending.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Producer, after a change: sets marks. The consumer must then be told. Releases the change to [`Self::take`].
    #[inline]
    pub fn mark(&self, bits: u64) {
        self.0.fetch_or(bits, Ordering::Release);
    }

    /// Consumer, before it looks: clears and returns all marks. Acquires the changes behind them.
    #[must_use]
    pub fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Acquire)
    }
}

/// An interrupt line: producers raise it with or without a cause, and the consumer takes it.
#[derive(Debug, Default)]
pub struct InterruptLine {
    raised: Pending,
    causes: PendingSet,
}

impl InterruptLine {
    /// A lowered line.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Producer, after it left something for the consumer: raises the line. Returns true if the producer must
    /// signal the consumer.
    #[must_use = "the consumer must be signaled"]
    #[inline]
    pub fn raise(&self) -> bool {
        self.raised.mark()
    }

    /// Producer: raises the line for these causes, one bit each. Returns true if the producer must signal the
    /// consumer.
    #[must_use = "the consumer must be signaled"]
    pub fn raise_for(&self, causes: u64) -> bool {
        // This order matters: the consumer lowers the line before it takes the causes.
        self.causes.mark(causes);
        self.raised.mark()
    }

    /// Consumer, after it cleared the signal: lowers the line and takes the causes. It then checks for anything
    /// that was raised without a cause.
    #[must_use]
    pub fn take(&self) -> u64 {
        self.raised.take();
        self.causes.take()
    }
}
