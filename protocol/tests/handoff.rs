//! Models of the hand-offs: every interleaving and every reordering that the memory model allows,
//! over the types that the product uses.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p bellhop-protocol --release --test handoff`. That
//! they are strong enough is checked too: `cargo xtask mutants` weakens every ordering of these
//! types in turn, and each time a model here must fail.
#![cfg(loom)]

use bellhop_protocol::doorbell::{ConnectionStatus, DoorbellStatus};
use bellhop_protocol::handoff::attention::Attention;
use bellhop_protocol::handoff::doorbell::{DoorbellWords, RingPointers};
use bellhop_protocol::handoff::fence::{FenceCell, NOT_MONITORED, Signaled, WentBackwards};
use bellhop_protocol::handoff::hint::HintWord;
use bellhop_protocol::handoff::preemption::Preemption;
use bellhop_protocol::handoff::run_list::Membership;
use bellhop_protocol::handoff::sync::{AtomicU64, Ordering};
use bellhop_protocol::handoff::tlb::TlbUsers;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

const KICK: u64 = 1;

/// Memory that a hand-off hands over, as ring buffers and resources are: plain bytes. A model in
/// which two threads use it at the same time, one of them writing, fails.
struct Bytes(UnsafeCell<()>);

// SAFETY: there is nothing in it to race for. Its accesses only tell loom that they take place.
#[allow(unsafe_code)]
unsafe impl Sync for Bytes {}

impl Bytes {
    fn new() -> Self {
        Self(UnsafeCell::new(()))
    }

    fn write(&self) {
        self.0.with_mut(|_| ());
    }

    fn read(&self) {
        self.0.with(|_| ());
    }
}

/// A logical doorbell with its ring buffer control, and the engine that serves it.
struct Queue {
    doorbell: AtomicU64,
    status: AtomicU64,
    write: AtomicU64,
    read: AtomicU64,
    packets: Bytes,
    attention: Attention,
}

impl Queue {
    fn new(status: ConnectionStatus) -> Arc<Self> {
        Arc::new(Self {
            doorbell: AtomicU64::new(0),
            status: AtomicU64::new(DoorbellStatus::new(status).0),
            write: AtomicU64::new(0),
            read: AtomicU64::new(0),
            packets: Bytes::new(),
            attention: Attention::new(),
        })
    }

    fn words(&self) -> DoorbellWords<'_> {
        DoorbellWords::new(&self.doorbell, &self.status)
    }

    fn pointers(&self) -> RingPointers<'_> {
        RingPointers::new(&self.write, &self.read)
    }

    /// Guest: puts 8 bytes of packets into the ring.
    fn push(&self) {
        self.packets.write();
        self.pointers().publish(8);
    }
}

/// The ring that follows is on a page that nobody watches: only the status and the write pointer
/// are shared with the host.
fn ring_dummy_page(queue: &Queue) -> ConnectionStatus {
    let dummy = AtomicU64::new(0);
    queue.push();
    DoorbellWords::new(&dummy, &queue.status).ring(8)
}

#[test]
fn a_ring_is_seen_before_the_engine_sleeps_or_the_guest_is_told_to_notify() {
    loom::model(|| {
        let queue = Queue::new(ConnectionStatus::CONNECTED);
        let guest = {
            let queue = queue.clone();
            thread::spawn(move || {
                queue.push();
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
            thread::spawn(move || ring_dummy_page(&queue))
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
                queue.push();
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
                queue.push();
                queue.words().ring(8)
            })
        };
        if queue.words().look() == 8 {
            queue.packets.read();
            assert_eq!(queue.pointers().written(), 8);
        }
        assert_eq!(guest.join().unwrap(), ConnectionStatus::CONNECTED);
    });
}

#[test]
fn packets_are_read_after_a_kick_without_any_ring() {
    loom::model(|| {
        let queue = Queue::new(ConnectionStatus::DISCONNECTED_RETRY);
        let guest = {
            let queue = queue.clone();
            thread::spawn(move || queue.push())
        };
        if queue.pointers().written() == 8 {
            queue.packets.read();
        }
        guest.join().unwrap();
    });
}

