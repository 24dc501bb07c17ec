// SPDX-License-Identifier: MIT OR Apache-2.0

//! One doorbell for all queues of a guest.

use super::{KICK, Queue, is_written};
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::handoff::doorbell::DoorbellWords;
use bellhop_protocol::handoff::hint::HintWord;
use bellhop_protocol::handoff::sync::AtomicU64;
use loom::sync::Arc;
use loom::thread;

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
                // The notification makes the host kick the engine.
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
        // The engine does not look again while the word stays unchanged.
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
            // One engine per queue: another model covers two calls of one engine.
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
        let guest = spawn!(word, queue => {
            queue.push();
            HintWord::new(&word).ring(1, &queue.words())
        });
        queue.words().disconnect(ConnectionStatus::DISCONNECTED_RETRY);
        let last_look = is_written(&queue);
        if guest.join().unwrap() == ConnectionStatus::CONNECTED {
            assert!(last_look, "the ring was lost");
        }
    });
}
