// SPDX-License-Identifier: MIT OR Apache-2.0

//! Signal and wait.
//!
//! A signal stores CurrentValue and then loads who waits; a waiter stores that it waits and then
//! loads CurrentValue. Each side puts a full fence between the two, so either the signal sees the
//! waiter or the waiter sees the value. Spurious interrupts are possible, missed ones are not.
//!
//! That is the full fences' work alone, so who waits is stored and loaded relaxed. Acquire and
//! release hand over what the signaling engine did to every reader of the value.
//!
//! Source: native GPU fence object, "Synchronization issues", both pairs.

use super::sync::{AtomicU64, Ordering, fence};

/// MonitoredValue when no CPU waits.
pub const NOT_MONITORED: u64 = u64::MAX;

/// Which values a signal may give a fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalRule {
    /// CurrentValue only grows.
    Monotonic,
    /// CurrentValue may also become smaller; save that it stays at `u64::MAX`, where a fence is that is
    /// signaled for good.
    Rewindable,
}

impl SignalRule {
    /// The least value that may be signaled where CurrentValue is `current`.
    #[must_use]
    #[inline]
    pub const fn least(self, current: u64) -> u64 {
        match self {
            Self::Rewindable if current != u64::MAX => 0,
            _ => current,
        }
    }
}

/// A native fence: the host's own copy of its values, in memory that no guest can map, and who waits.
///
/// CurrentValue and MonitoredValue are stored apart: a guest's packets may write the one and only read
/// the other.
#[derive(Debug, Clone, Copy)]
pub struct FenceCell<'a> {
    /// CurrentValue. Engines may store it through their page tables too; [`Self::evaluate`] follows then.
    pub current: &'a AtomicU64,
    /// MonitoredValue.
    pub monitored: &'a AtomicU64,
    /// Engines that hold a queue for the fence, one bit each.
    pub waiting_engines: &'a AtomicU64,
    /// Not 0 when the fence is always signaled: it counts as `u64::MAX` then, whatever CurrentValue is.
    pub always: &'a AtomicU64,
    /// Which values it may be given.
    pub rule: SignalRule,
}

/// Values of a fence that no other thread may store or read.
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

/// What a signal set off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signaled {
    /// CurrentValue is greater than MonitoredValue: the CPU must be interrupted.
    pub interrupt: bool,
    /// Engines that hold a queue for this fence, one bit each: each must look at it again.
    pub engines: u64,
}

/// A signal that would make CurrentValue smaller than it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the fence is already at {current} and cannot go back to {value}")]
pub struct WentBackwards {
    /// CurrentValue.
    pub current: u64,
    /// What was signaled.
    pub value: u64,
}