#[test]
fn packets_are_overwritten_only_after_they_were_read() {
    loom::model(|| {
        let queue = Queue::new(ConnectionStatus::CONNECTED);
        queue.push();
        let engine = {
            let queue = queue.clone();
            thread::spawn(move || {
                queue.packets.read();
                queue.pointers().consume(8);
            })
        };
        if queue.pointers().consumed() == 8 {
            queue.packets.write();
        }
        engine.join().unwrap();
    });
}

#[test]
fn who_reads_a_status_finds_what_the_host_did_before_it() {
    for (first, then) in [
        (ConnectionStatus::DISCONNECTED_RETRY, ConnectionStatus::CONNECTED),
        (ConnectionStatus::CONNECTED, ConnectionStatus::DISCONNECTED_ABORT),
    ] {
        loom::model(move || {
            let queue = Queue::new(first);
            let left = Arc::new(Bytes::new());
            let host = {
                let (queue, left) = (queue.clone(), left.clone());
                thread::spawn(move || {
                    left.write();
                    match then {
                        ConnectionStatus::CONNECTED => queue.words().connect(then),
                        _ => queue.words().disconnect(then),
                    }
                })
            };
            if queue.words().status() == then {
                left.read();
            }
            host.join().unwrap();
        });
    }
}

#[test]
fn who_reads_a_status_that_an_engine_armed_finds_what_the_host_did_before_it_connected() {
    loom::model(|| {
        let queue = Queue::new(ConnectionStatus::DISCONNECTED_RETRY);
        let left = Arc::new(Bytes::new());
        let host = {
            let (queue, left) = (queue.clone(), left.clone());
            thread::spawn(move || {
                left.write();
                queue.words().connect(ConnectionStatus::CONNECTED);
            })
        };
        let engine = {
            let queue = queue.clone();
            thread::spawn(move || queue.words().arm())
        };
        if queue.words().status() == ConnectionStatus::CONNECTED_NOTIFY {
            left.read();
        }
        host.join().unwrap();
        engine.join().unwrap();
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
fn an_engine_finds_what_each_of_its_callers_did_before_it_called() {
    loom::model(|| {
        let attention = Arc::new(Attention::new());
        let callers = [1, 2].map(|bit| {
            let (attention, done) = (attention.clone(), Arc::new(Bytes::new()));
            let caller = {
                let done = done.clone();
                thread::spawn(move || {
                    done.write();
                    attention.raise(bit)
                })
            };
            (bit, done, caller)
        });
        let raised = attention.take();
        for (bit, done, _) in &callers {
            if raised & bit != 0 {
                done.read();
            }
        }
        for (_, _, caller) in callers {
            assert!(!caller.join().unwrap(), "an engine that is awake was to be woken");
        }
    });
}

/// A fence with its published CurrentValue, and what an engine did before it signaled.
struct Fence {
    cell: FenceCell,
    published: AtomicU64,
    done: Bytes,
}

impl Fence {
    fn new() -> Arc<Self> {
        Arc::new(Self { cell: FenceCell::new(0), published: AtomicU64::new(0), done: Bytes::new() })
    }

    /// Engine: does its work, then signals `value`.
    fn work_and_signal(&self, value: u64) -> Result<Signaled, WentBackwards> {
        self.done.write();
        self.cell.signal(&self.published, value)
    }
}

#[test]
fn a_cpu_waiter_is_interrupted_or_sees_the_value() {
    loom::model(|| {
        let fence = Fence::new();
        let engine = {
            let fence = fence.clone();
            thread::spawn(move || fence.work_and_signal(1).unwrap())
        };
        // Waits for 1, so the least waited value minus 1 is 0.
        let current = fence.cell.monitor(0);
        if current >= 1 {
            fence.done.read();
        }
        let signaled = engine.join().unwrap();
        assert!(signaled.interrupt || current >= 1, "the interrupt was missed");
    });
}

#[test]
fn a_waiting_engine_is_called_or_sees_the_value() {
    loom::model(|| {
        let fence = Fence::new();
        let signaling = {
            let fence = fence.clone();
            thread::spawn(move || fence.work_and_signal(1).unwrap())
        };
        let reached = fence.cell.wait(5, 1);
        if reached {
            fence.done.read();
        }
        let signaled = signaling.join().unwrap();
        assert!(reached || signaled.engines == 1 << 5, "the wait never ends");
    });
}

#[test]
fn an_engine_that_a_signal_calls_too_early_is_called_again_or_sees_the_value() {
    loom::model(|| {
        let fence = Fence::new();
        let attention = Arc::new(Attention::new());
        let signaling = {
            let (fence, attention) = (fence.clone(), attention.clone());
            thread::spawn(move || {
                for value in [1, 2] {
                    if fence.cell.signal(&fence.published, value).unwrap().engines != 0 {
                        let _awake = attention.raise(KICK);
                    }
                }
            })
        };
        let mut reached = fence.cell.wait(5, 2);
        if !reached && attention.take() == KICK {
            reached = fence.cell.wait(5, 2);
        }
        signaling.join().unwrap();
        assert!(reached || attention.take() == KICK, "the wait never ends");
    });
}

#[test]
fn a_waiting_engine_sees_the_fence_gone_or_its_destroyer_sees_it_wait() {
    const OWNER: u64 = 7;
    loom::model(|| {
        let fence = Fence::new();
        let owner = Arc::new(AtomicU64::new(OWNER));
        let waiting = {
            let (fence, owner) = (fence.clone(), owner.clone());
            thread::spawn(move || {
                assert!(!fence.cell.wait(5, 1));
                owner.load(Ordering::Relaxed)
            })
        };
        owner.store(0, Ordering::Relaxed);
        let engines = fence.cell.evaluate().engines;
        let seen = waiting.join().unwrap();
        assert!(engines == 1 << 5 || seen != OWNER, "the wait never ends");
    });
}

#[test]
fn who_polls_a_fence_finds_what_the_engine_did_before_it_signaled() {
    loom::model(|| {
        let fence = Fence::new();
        let engine = {
            let fence = fence.clone();
            thread::spawn(move || fence.work_and_signal(1).unwrap())
        };
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
        let smaller = {
            let (fence, earlier) = (fence.clone(), earlier.clone());
            thread::spawn(move || {
                // Not plain bytes: of an engine that signals too late nothing is promised.
                earlier.store(1, Ordering::Relaxed);
                fence.cell.signal(&fence.published, 1)
            })
        };
        let greater = {
            let fence = fence.clone();
            thread::spawn(move || fence.work_and_signal(2).unwrap())
        };
        let published = fence.published.load(Ordering::Acquire);
        let earlier = earlier.load(Ordering::Relaxed);
        if published == 2 {
            // Either engine may have published it.
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
        assert!(!fence.cell.wait(5, 9));
        assert_eq!(fence.cell.monitor(0), 0);
        let owner = Arc::new(AtomicU64::new(0));
        let engine = {
            let (fence, owner) = (fence.clone(), owner.clone());
            thread::spawn(move || {
                if owner.load(Ordering::Acquire) == 7 {
                    let signaled = fence.cell.signal(&fence.published, 4).unwrap();
                    assert_eq!(signaled, Signaled { interrupt: false, engines: 0 });
                    assert!(fence.cell.wait(5, 4));
                }
            })
        };
        fence.cell.reset(3);
        owner.store(7, Ordering::Release);
        engine.join().unwrap();
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
        assert_eq!(published.load(Ordering::Relaxed), 2);
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

#[test]
fn a_suspended_queue_is_not_executed_once_its_engine_has_answered() {
    loom::model(|| {
        let shared = Arc::new((Membership::new(), Attention::new(), Bytes::new()));
        let answered = Arc::new(AtomicU64::new(0));
        let engine = {
            let (shared, answered) = (shared.clone(), answered.clone());
            thread::spawn(move || {
                let (queue, attention, memory) = &*shared;
                for _ in 0..2 {
                    if attention.take() & KICK != 0 {
                        answered.store(1, Ordering::Release);
                    }
                    if queue.may_run() {
                        memory.read();
                    }
                }
            })
        };
        let (queue, attention, memory) = &*shared;
        queue.suspend();
        let _ = attention.raise(KICK);
        if answered.load(Ordering::Acquire) == 1 {
            // Eviction, for example.
            memory.write();
        }
        engine.join().unwrap();
    });
}

#[test]
fn a_preempted_queue_that_is_told_to_have_stopped_is_not_executed() {
    loom::model(|| {
        let shared = Arc::new((Membership::new(), Preemption::new(), Bytes::new()));
        let engine = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (queue, preemption, memory) = &*shared;
                if queue.may_run() {
                    memory.read();
                }
                let _ = preemption.stop();
                if queue.may_run() {
                    memory.read();
                }
            })
        };
        let (queue, preemption, memory) = &*shared;
        queue.suspend();
        preemption.ask(7);
        if let Some(fence) = preemption.report() {
            assert_eq!(fence, 7);
            assert_eq!(preemption.report(), None);
            // Eviction, for example.
            memory.write();
        }
        engine.join().unwrap();
    });
}

#[test]
fn a_resumed_queue_finds_what_was_made_ready_for_it_and_is_looked_at() {
    loom::model(|| {
        let shared = Arc::new((Membership::new(), Attention::new(), Bytes::new()));
        shared.0.suspend();
        let engine = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (queue, attention, memory) = &*shared;
                let mut turns = 0;
                // It has work, and looks once by itself and once more when it is called.
                for _ in 0..2 {
                    let called = attention.take() & KICK != 0;
                    let runs = queue.may_run();
                    assert!(runs || !called, "called to look, and passed over");
                    if runs {
                        memory.read();
                        turns += 1;
                    }
                }
                turns
            })
        };
        let (queue, attention, memory) = &*shared;
        memory.write();
        queue.resume();
        let _ = attention.raise(KICK);
        let turns = engine.join().unwrap();
        assert!(turns > 0 || attention.take() == KICK, "nobody looks at the queue again");
    });
}

/// The engine's second kind of look: at the write pointer, which is the truth where the doorbell
/// word is only a hint.
fn is_written(queue: &Queue) -> bool {
    let written = queue.pointers().written() == 8;
    if written {
        queue.packets.read();
    }
    written
}

/// Two queues that ring one global doorbell, each once.
fn ring_global(
    word: &Arc<AtomicU64>,
    queues: &[Arc<Queue>; 2],
) -> Vec<thread::JoinHandle<Option<bool>>> {
    let ring = |(queue, value): (&Arc<Queue>, u64)| {
        let (word, queue) = (word.clone(), queue.clone());
        thread::spawn(move || {
            queue.push();
            match HintWord::new(&word).ring(value, &queue.words()) {
                ConnectionStatus::CONNECTED => None,
                // Notifying makes the host kick the engine.
                _ => Some(queue.attention.raise(KICK)),
            }
        })
    };
    queues.iter().zip(1..).map(ring).collect()
}

#[test]
fn who_sees_the_last_of_two_global_rings_sees_the_work_of_both() {
    loom::model(|| {
        let word = Arc::new(AtomicU64::new(0));
        let queues = [(); 2].map(|()| Queue::new(ConnectionStatus::CONNECTED));
        let guests = ring_global(&word, &queues);
        let mut last = 0;
        let scanned = HintWord::new(&word).changed(&mut last);
        let seen = scanned.then(|| queues.each_ref().map(|queue| is_written(queue)));
        for guest in guests {
            assert_eq!(guest.join().unwrap(), None);
        }
        // The engine looks no more when the word stays as it has seen it.
        if !HintWord::new(&word).changed(&mut last) {
            assert_eq!(seen, Some([true; 2]), "an overwritten ring was lost");
        }
    });
}

#[test]
fn of_two_global_rings_none_is_lost_when_the_engine_falls_asleep() {
    loom::model(|| {
        let word = Arc::new(AtomicU64::new(0));
        let queues = [(); 2].map(|()| Queue::new(ConnectionStatus::CONNECTED));
        let guests = ring_global(&word, &queues);
        for queue in &queues {
            queue.words().arm();
        }
        DoorbellWords::after_arming();
        let seen = queues.each_ref().map(|queue| is_written(queue));
        for ((guest, queue), seen) in guests.into_iter().zip(&queues).zip(seen) {
            // An engine for each queue: how two calls of one meet is a model of its own.
            let slept = !seen && queue.attention.try_sleep();
            let notified = guest.join().unwrap();
            assert!(seen || notified.is_some(), "the ring was lost");
            if slept {
                assert_eq!(notified, Some(true), "nobody wakes the engine");
            }
        }
    });
}

#[test]
fn a_global_ring_before_a_disconnect_is_seen_by_the_last_look() {
    loom::model(|| {
        let word = Arc::new(AtomicU64::new(0));
        let queue = Queue::new(ConnectionStatus::CONNECTED);
        let guest = {
            let (word, queue) = (word.clone(), queue.clone());
            thread::spawn(move || {
                queue.push();
                HintWord::new(&word).ring(1, &queue.words())
            })
        };
        queue.words().disconnect(ConnectionStatus::DISCONNECTED_RETRY);
        let last_look = is_written(&queue);
        if guest.join().unwrap() == ConnectionStatus::CONNECTED {
            assert!(last_look, "the ring was lost");
        }
    });
}

#[test]
fn a_ring_that_a_rotated_page_never_shows_is_found_before_the_engine_sleeps() {
    loom::model(|| {
        let queue = Queue::new(ConnectionStatus::CONNECTED);
        let guest = {
            let queue = queue.clone();
            thread::spawn(move || ring_dummy_page(&queue))
        };
        queue.words().arm();
        DoorbellWords::after_arming();
        let last_look = is_written(&queue);
        if guest.join().unwrap() == ConnectionStatus::CONNECTED {
            assert!(last_look, "the ring was lost");
        }
    });
}

#[test]
fn a_store_of_an_earlier_owner_hides_no_ring_of_a_rotated_doorbell() {
    loom::model(|| {
        let queue = Queue::new(ConnectionStatus::CONNECTED);
        let late = {
            let queue = queue.clone();
            // Of all that it may store, the value that the engine has seen last is the worst.
            thread::spawn(move || queue.doorbell.store(0, Ordering::Relaxed))
        };
        let guest = {
            let queue = queue.clone();
            thread::spawn(move || {
                queue.push();
                queue.words().ring(8)
            })
        };
        let mut last = 0;
        let mut seen = HintWord::new(&queue.doorbell).changed(&mut last) && is_written(&queue);
        if !seen {
            queue.words().arm();
            DoorbellWords::after_arming();
            seen = is_written(&queue);
        }
        late.join().unwrap();
        if guest.join().unwrap() == ConnectionStatus::CONNECTED {
            assert!(seen, "the ring was lost");
        }
    });
}

#[test]
fn an_engine_that_remembers_an_old_entry_is_asked_to_flush() {
    const OLD: u64 = 1;
    const NEW: u64 = 2;
    loom::model(|| {
        let shared = Arc::new((TlbUsers::new(), AtomicU64::new(OLD)));
        let engine = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (users, entry) = &*shared;
                // The second time, it is known to use the address space already.
                [(); 2].map(|()| {
                    users.enter(3);
                    entry.load(Ordering::Acquire)
                })
            })
        };
        let (users, entry) = &*shared;
        entry.store(NEW, Ordering::Release);
        let flushed = users.after_change();
        let remembered = engine.join().unwrap();
        assert!(flushed == 1 << 3 || remembered == [NEW; 2], "{flushed:#b}, {remembered:?}");
    });
}
