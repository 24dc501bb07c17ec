// SPDX-License-Identifier: MIT OR Apache-2.0

//! Fences: signalers, waiters and pollers.

use super::{Bytes, KICK};
use bellhop_protocol::handoff::attention::Attention;
use bellhop_protocol::handoff::fence::{
    FenceCell, FenceWords, NOT_MONITORED, SignalRule, Signaled, WentBackwards,
};
use bellhop_protocol::handoff::owner::Owner;
use bellhop_protocol::handoff::publication;
use bellhop_protocol::handoff::sync::{AtomicU64, Ordering};
use bellhop_protocol::handoff::words;
use core::slice;
use loom::sync::Arc;
use loom::thread;

/// The process that owns a slot.
const OWNER: u64 = 7;

/// A fence with its published CurrentValue, and the memory that an engine writes before it signals.
struct Fence {
    words: FenceWords,
    published: AtomicU64,
    done: Bytes,
}

impl Fence {
    fn new() -> Arc<Self> {
        Self::at(0, SignalRule::Monotonic)
    }

    fn at(value: u64, rule: SignalRule) -> Arc<Self> {
        let (words, published) = (FenceWords::new(value, rule), AtomicU64::new(value));
        Arc::new(Self { words, published, done: Bytes::new() })
    }

    fn cell(&self) -> FenceCell<'_> {
        self.words.cell()
    }

    fn signal(&self, value: u64) -> Result<Signaled, WentBackwards> {
        self.cell().signal(Some(&self.published), value)
    }

    /// Engine: does its work, then signals `value`.
    fn work_and_signal(&self, value: u64) -> Result<Signaled, WentBackwards> {
        self.done.write();
        self.signal(value)
    }
}

#[test]
fn a_cpu_waiter_is_interrupted_or_sees_the_value() {
    loom::model(|| {
        let fence = Fence::new();
        let engine = spawn!(fence => fence.work_and_signal(1).unwrap());
        // A wait for 1: the least awaited value minus 1 is 0.
        FenceCell::monitor([(fence.cell(), 0)]);
        let current = fence.cell().current();
        if current >= 1 {
            fence.done.read();
        }
        let signaled = engine.join().unwrap();
        assert!(signaled.interrupt || current >= 1, "the interrupt was missed");
    });
}

#[test]
fn of_several_fences_that_a_cpu_waits_for_none_is_missed() {
    loom::model(|| {
        let fences = [Fence::new(), Fence::new()];
        let engines = fences
            .clone()
            .map(|fence| thread::spawn(move || fence.work_and_signal(1).unwrap().interrupt));
        FenceCell::monitor(fences.iter().map(|fence| (fence.cell(), 0)));
        let reached = fences.each_ref().map(|fence| fence.cell().current() >= 1);
        for (reached, engine) in reached.into_iter().zip(engines) {
            assert!(engine.join().unwrap() || reached, "the interrupt was missed");
        }
    });
}

#[test]
fn a_waiting_engine_is_called_or_sees_the_value() {
    loom::model(|| {
        let fence = Fence::new();
        let signaling = spawn!(fence => fence.work_and_signal(1).unwrap());
        let reached = fence.cell().wait(Some(&fence.published), 5, 1);
        if reached {
            fence.done.read();
        }
        let signaled = signaling.join().unwrap();
        assert!(reached || signaled.engines == 1 << 5, "the wait never ends");
    });
}