impl FenceCell<'_> {
    /// Makes this the cell of a new fence at `initial` with this MonitoredValue and without waiters. The caller
    /// ensures that no thread uses the old fence any more, and releases the new one to its users. Without an
    /// initial value it becomes another cell of a fence that others have, and shares its CurrentValue.
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

    /// What the fence counts as: CurrentValue, unless it is always signaled.
    #[inline]
    fn counted(self) -> u64 {
        match self.always.load(Ordering::Relaxed) {
            // Acquires what that engine did: the next round may publish its value before it does.
            0 => self.current.load(Ordering::Acquire),
            _ => u64::MAX,
        }
    }

    /// Engine: whether a signal is to do nothing: it went backwards, or CurrentValue is others', too.
    #[cold]
    #[must_use]
    pub fn is_always_signaled(self) -> bool {
        // Pairs with the exchange of CurrentValue: who has read a value that was stored after
        // [`Self::abandon`] sees the mark.
        fence(Ordering::Acquire);
        self.always.load(Ordering::Relaxed) != 0
    }

    /// Control plane: the fence is always signaled from now on, whatever its CurrentValue is and becomes.
    /// Returns the engines that wait for it.
    ///
    /// An engine may be in the middle of a signal. Its exchange of what is published comes before the one
    /// here, which then stands, or it reads the one here and with that acquires the mark, and publishes
    /// again. The full fence pairs with the one in [`Self::wait`].
    pub fn abandon(self, published: Option<&AtomicU64>) -> Signaled {
        self.always.store(1, Ordering::Relaxed);
        self.publish(published, u64::MAX)
    }

    /// Engine: makes `value` the CurrentValue and publishes it to the guest, where that is told.
    ///
    /// The full fence pairs with those in [`Self::monitor`] and [`Self::wait`].
    ///
    /// # Errors
    /// [`WentBackwards`] when another signal got further than the rule allows; nothing changes then.
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
    /// [`WentBackwards`] when another signal got further than the rule allows; nothing changes then.
    #[inline]
    pub fn write(self, value: u64) -> Result<(), WentBackwards> {
        // Several engines may signal a fence at once: of a monotonic one the greater value must
        // win, and of a rewindable one the last. The exchange acquires what the other engine did, because a
        // poller sees only the value that won published.
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

    /// Publishes CurrentValue as it stands, and decides whether to interrupt.
    ///
    /// The full fence pairs with those in [`Self::monitor`] and [`Self::wait`]: an engine whose wait this
    /// misses sees, once it waits, what the caller stored before.
    #[must_use]
    #[inline]
    pub fn evaluate(self, published: Option<&AtomicU64>) -> Signaled {
        self.publish(published, self.current.load(Ordering::Acquire))
    }

    /// Publishes `value`, which the fence counted as a moment ago.
    ///
    /// With two signals at once the one that lost may be published last, so publish until it is the
    /// CurrentValue. The exchange reads what was published before, and the full fence makes that
    /// an acquire, so the engine that comes last sees the value that won. Only the host's own copy decides how
    /// often: each further round means that another engine changed it in between.
    ///
    /// A value that is taken back before this looks again does not interrupt: it is not there to be
    /// sampled. The signal that reaches it again does.
    #[inline]
    fn publish(self, published: Option<&AtomicU64>, mut value: u64) -> Signaled {
        loop {
            if let Some(published) = published {
                published.swap(value, Ordering::Release);
            }
            fence(Ordering::SeqCst);
            let current = self.counted();
            if current == value || published.is_none() {
                return self.decide(current);
            }
            value = current;
        }
    }

    /// Who waits for `current` or less. A full fence stands between CurrentValue's store and this.
    fn decide(self, current: u64) -> Signaled {
        let interrupt = current > self.monitored.load(Ordering::Relaxed);
        let engines = match self.waiting_engines.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.waiting_engines.swap(0, Ordering::Relaxed),
        };
        Signaled { interrupt, engines }
    }

    /// CPU: makes each value, the least waited one minus 1, its fence's MonitoredValue. The caller then
    /// re-samples each CurrentValue and satisfies whatever that reaches: a signal may have gone before this
    /// and will not interrupt.
    ///
    /// The full fence pairs with the one in [`Self::signal`]. One is enough for all of them.
    pub fn monitor<'a>(values: impl IntoIterator<Item = (FenceCell<'a>, u64)>) {
        for (cell, monitored) in values {
            cell.monitored.store(monitored, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
    }

    /// Engine: whether the fence is at `value`, for an engine that looks again before long and asks nobody to call
    /// it. An engine that stops looking calls [`Self::wait`]. Acquires what the signaling engine did before.
    #[must_use]
    #[inline]
    pub fn has_reached(self, value: u64) -> bool {
        self.counted() >= value
    }

    /// Engine `engine`: holds a queue until `value`; true when it is reached already. After false,
    /// some signal's [`Signaled::engines`] names the engine, and it calls this again.
    ///
    /// The full fence pairs with those in [`Self::signal`], [`Self::evaluate`] and [`Self::abandon`].
    #[must_use]
    pub fn wait(self, engine: u32, value: u64) -> bool {
        if self.counted() >= value {
            return true;
        }
        self.waiting_engines.fetch_or(1 << engine, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.counted() >= value
    }
}
