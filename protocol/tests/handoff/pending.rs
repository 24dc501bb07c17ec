// SPDX-License-Identifier: MIT OR Apache-2.0

//! Pending changes, which a consumer is told of once, and interrupt lines.

use super::Bytes;
use bellhop_protocol::handoff::pending::{InterruptLine, Pending, PendingSet};
use bellhop_protocol::handoff::sync::{AtomicU64, Ordering};
use loom::sync::Arc;
use loom::thread;

/// Changes of two producers.
struct Changes([AtomicU64; 2]);

impl Changes {
    fn new() -> Self {
        Self([AtomicU64::new(0), AtomicU64::new(0)])
    }

    fn make(&self, producer: usize) {
        self.0[producer].store(1, Ordering::Relaxed);
    }

    /// The changes made so far, one bit each.
    fn look(&self) -> u64 {
        self.0.iter().zip([1, 2]).map(|(change, bit)| change.load(Ordering::Relaxed) * bit).sum()
    }
}

#[test]
fn a_change_that_a_look_misses_is_pending_and_the_consumer_is_told_once_for_each_look() {
    loom::model(|| {
        let shared = Arc::new((Pending::new(), Changes::new()));
        let producers = [0, 1].map(|producer| {
            let shared = shared.clone();
            thread::spawn(move || {
                let (pending, changes) = &*shared;
                changes.make(producer);
                pending.mark()
            })
        });
        let (pending, changes) = &*shared;
        let was_pending = pending.take();
        let seen = changes.look();
        let told =
            producers.into_iter().filter_map(|producer| producer.join().unwrap().then_some(()));
        let told = told.count();
        let is_pending = pending.take();
        assert!(seen == 3 || is_pending, "a change is never looked at");
        assert_eq!(told, usize::from(was_pending) + usize::from(is_pending));
    });
}

#[test]
fn a_producer_that_cannot_tell_hands_over_what_others_left_to_it() {
    loom::model(|| {
        let shared = Arc::new((Pending::new(), PendingSet::new(), Changes::new()));
        let producers = [0, 1].map(|producer| {
            let shared = shared.clone();
            thread::spawn(move || {
                let (pending, scan, changes) = &*shared;
                changes.make(producer);
                if pending.mark() {
                    // The producer has no room to tell the consumer.
                    pending.take();
                    scan.mark(1);
                }
            })
        });
        let (pending, scan, changes) = &*shared;
        let mut seen = 0;
        if scan.take() != 0 {
            seen = changes.look();
        }
        for producer in producers {
            producer.join().unwrap();
        }
        assert!(!pending.take(), "a change is pending that no producer tells of");
        assert!(scan.take() != 0 || seen == 3, "a change is never looked at");
    });
}

#[test]
fn what_a_set_says_is_there_is_there() {
    loom::model(|| {
        let shared = Arc::new((PendingSet::new(), [Bytes::new(), Bytes::new()]));
        let producers = [0, 1].map(|producer| {
            let shared = shared.clone();
            thread::spawn(move || {
                let (set, changes) = &*shared;
                changes[producer].write();
                set.mark(1 << producer);
            })
        });
        let (set, changes) = &*shared;
        let early = set.take();
        for (change, bit) in changes.iter().zip([1, 2]) {
            if early & bit != 0 {
                change.read();
            }
        }
        for producer in producers {
            producer.join().unwrap();
        }
        assert_eq!(early ^ set.take(), 3, "each is told once");
    });
}

/// The signal stands for an eventfd, which the operating system orders.
#[test]
fn no_cause_is_lost_however_often_the_line_is_raised() {
    loom::model(|| {
        let shared =
            Arc::new((InterruptLine::new(), AtomicU64::new(0), [Bytes::new(), Bytes::new()]));
        let producers = [0, 1].map(|producer| {
            let shared = shared.clone();
            thread::spawn(move || {
                let (line, signal, changes) = &*shared;
                changes[producer].write();
                if line.raise_for(1 << producer) {
                    signal.swap(1, Ordering::AcqRel);
                }
            })
        });
        let handle = || {
            let (line, signal, changes) = &*shared;
            if signal.swap(0, Ordering::AcqRel) == 0 {
                return 0;
            }
            let causes = line.take();
            for (change, bit) in changes.iter().zip([1, 2]) {
                if causes & bit != 0 {
                    change.read();
                }
            }
            causes
        };
        let early = handle();
        for producer in producers {
            producer.join().unwrap();
        }
        assert_eq!(early ^ handle(), 3, "a cause is never looked at");
    });
}

#[test]
fn what_was_left_before_the_line_was_raised_is_found_by_a_take_or_the_next() {
    loom::model(|| {
        let shared = Arc::new((InterruptLine::new(), Changes::new()));
        let producers = [0, 1].map(|producer| {
            let shared = shared.clone();
            thread::spawn(move || {
                let (line, changes) = &*shared;
                changes.make(producer);
                line.raise()
            })
        });
        let (line, changes) = &*shared;
        let causes = line.take();
        let seen = changes.look();
        for producer in producers {
            let _signaled = producer.join().unwrap();
        }
        assert_eq!(causes, 0);
        // Either the raised line has signaled, or this finds it lowered.
        assert!(seen == 3 || !line.raise(), "what was left is never found");
    });
}
