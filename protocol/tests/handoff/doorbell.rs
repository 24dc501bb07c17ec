// SPDX-License-Identifier: MIT OR Apache-2.0

//! A ring, its status word, and the engine and host that look at it.

use super::{Bytes, KICK, Queue, ring_dummy_page};
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::handoff::doorbell::DoorbellWords;
use loom::sync::Arc;

#[test]
fn a_ring_is_seen_before_the_engine_sleeps_or_the_guest_is_told_to_notify() {
    loom::model(|| {
        let queue = Queue::new(ConnectionStatus::CONNECTED);
        let guest = spawn!(queue => {
            queue.push();
            match queue.words().ring(8) {
                ConnectionStatus::CONNECTED => None,
                // The notification makes the host kick the engine.
                _ => Some(queue.attention.raise(KICK)),
            }
        });
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
        let engine = spawn!(queue => {
            queue.words().disarm();
            queue.words().arm();
        });
        queue.words().disconnect(ConnectionStatus::DISCONNECTED_RETRY);
        engine.join().unwrap();
        assert_eq!(queue.words().status(), ConnectionStatus::DISCONNECTED_RETRY);
    });
}

#[test]
fn a_ring_before_a_disconnect_is_seen_by_the_last_look() {
    loom::model(|| {
        let queue = Queue::new(ConnectionStatus::CONNECTED);
        let guest = spawn!(queue => ring_dummy_page(&queue));
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
        let ringing = spawn!(queue => {
            queue.push();
            queue.words().ring(8)
        });
        // Another thread of the guest makes the host connect; the engine looks at the write pointer, finds nothing
        // and goes to sleep.
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
        let guest = spawn!(queue => {
            queue.push();
            queue.words().ring(8)
        });
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
        let guest = spawn!(queue => queue.push());
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
        let engine = spawn!(queue => {
            queue.packets.read();
            queue.pointers().consume(8);
        });
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
            let host = spawn!(queue, left => {
                left.write();
                match then {
                    ConnectionStatus::CONNECTED => queue.words().connect(then),
                    _ => queue.words().disconnect(then),
                }
            });
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
        let host = spawn!(queue, left => {
            left.write();
            queue.words().connect(ConnectionStatus::CONNECTED);
        });
        let engine = spawn!(queue => queue.words().arm());
        if queue.words().status() == ConnectionStatus::CONNECTED_NOTIFY {
            left.read();
        }
        host.join().unwrap();
        engine.join().unwrap();
    });
}
