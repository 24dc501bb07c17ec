//! Models of the hand-offs: every interleaving and every reordering that the memory model allows,
//! over the types that the product uses.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p bellhop-protocol --release --test handoff`.
#![cfg(loom)]

use bellhop_protocol::doorbell::{ConnectionStatus, DoorbellStatus};
use bellhop_protocol::handoff::attention::Attention;
use bellhop_protocol::handoff::doorbell::{DoorbellWords, RingPointers};
use bellhop_protocol::handoff::fence::{FenceCell, NOT_MONITORED, Signaled};
use bellhop_protocol::handoff::sync::AtomicU64;
use loom::sync::Arc;
use loom::thread;

const KICK: u64 = 1;

/// A logical doorbell with its ring buffer control, and the engine that serves it.
struct Queue {
    doorbell: AtomicU64,
    status: AtomicU64,
    write: AtomicU64,
    read: AtomicU64,
    attention: Attention,
}

impl Queue {
    fn new(status: ConnectionStatus) -> Arc<Self> {
        Arc::new(Self {
            doorbell: AtomicU64::new(0),
            status: AtomicU64::new(DoorbellStatus::new(status).0),
            write: AtomicU64::new(0),
            read: AtomicU64::new(0),
            attention: Attention::new(),
        })
    }

    fn words(&self) -> DoorbellWords<'_> {
        DoorbellWords::new(&self.doorbell, &self.status)
    }

    fn pointers(&self) -> RingPointers<'_> {
        RingPointers::new(&self.write, &self.read)
    }
}

/// The ring that follows is on a page that nobody watches: only the status and the write pointer
/// are shared with the host.
fn ring_dummy_page(queue: &Queue, position: u64) -> ConnectionStatus {
    let dummy = AtomicU64::new(0);
    queue.pointers().publish(position);
    DoorbellWords::new(&dummy, &queue.status).ring(position)
}

#[test]
fn a_ring_is_seen_before_the_engine_sleeps_or_the_guest_is_told_to_notify() {
    loom::model(|| {
        let queue = Queue::new(ConnectionStatus::CONNECTED);
        let guest = {
            let queue = queue.clone();
            thread::spawn(move || {
                queue.pointers().publish(8);
                match queue.words().ring(8) {
                    ConnectionStatus::CONNECTED => None,
                    // Notifying makes the host kick the engine.
                    _ => Some(queue.attention.raise(KICK)),
                }
            })
        };
        queue.words().arm();
        DoorbellWords::after_arming();
        let seen = queue.words().look() == 8;
        if seen {
            assert_eq!(queue.pointers().written(), 8);
        }
        let slept = !seen && queue.attention.try_sleep();
        let notified = guest.join().unwrap();
        assert!(seen || notified.is_some(), "the ring was lost");
        if slept {
            assert_eq!(notified, Some(true), "nobody wakes the engine");
        }
        if !seen && !slept {
            assert_eq!(queue.attention.take(), KICK);
        }
    });
}

#[test]
fn an_engine_that_wakes_does_not_undo_a_disconnect() {
    loom::model(|| {
        let queue = Queue::new(ConnectionStatus::CONNECTED_NOTIFY);
        let engine = {
            let queue = queue.clone();
            thread::spawn(move || {
                queue.words().disarm();
                queue.words().arm();
            })
        };
        queue.words().disconnect(ConnectionStatus::DISCONNECTED_RETRY);
        engine.join().unwrap();
        assert_eq!(queue.words().status(), ConnectionStatus::DISCONNECTED_RETRY);
    });
}

#[test]
fn a_ring_before_a_disconnect_is_seen_by_the_last_look() {
    loom::model(|| {
        let queue = Queue::new(ConnectionStatus::CONNECTED);
        let guest = {
            let queue = queue.clone();
            thread::spawn(move || ring_dummy_page(&queue, 8))
        };
        queue.words().disconnect(ConnectionStatus::DISCONNECTED_RETRY);
        let last_look = queue.pointers().written();
        if guest.join().unwrap() == ConnectionStatus::CONNECTED {
            assert_eq!(last_look, 8, "the ring was lost");
        }
    });
}

