// SPDX-License-Identifier: MIT OR Apache-2.0

//! Doorbells with a rotated page.

use super::{Queue, is_written, ring_dummy_page};
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::handoff::doorbell::DoorbellWords;
use bellhop_protocol::handoff::hint::HintWord;
use bellhop_protocol::handoff::sync::Ordering;
use loom::thread;

#[test]
fn a_ring_that_a_rotated_page_never_shows_is_found_before_the_engine_sleeps() {
    loom::model(|| {
        let queue = Queue::new(ConnectionStatus::CONNECTED);
        let guest = spawn!(queue => ring_dummy_page(&queue));
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
            // Of all values that it may store, the one that the engine has seen last is the worst.
            thread::spawn(move || queue.doorbell.store(0, Ordering::Relaxed))
        };
        let guest = spawn!(queue => {
            queue.push();
            queue.words().ring(8)
        });
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
