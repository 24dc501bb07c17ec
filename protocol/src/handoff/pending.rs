// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tell once, then look.
//!
//! A producer changes something and marks it pending. Only the producer that finds the mark absent tells the
//! consumer; the others know that the consumer has yet to look. The consumer takes the mark away and then
//! looks. A change is therefore either seen by that look or marked again, and a producer that marks often
//! costs the consumer one message.
//!
//! Marking and taking are read-modify-writes of one word, and each marking continues the release sequence
//! of those before it: so the consumer acquires what every producer did.

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
    /// There is nothing to look at.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Producer, after a change: marks it. True when the producer must tell the consumer. Releases the
    /// change to [`Self::take`].
    #[must_use = "the consumer must be told"]
    #[inline]
    pub fn mark(&self) -> bool {
        !self.0.swap(true, Ordering::Release)
    }

    /// Consumer, before it looks; also a producer that was to tell and cannot, before it does otherwise:
    /// takes the mark away. Acquires the changes of all that had marked. Tells whether there was a mark.
    #[inline]
    pub fn take(&self) -> bool {
        self.0.swap(false, Ordering::Acquire)
    }
}

/// Which of several things the consumer has yet to look at, one bit each. How the consumer is told is
/// another hand-off.
#[derive(Debug)]
pub struct PendingSet(AtomicU64);

impl Default for PendingSet {
    fn default() -> Self {
        Self::new()
    }
}

impl PendingSet {
    /// There is nothing to look at.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Producer, after a change: marks it. The consumer must then be told. Releases the change to
    /// [`Self::take`].
    #[inline]
    pub fn mark(&self, bits: u64) {
        self.0.fetch_or(bits, Ordering::Release);
    }

    /// Consumer, before it looks: takes all marks away. Acquires the changes that they stand for.
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
    /// Not raised.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Producer, after it left the consumer something to find: raises the line. True when the producer must
    /// signal the consumer.
    #[must_use = "the consumer must be signaled"]
    #[inline]
    pub fn raise(&self) -> bool {
        self.raised.mark()
    }

    /// Producer: raises the line for these causes, one bit each. True when the producer must signal the
    /// consumer.
    #[must_use = "the consumer must be signaled"]
    pub fn raise_for(&self, causes: u64) -> bool {
        // In this order: the consumer lowers the line before it takes the causes.
        self.causes.mark(causes);
        self.raised.mark()
    }

    /// Consumer, after it cleared the signal: lowers the line and takes the causes. Then it looks for what
    /// was raised without one.
    #[must_use]
    pub fn take(&self) -> u64 {
        self.raised.take();
        self.causes.take()
    }
}
