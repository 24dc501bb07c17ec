// SPDX-License-Identifier: MIT OR Apache-2.0

//! A guest that copies packets into the doorbell's line, and the engine that reads them there.

use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::handoff::doorbell::DoorbellWords;
use bellhop_protocol::handoff::doorbell_line::{DoorbellLine, LINE_WORDS, LineCopy};
use bellhop_protocol::handoff::sync::AtomicU64;
use loom::sync::Arc;

/// A doorbell's line and its status.
struct Doorbell {
    line: [AtomicU64; LINE_WORDS],
    status: AtomicU64,
}

impl Doorbell {
    fn new() -> Arc<Self> {
        let line = std::array::from_fn(|_| AtomicU64::new(0));
        Arc::new(Self { line, status: AtomicU64::new(0) })
    }

    fn line(&self) -> DoorbellLine<'_> {
        DoorbellLine::new(&self.line)
    }

    /// Guest: rings.
    fn ring(&self, write_pointer: u64) {
        let status = DoorbellWords::new(&self.line[0], &self.status).ring(write_pointer);
        assert_eq!(status, ConnectionStatus::CONNECTED);
    }

    /// Engine: the write pointer, and what it believes of a ring whose word at byte `8 * n` is `n + 1`.
    fn look(&self, position: u64) -> (u64, usize) {
        let written = DoorbellWords::look_at(&self.line[0]);
        let mut copy = LineCopy::NONE;
        self.line().read(written, position, &mut copy);
        let words = copy.at(position);
        for (word, expected) in words.iter().zip(position / 8 + 1..) {
            assert_eq!(*word, expected, "a word of another position, in a copy up to {written}");
        }
        (written, words.len())
    }
}

#[test]
fn a_copy_that_the_next_one_overwrites_is_not_believed() {
    loom::model(|| {
        let doorbell = Doorbell::new();
        let guest = spawn!(doorbell => {
            doorbell.line().begin(0);
            doorbell.line().copy(0, [1]);
            doorbell.ring(8);
            doorbell.line().begin(8);
            doorbell.line().copy(0, [2]);
            doorbell.ring(16);
        });
        doorbell.look(0);
        guest.join().unwrap();
    });
}

#[test]
fn an_engine_that_has_read_further_believes_only_what_is_new() {
    loom::model(|| {
        let doorbell = Doorbell::new();
        doorbell.line().begin(0);
        doorbell.line().copy(0, [1]);
        doorbell.ring(8);
        let guest = spawn!(doorbell => {
            doorbell.line().begin(8);
            doorbell.line().copy(0, [2]);
            doorbell.ring(16);
            doorbell.line().begin(16);
            doorbell.line().copy(0, [3]);
        });
        doorbell.look(8);
        guest.join().unwrap();
    });
}

#[test]
fn packets_that_are_added_to_a_copy_leave_those_before_them() {
    loom::model(|| {
        let doorbell = Doorbell::new();
        let guest = spawn!(doorbell => {
            doorbell.line().copy(0, [1]);
            doorbell.ring(8);
            doorbell.line().copy(1, [2]);
            doorbell.ring(16);
        });
        let (written, words) = doorbell.look(0);
        assert_eq!(words as u64, written / 8, "nothing was begun anew");
        guest.join().unwrap();
    });
}

#[test]
fn what_is_announced_without_a_copy_is_not_in_the_line() {
    loom::model(|| {
        let doorbell = Doorbell::new();
        doorbell.line().copy(0, [1]);
        doorbell.ring(8);
        let guest = spawn!(doorbell => {
            // The ring's second word is not copied.
            doorbell.line().begin(16);
            doorbell.ring(16);
        });
        let (written, words) = doorbell.look(0);
        assert!(words == 0 || (written, words) == (8, 1));
        guest.join().unwrap();
    });
}
