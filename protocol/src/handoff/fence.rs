// SPDX-License-Identifier: MIT OR Apache-2.0

//! Signal and wait.
//!
//! A signal stores CurrentValue and then loads the waiters; a waiter stores that it waits and then loads
//! CurrentValue. Each side puts a full fence between the two, so either the signal sees the waiter or the waiter
//! sees the value. Spurious interrupts are possible, missed ones are not.
//!
//! The full fences alone ensure that, so the waiters are stored and loaded relaxed. Acquire and release hand over
//! what the signaling engine did to every reader of the value.
//!
//! Source: native GPU fence object, "Synchronization issues", both pairs.

use super::sync::{AtomicU64, Ordering, fence};

/// MonitoredValue when no CPU waits.
pub const NOT_MONITORED: u64 = u64::MAX;

/// The values that a signal may give a fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalRule {
    /// CurrentValue only grows.
    Monotonic,
    /// CurrentValue may also shrink, except from `u64::MAX`, which marks a permanently signaled fence.
    Rewindable,
}

impl SignalRule {
    /// The least value that may be signaled at CurrentValue `current`.
    #[must_use]
    #[inline]
    pub const fn least(self, current: u64) -> u64 {
        match self {
            Self::Rewindable if current != u64::MAX => 0,
            _ => current,
        }
    }
}

/// A native fence: the host's own copy of its values, in memory that no guest can map, and its waiters.
///
/// CurrentValue and MonitoredValue are stored apart: a guest's packets may write CurrentValue but only read
/// MonitoredValue.
#[derive(Debug, Clone, Copy)]
pub struct FenceCell<'a> {
    /// CurrentValue. Engines may also store it through their page tables; [`Self::evaluate`] then follows.
    pub current: &'a AtomicU64,
    /// MonitoredValue.
    pub monitored: &'a AtomicU64,
    /// Engines that hold a queue for the fence, one bit each.
    pub waiting_engines: &'a AtomicU64,
    /// Nonzero if the fence is always signaled: it then counts as `u64::MAX`, whatever CurrentValue is.
    pub always: &'a AtomicU64,
    /// The values that a signal may give it.
    pub rule: SignalRule,
}

/// The values of a fence that no other thread may store or read.
#[derive(Debug)]
pub struct FenceWords {
    current: AtomicU64,
    monitored: AtomicU64,
    waiting_engines: AtomicU64,
    always: AtomicU64,
    rule: SignalRule,
}

impl FenceWords {
    /// A fence at `initial` without waiters.
    #[must_use]
    pub fn new(initial: u64, rule: SignalRule) -> Self {
        Self {
            current: AtomicU64::new(initial),
            monitored: AtomicU64::new(NOT_MONITORED),
            waiting_engines: AtomicU64::new(0),
            always: AtomicU64::new(0),
            rule,
        }
    }

    /// The fence.
    #[must_use]
    #[inline]
    pub fn cell(&self) -> FenceCell<'_> {
        let Self { current, monitored, waiting_engines, always, rule } = self;
        FenceCell { current, monitored, waiting_engines, always, rule: *rule }
    }
}

/// The effects of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signaled {
    /// CurrentValue is greater than MonitoredValue: the CPU must be interrupted.
    pub interrupt: bool,
    /// Engines that hold a queue for this fence, one bit each: each must re-check it.
    pub engines: u64,
}

/// A signal below the least value that the fence's rule allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the fence is already at {current} and cannot go back to {value}")]
pub struct WentBackwards {
    /// CurrentValue.
    pub current: u64,
    /// The signaled value.
    pub value: u64,
}