#[test]
fn who_learns_of_work_behind_a_wait_finds_the_value_published() {
    loom::model(|| {
        let fence = Fence::new();
        let signaling = spawn!(fence => fence.work_and_signal(1).unwrap());
        let progress = Arc::new(AtomicU64::new(0));
        let waiting = spawn!(fence, progress => {
            if fence.cell().has_reached(Some(&fence.published), 1) {
                publication::publish(&progress, 1);
            }
        });
        if publication::read(&progress) == 1 {
            assert_eq!(fence.published.load(Ordering::Acquire), 1, "a CPU reads an old value");
            fence.done.read();
        }
        signaling.join().unwrap();
        waiting.join().unwrap();
        assert_eq!(fence.published.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_wait_that_publishes_amid_two_signals_leaves_the_greater_value_published() {
    loom::model(|| {
        let fence = Fence::new();
        let signaling = spawn!(fence => {
            fence.signal(1).unwrap();
            fence.signal(2).unwrap();
        });
        let _ = fence.cell().has_reached(Some(&fence.published), 1);
        signaling.join().unwrap();
        assert_eq!(fence.published.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn an_engine_that_polls_before_it_waits_finds_what_was_done_or_is_called() {
    loom::model(|| {
        let fence = Fence::new();
        let signaling = spawn!(fence => fence.work_and_signal(1).unwrap());
        let polled = fence.cell().has_reached(Some(&fence.published), 1);
        if polled {
            fence.done.read();
        }
        let reached = polled || fence.cell().wait(Some(&fence.published), 5, 1);
        let signaled = signaling.join().unwrap();
        assert!(reached || signaled.engines == 1 << 5, "the wait never ends");
        assert!(!polled || signaled.engines == 0, "an engine is called that does not wait");
    });
}

/// An engine waits for the last of the values that another thread signals in sequence.
#[track_caller]
fn assert_called_or_seen(fence: Arc<Fence>, values: [u64; 2]) {
    let attention = Arc::new(Attention::new());
    let signaling = spawn!(fence, attention => {
        for value in values {
            if fence.signal(value).unwrap().engines != 0 {
                let _awake = attention.raise(KICK);
            }
        }
    });
    let mut reached = fence.cell().wait(Some(&fence.published), 5, values[1]);
    if !reached && attention.take() == KICK {
        reached = fence.cell().wait(Some(&fence.published), 5, values[1]);
    }
    signaling.join().unwrap();
    assert!(reached || attention.take() == KICK, "the wait never ends");
}

#[test]
fn an_engine_that_a_signal_calls_too_early_is_called_again_or_sees_the_value() {
    loom::model(|| {
        assert_called_or_seen(Fence::new(), [1, 2]);
    });
}

#[test]
fn a_waiting_engine_sees_the_fence_gone_or_its_destroyer_sees_it_wait() {
    loom::model(|| {
        let fence = Fence::new();
        let owner = Arc::new(Owner::new());
        owner.open(OWNER);
        let waiting = spawn!(fence, owner => {
            let opening = owner.find(OWNER);
            assert!(!fence.cell().wait(Some(&fence.published), 5, 1));
            opening.is_some_and(|opening| owner.is_open(opening))
        });
        owner.close();
        let engines = fence.cell().evaluate(None).engines;
        let seen = waiting.join().unwrap();
        assert!(engines == 1 << 5 || !seen, "the wait never ends");
    });
}

#[test]
fn who_polls_a_fence_finds_what_the_engine_did_before_it_signaled() {
    loom::model(|| {
        let fence = Fence::new();
        let engine = spawn!(fence => fence.work_and_signal(1).unwrap());
        if fence.published.load(Ordering::Acquire) == 1 {
            fence.done.read();
        }
        engine.join().unwrap();
    });
}

#[test]
fn who_polls_a_fence_finds_what_every_engine_did_before_it_signaled() {
    loom::model(|| {
        let fence = Fence::new();
        let earlier = Arc::new(AtomicU64::new(0));
        let smaller = spawn!(fence, earlier => {
            // Not plain bytes: an engine that signals too late hands nothing over.
            earlier.store(1, Ordering::Relaxed);
            fence.signal(1)
        });
        let greater = spawn!(fence => fence.work_and_signal(2).unwrap());
        let published = fence.published.load(Ordering::Acquire);
        let earlier = earlier.load(Ordering::Relaxed);
        if published == 2 {
            // Either engine may have published the value.
            fence.done.read();
        }
        greater.join().unwrap();
        if smaller.join().unwrap().is_ok() && published >= 1 {
            assert_eq!(earlier, 1, "the fence says that this was done");
        }
    });
}

#[test]
fn a_slot_that_is_used_again_holds_the_new_fence_only() {
    loom::model(|| {
        let fence = Fence::new();
        assert_eq!(fence.cell().abandon(None).engines, 0);
        assert!(fence.cell().is_always_signaled());
        FenceCell::monitor([(fence.cell(), 0)]);
        fence.cell().waiting_engines.store(1 << 5, Ordering::Relaxed);
        let owner = Arc::new(Owner::new());
        let engine = spawn!(fence, owner => {
            if owner.find(OWNER).is_some() {
                let signaled = fence.signal(4).unwrap();
                assert_eq!(signaled, Signaled { interrupt: false, engines: 0 });
                assert!(fence.cell().wait(Some(&fence.published), 5, 4));
                assert!(!fence.cell().wait(Some(&fence.published), 5, 9), "the old one was always signaled");
            }
        });
        fence.cell().reset(Some(3), NOT_MONITORED);
        owner.open(OWNER);
        engine.join().unwrap();
    });
}

#[test]
fn of_two_signals_the_greater_value_stays_published_and_is_monitored() {
    loom::model(|| {
        let fence = Fence::new();
        FenceCell::monitor([(fence.cell(), 1)]);
        let smaller = spawn!(fence => fence.signal(1));
        let greater = fence.signal(2).unwrap();
        let smaller = smaller.join().unwrap();
        assert_eq!(fence.cell().current(), 2);
        assert_eq!(fence.published.load(Ordering::Relaxed), 2);
        let interrupted = |signaled: Signaled| signaled.interrupt;
        assert!(interrupted(greater) || smaller.is_ok_and(interrupted));
    });
}

#[test]
fn a_value_that_an_engine_stores_by_itself_is_published_and_monitored_once_it_is_evaluated() {
    loom::model(|| {
        let fence = Fence::new();
        let engine = spawn!(fence => {
            fence.done.write();
            words::store(slice::from_ref(fence.cell().current), &[1u64.to_ne_bytes()]);
            fence.cell().evaluate(Some(&fence.published))
        });
        if fence.published.load(Ordering::Acquire) == 1 {
            fence.done.read();
        }
        FenceCell::monitor([(fence.cell(), 0)]);
        let current = fence.cell().current();
        if current >= 1 {
            fence.done.read();
        }
        let signaled = engine.join().unwrap();
        assert!(signaled.interrupt || current >= 1, "the interrupt was missed");
        assert_eq!(fence.published.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_fence_that_is_abandoned_amid_a_signal_stays_published_as_always_signaled() {
    loom::model(|| {
        let fence = Fence::new();
        let signaling = spawn!(fence => fence.signal(1));
        let _ = fence.cell().abandon(Some(&fence.published));
        signaling.join().unwrap().unwrap();
        assert_eq!(fence.published.load(Ordering::Relaxed), u64::MAX);
        // No later evaluation takes it back.
        let _ = fence.cell().evaluate(Some(&fence.published));
        assert_eq!(fence.published.load(Ordering::Relaxed), u64::MAX);
    });
}

#[test]
fn a_signal_that_comes_too_late_for_a_fence_that_is_signaled_for_good_knows_that() {
    loom::model(|| {
        let fence = Fence::new();
        let signaling =
            spawn!(fence => fence.signal(1).is_ok() || fence.cell().is_always_signaled());
        let _ = fence.cell().abandon(None);
        fence.signal(u64::MAX).unwrap();
        assert!(signaling.join().unwrap(), "its queue would be lost over it");
    });
}

#[test]
fn an_engine_that_waits_for_an_abandoned_fence_is_called_or_continues() {
    loom::model(|| {
        let fence = Fence::new();
        let abandoning = spawn!(fence => fence.cell().abandon(Some(&fence.published)));
        let reached = fence.cell().wait(Some(&fence.published), 5, 1);
        let signaled = abandoning.join().unwrap();
        assert!(reached || signaled.engines == 1 << 5, "the wait never ends");
        assert!(fence.cell().wait(Some(&fence.published), 5, u64::MAX));
    });
}

#[test]
fn a_poller_of_a_fence_finds_what_an_engine_did_even_if_another_engine_published_its_value() {
    loom::model(|| {
        let fence = Fence::new();
        let signaling = spawn!(fence => fence.work_and_signal(1).unwrap());
        let evaluating = spawn!(fence => fence.cell().evaluate(Some(&fence.published)));
        if fence.published.load(Ordering::Acquire) == 1 {
            fence.done.read();
        }
        signaling.join().unwrap();
        let _ = evaluating.join().unwrap();
        assert_eq!(fence.published.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_fence_without_waiters_does_not_interrupt() {
    loom::model(|| {
        let fence = Fence::new();
        FenceCell::monitor([(fence.cell(), NOT_MONITORED)]);
        let signaled = fence.signal(u64::MAX).unwrap();
        assert_eq!(signaled, Signaled { interrupt: false, engines: 0 });
    });
}

#[test]
fn of_a_signal_and_a_rewind_the_one_that_stands_stays_published_and_no_waiter_of_it_is_missed() {
    loom::model(|| {
        let fence = Fence::at(5, SignalRule::Rewindable);
        let greater = spawn!(fence => fence.signal(7).unwrap());
        let smaller = spawn!(fence => fence.signal(1).unwrap());
        // A CPU waits for 6.
        FenceCell::monitor([(fence.cell(), 5)]);
        let reached = fence.cell().current() >= 6;
        let interrupts = [greater, smaller].map(|engine| engine.join().unwrap().interrupt);
        let stands = fence.cell().current();
        assert_eq!(fence.published.load(Ordering::Relaxed), stands);
        assert!(stands == 7 || stands == 1);
        assert!(stands == 1 || reached || interrupts.contains(&true), "the interrupt was missed");
    });
}

#[test]
fn a_cpu_that_waits_for_a_value_after_a_rewind_is_interrupted_or_sees_it() {
    loom::model(|| {
        let fence = Fence::at(5, SignalRule::Rewindable);
        let engine = spawn!(fence => {
            fence.signal(0).unwrap();
            fence.work_and_signal(3).unwrap().interrupt
        });
        // The CPU has seen the rewind, and waits for 3.
        let mut current = fence.cell().current();
        if current == 5 {
            engine.join().unwrap();
            return;
        }
        FenceCell::monitor([(fence.cell(), 2)]);
        current = fence.cell().current();
        if current >= 3 {
            fence.done.read();
        }
        assert!(engine.join().unwrap() || current >= 3, "the interrupt was missed");
    });
}

#[test]
fn an_engine_that_waits_for_a_value_after_a_rewind_is_called_or_sees_it() {
    loom::model(|| {
        assert_called_or_seen(Fence::at(5, SignalRule::Rewindable), [0, 6]);
    });
}

#[test]
fn a_fence_that_is_signaled_for_good_is_not_rewound() {
    loom::model(|| {
        let fence = Fence::at(5, SignalRule::Rewindable);
        let engine = spawn!(fence => fence.signal(1));
        fence.signal(u64::MAX).unwrap();
        let rewound = engine.join().unwrap();
        assert_eq!(fence.cell().current(), u64::MAX);
        assert_eq!(fence.published.load(Ordering::Relaxed), u64::MAX);
        let late = WentBackwards { current: u64::MAX, value: 1 };
        assert!(rewound.is_ok() || rewound == Err(late));
    });
}

/// A fence that two guests share: one CurrentValue, and everything else once per guest. MonitoredValues are 0.
struct Views {
    current: AtomicU64,
    monitored: [AtomicU64; 2],
    waiting_engines: [AtomicU64; 2],
    always: [AtomicU64; 2],
    published: [AtomicU64; 2],
    done: Bytes,
}

impl Views {
    fn new() -> Arc<Self> {
        let zeroes = || [AtomicU64::new(0), AtomicU64::new(0)];
        let (monitored, waiting_engines, published) = (zeroes(), zeroes(), zeroes());
        let (current, always, done) = (AtomicU64::new(0), zeroes(), Bytes::new());
        Arc::new(Self { current, monitored, waiting_engines, always, published, done })
    }

    fn cell(&self, view: usize) -> FenceCell<'_> {
        FenceCell {
            current: &self.current,
            monitored: &self.monitored[view],
            waiting_engines: &self.waiting_engines[view],
            always: &self.always[view],
            rule: SignalRule::Monotonic,
        }
    }

    /// Engine: signals through one view. The interrupt makes the host evaluate the other view; returns the engines
    /// to be called there.
    fn signal(&self, view: usize, value: u64) -> u64 {
        match self.cell(view).signal(Some(&self.published[view]), value) {
            Ok(signaled) => assert!(signaled.interrupt, "each signal must interrupt"),
            // The other signal is greater, and evaluates for both.
            Err(_) => return 0,
        }
        let other = 1 - view;
        self.cell(other).evaluate(Some(&self.published[other])).engines
    }
}

#[test]
fn an_engine_that_waits_in_one_view_is_called_by_a_signal_in_the_other_or_sees_the_value() {
    loom::model(|| {
        let views = Views::new();
        let signaling = spawn!(views => {
            views.done.write();
            views.signal(1, 1)
        });
        let reached = views.cell(0).wait(Some(&views.published[0]), 5, 1);
        if reached {
            views.done.read();
        }
        let engines = signaling.join().unwrap();
        assert!(reached || engines == 1 << 5, "the wait never ends");
        assert_eq!(views.published[0].load(Ordering::Relaxed), 1);
    });
}

#[test]
fn who_polls_a_view_finds_what_the_engine_did_that_signaled_in_the_other() {
    loom::model(|| {
        let views = Views::new();
        let signaling = spawn!(views => {
            views.done.write();
            views.signal(1, 1)
        });
        if views.published[0].load(Ordering::Acquire) == 1 {
            views.done.read();
        }
        signaling.join().unwrap();
    });
}

#[test]
fn of_two_signals_in_two_views_the_greater_value_stays_published_in_both() {
    let mut model = loom::model::Builder::new();
    // Explores only interleavings with few voluntary switches, unless there is time.
    if std::env::var_os("BELLHOP_DEEP_MODELS").is_none() {
        model.preemption_bound = Some(3);
    }
    model.check(|| {
        let views = Views::new();
        let signaling = spawn!(views => views.signal(1, 2));
        views.signal(0, 1);
        signaling.join().unwrap();
        assert_eq!(views.cell(0).current(), 2);
        for published in &views.published {
            assert_eq!(published.load(Ordering::Relaxed), 2);
        }
    });
}
