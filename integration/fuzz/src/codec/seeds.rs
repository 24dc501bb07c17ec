// SPDX-License-Identifier: MIT OR Apache-2.0

//! Streams in the corpus: right, cut off, out of order, with headers and pictures that are broken.

use crate::seeds::{Bytes, Seed, input, is_in_corpus};

/// As [`Action`](super::Action) is read.
enum Action {
    Unit(u8, [(u16, u8); 3], u16),
    Bytes(Vec<u8>),
    Flush,
}

impl Seed for Action {
    fn write(&self, bytes: &mut Bytes) {
        match self {
            Self::Unit(number, changes, length) => {
                bytes.variant(0, 3).put(&[*number]);
                for (at, byte) in changes {
                    bytes.put(&at.to_le_bytes()).put(&[*byte]);
                }
                bytes.put(&length.to_le_bytes());
            }
            Self::Bytes(all) => {
                bytes.variant(1, 3).list(all, |bytes, byte| {
                    bytes.put(&[*byte]);
                });
            }
            Self::Flush => {
                bytes.variant(2, 3);
            }
        }
    }
}

const SAME: [(u16, u8); 3] = [(0, 0); 3];
const WHOLE: u16 = u16::MAX;

fn unit(number: u8) -> Action {
    Action::Unit(number, SAME, WHOLE)
}

#[test]
fn streams_are_in_the_corpus() {
    let broken = |at, byte| Action::Unit(0, [(at, byte), (0, 0), (0, 0)], WHOLE);
    let seeds: [(&str, Vec<Action>); 8] = [
        ("right", (0..4).map(unit).collect()),
        ("without-a-key-frame", (1..4).map(unit).collect()),
        ("out-of-order", [0, 2, 1, 3, 3, 0].into_iter().map(unit).collect()),
        ("cut-off", (0..4).map(|at| Action::Unit(at, SAME, 1 << (12 + at))).collect()),
        ("forgotten", vec![unit(0), unit(1), Action::Flush, unit(2), Action::Flush, unit(0)]),
        // The sequence header follows the temporal delimiter, two bytes, and its own header.
        ("broken-headers", (2..18).map(|at| broken(at, 0x5A)).collect()),
        (
            "broken-pictures",
            (0..16)
                .map(|at| Action::Unit(at % 4, [(30 + u16::from(at), 0x81); 3], WHOLE))
                .collect(),
        ),
        (
            "no-av1",
            vec![
                Action::Bytes(vec![]),
                Action::Bytes(vec![0xFF; 64]),
                Action::Bytes(vec![0x12, 0]),
            ],
        ),
    ];
    for (name, actions) in seeds {
        is_in_corpus("codec", name, &input(&actions));
    }
}