impl FenceCell<'_> {
    /// Makes this the cell of a new fence at `initial`, with this MonitoredValue and without waiters. The caller
    /// ensures that no thread uses the old fence any more, and releases the new one to its users. Without an
    /// initial value it becomes another cell of an existing fence and shares its CurrentValue.
    pub fn reset(self, initial: Option<u64>, monitored: u64) {
        if let Some(initial) = initial {
            self.current.store(initial, Ordering::Relaxed);
        }
        self.monitored.store(monitored, Ordering::Relaxed);
        self.waiting_engines.store(0, Ordering::Relaxed);
        self.always.store(0, Ordering::Relaxed);
    }

    /// CurrentValue. Acquires what the signaling engine did before.
    #[must_use]
    #[inline]
    pub fn current(self) -> u64 {
        self.current.load(Ordering::Acquire)
    }

    /// The value that the fence counts as: CurrentValue, or `u64::MAX` if it is always signaled.
    #[inline]
    fn counted(self) -> u64 {
        match self.always.load(Ordering::Relaxed) {
            // Acquires what the signaling engine did: the next round may publish its value before it does.
            0 => self.current.load(Ordering::Acquire),
            _ => u64::MAX,
        }
    }

    /// Engine: returns whether to ignore a signal that went backwards or that stores to a shared CurrentValue.
    #[cold]
    #[must_use]
    pub fn is_always_signaled(self) -> bool {
        // Pairs with the exchange of CurrentValue: a thread that has read a value stored after [`Self::abandon`]
        // sees the mark.
        fence(Ordering::Acquire);
        self.always.load(Ordering::Relaxed) != 0
    }

    /// Control plane: marks the fence always signaled, whatever its CurrentValue is and becomes. Returns the
    /// engines that wait for it.
    ///
    /// An engine may be in the middle of a signal. If its exchange of the published value comes before the one
    /// here, the one here stands. Otherwise it reads the one here, acquires the mark with it, and publishes again.
    /// The full fence pairs with the one in [`Self::wait`].
    pub fn abandon(self, published: Option<&AtomicU64>) -> Signaled {
        self.always.store(1, Ordering::Relaxed);
        self.publish(published, u64::MAX)
    }

    /// Engine: makes `value` the CurrentValue and publishes it to the guest, if the guest has a published copy.
    ///
    /// The full fence pairs with those in [`Self::monitor`] and [`Self::wait`].
    ///
    /// # Errors
    /// [`WentBackwards`] if another signal got further than the rule allows; nothing changes then.
    #[inline]
    pub fn signal(
        self,
        published: Option<&AtomicU64>,
        value: u64,
    ) -> Result<Signaled, WentBackwards> {
        self.write(value)?;
        Ok(self.publish(published, value))
    }

    /// Engine: makes `value` the CurrentValue. It wakes no waiter; [`Self::evaluate`] does.
    ///
    /// # Errors
    /// [`WentBackwards`] if another signal got further than the rule allows; nothing changes then.
    #[inline]
    pub fn write(self, value: u64) -> Result<(), WentBackwards> {
        // Several engines may signal a fence at once: the greater value must win on a monotonic fence, the last on
        // a rewindable one. The exchange acquires what the other engine did, because a poller sees only the winning
        // value published.
        let mut current = self.current.load(Ordering::Relaxed);
        loop {
            if value < self.rule.least(current) {
                return Err(WentBackwards { current, value });
            }
            match self.current.compare_exchange_weak(
                current,
                value,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(()),
                Err(now) => current = now,
            }
        }
    }

    /// Publishes the present CurrentValue, and decides whether to interrupt.
    ///
    /// The full fence pairs with those in [`Self::monitor`] and [`Self::wait`]: an engine that this call does not
    /// see waiting sees the caller's earlier stores once it waits.
    #[must_use]
    #[inline]
    pub fn evaluate(self, published: Option<&AtomicU64>) -> Signaled {
        self.publish(published, self.current.load(Ordering::Acquire))
    }

    /// Publishes `value`, which the fence counted as a moment ago, and decides whether to interrupt.
    #[inline]
    fn publish(self, published: Option<&AtomicU64>, value: u64) -> Signaled {
        let current = match published {
            Some(published) => self.make_visible(published, value),
            None => {
                fence(Ordering::SeqCst);
                self.counted()
            }
        };
        self.decide(current)
    }

    /// Stores `value`, which the fence counted as a moment ago, for pollers. Returns the value that the fence counts
    /// as after it.
    ///
    /// Of two concurrent signals, the loser may be published last, so publish until the value is the CurrentValue.
    /// The exchange reads the previously published value, and the full fence makes that an acquire, so the last
    /// engine sees the winning value. Only the host's own copy bounds the loop: each further round means that
    /// another engine changed it in between.
    ///
    /// A value that is taken back before the re-check does not interrupt, because it can no longer be sampled. The
    /// signal that reaches it again does.
    #[inline]
    fn make_visible(self, published: &AtomicU64, mut value: u64) -> u64 {
        loop {
            published.swap(value, Ordering::Release);
            fence(Ordering::SeqCst);
            let current = self.counted();
            if current == value {
                return current;
            }
            value = current;
        }
    }

    /// Collects the waiters for `current` or less. A full fence separates this from CurrentValue's store.
    #[inline]
    fn decide(self, current: u64) -> Signaled {
        let interrupt = current > self.monitored.load(Ordering::Relaxed);
        let engines = match self.waiting_engines.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.waiting_engines.swap(0, Ordering::Relaxed),
        };
        Signaled { interrupt, engines }
    }

    /// CPU: sets the MonitoredValue of each fence to the given value, which is the least awaited value minus 1. The
    /// caller then re-samples each CurrentValue and satisfies the waits that it reaches: an earlier signal does not
    /// interrupt.
    ///
    /// The full fence pairs with the one in [`Self::signal`]. One fence covers all cells.
    pub fn monitor<'a>(values: impl IntoIterator<Item = (FenceCell<'a>, u64)>) {
        for (cell, monitored) in values {
            cell.monitored.store(monitored, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
    }

    /// Engine: returns whether the fence has reached `value`, for an engine that re-checks soon and needs no
    /// wake-up. An engine that stops checking calls [`Self::wait`]. Acquires what the signaling engine did before.
    ///
    /// If it has, the published copy that is given is not behind. Hardware has one CurrentValue, which CPUs and engines read:
    /// a CPU that learns of work behind a wait reads at least the value that was waited for. Here the control plane may
    /// have yet to publish what another guest has signaled. If it is in the middle of publishing an older value, that may
    /// be read for the moment until it looks at CurrentValue again.
    #[must_use]
    #[inline]
    pub fn has_reached(self, published: Option<&AtomicU64>, value: u64) -> bool {
        let current = self.counted();
        if current < value {
            return false;
        }
        if let Some(published) = published
            && published.load(Ordering::Relaxed) != current
        {
            self.make_visible(published, current);
        }
        true
    }

    /// Engine `engine`: holds a queue until `value`; returns true if it is already reached. After false, a later
    /// signal's [`Signaled::engines`] names the engine, which then calls this again.
    ///
    /// The full fence pairs with those in [`Self::signal`], [`Self::evaluate`] and [`Self::abandon`].
    #[must_use]
    pub fn wait(self, published: Option<&AtomicU64>, engine: u32, value: u64) -> bool {
        if self.has_reached(published, value) {
            return true;
        }
        self.waiting_engines.fetch_or(1 << engine, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.has_reached(published, value)
    }
}