#[test]
fn a_ring_that_another_threads_connect_overtakes_is_seen_or_told_to_notify() {
    loom::model(|| {
        let queue = Queue::new(ConnectionStatus::DISCONNECTED_RETRY);
        let ringing = {
            let queue = queue.clone();
            thread::spawn(move || {
                queue.pointers().publish(8);
                queue.words().ring(8)
            })
        };
        // Another thread of the guest has the host connect; the engine looks at the write pointer
        // and, finding nothing, goes to sleep.
        queue.words().connect(ConnectionStatus::CONNECTED);
        let mut seen = queue.pointers().written() == 8;
        if !seen {
            queue.words().arm();
            DoorbellWords::after_arming();
            seen = queue.words().look() == 8;
        }
        if ringing.join().unwrap() == ConnectionStatus::CONNECTED {
            assert!(seen, "the ring was lost");
        }
    });
}

#[test]
fn what_was_written_before_a_ring_is_read_after_the_look() {
    loom::model(|| {
        let queue = Queue::new(ConnectionStatus::CONNECTED);
        let guest = {
            let queue = queue.clone();
            thread::spawn(move || {
                queue.pointers().publish(8);
                queue.words().ring(8)
            })
        };
        if queue.words().look() == 8 {
            assert_eq!(queue.pointers().written(), 8);
        }
        queue.pointers().consume(0);
        assert_eq!(guest.join().unwrap(), ConnectionStatus::CONNECTED);
    });
}

#[test]
fn of_several_calls_exactly_one_wakes_a_sleeping_engine_and_none_is_lost() {
    loom::model(|| {
        let attention = Arc::new(Attention::new());
        let callers: Vec<_> = [1, 2]
            .into_iter()
            .map(|bit| {
                let attention = attention.clone();
                thread::spawn(move || attention.raise(bit))
            })
            .collect();
        let slept = attention.try_sleep();
        let wakes = callers.into_iter().filter_map(|caller| caller.join().unwrap().then_some(()));
        assert_eq!(wakes.count(), usize::from(slept));
        assert_eq!(attention.take(), 3);
        assert!(!attention.is_asleep());
    });
}

#[test]
fn a_cpu_waiter_is_interrupted_or_sees_the_value() {
    loom::model(|| {
        let cell = Arc::new(FenceCell::new(0));
        let engine = {
            let cell = cell.clone();
            thread::spawn(move || cell.signal(&AtomicU64::new(0), 1).unwrap())
        };
        // Waits for 1, so the least waited value minus 1 is 0.
        let current = cell.monitor(0);
        let signaled = engine.join().unwrap();
        assert!(signaled.interrupt || current >= 1, "the interrupt was missed");
    });
}

#[test]
fn a_waiting_engine_is_called_or_sees_the_value() {
    loom::model(|| {
        let cell = Arc::new(FenceCell::new(0));
        let signaling = {
            let cell = cell.clone();
            thread::spawn(move || cell.signal(&AtomicU64::new(0), 1).unwrap())
        };
        let reached = cell.wait(5, 1);
        let signaled = signaling.join().unwrap();
        assert!(reached || signaled.engines == 1 << 5, "the wait never ends");
    });
}

#[test]
fn of_two_signals_the_greater_value_stays_published_and_is_monitored() {
    loom::model(|| {
        let cell = Arc::new(FenceCell::new(0));
        let published = Arc::new(AtomicU64::new(0));
        assert_eq!(cell.monitor(1), 0);
        let smaller = {
            let (cell, published) = (cell.clone(), published.clone());
            thread::spawn(move || cell.signal(&published, 1))
        };
        let greater = cell.signal(&published, 2).unwrap();
        let smaller = smaller.join().unwrap();
        assert_eq!(cell.current(), 2);
        assert_eq!(published.load(core::sync::atomic::Ordering::Relaxed), 2);
        let interrupted = |signaled: Signaled| signaled.interrupt;
        assert!(interrupted(greater) || smaller.is_ok_and(interrupted));
    });
}

#[test]
fn a_fence_that_nobody_waits_for_interrupts_nobody() {
    loom::model(|| {
        let cell = FenceCell::new(0);
        assert_eq!(cell.monitor(NOT_MONITORED), 0);
        let signaled = cell.signal(&AtomicU64::new(0), u64::MAX).unwrap();
        assert_eq!(signaled, Signaled { interrupt: false, engines: 0 });
    });
}
