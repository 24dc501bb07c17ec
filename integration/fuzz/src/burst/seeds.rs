// SPDX-License-Identifier: MIT OR Apache-2.0

//! The fuzzer's first inputs: one for each packet that a burst executes, each way out of a burst and each fault.
//!
//! Random bytes seldom form a ring of valid packets with one error. Each seed is a file of the corpus, and the test
//! here says what it does. After a change of seeds, or of [`Action`], write them anew: see [`crate::seeds`].

use super::{Action, At, Packet, compare};
use crate::seeds::{Bytes, Seed, input, is_in_corpus};
use bellhop_protocol::event::FaultReason;

/// Kinds of packets and of actions.
const PACKETS: u64 = 11;
const ACTIONS: u64 = 5;

impl Seed for At {
    fn write(&self, bytes: &mut Bytes) {
        match *self {
            At::Page(page, unit) => bytes.variant(0, 3).put(&[page]).put(&unit.to_le_bytes()),
            At::End(page, units) => bytes.variant(1, 3).put(&[page, units]),
            At::Any(address) => bytes.variant(2, 3).put(&address.to_le_bytes()),
        };
    }
}

impl Seed for Packet {
    fn write(&self, bytes: &mut Bytes) {
        match *self {
            Packet::Nop => bytes.variant(0, PACKETS),
            Packet::LongNop(units) => bytes.variant(1, PACKETS).put(&[units]),
            Packet::Signal(fence, value) => bytes.variant(2, PACKETS).put(&[fence, value]),
            Packet::AnySignal(slot, value) => {
                bytes.variant(3, PACKETS).put(&slot.to_le_bytes()).put(&value.to_le_bytes())
            }
            Packet::Write(fence, value) => bytes.variant(4, PACKETS).put(&[fence, value]),
            Packet::Buffer(at, units) => bytes.variant(5, PACKETS).of(&at).put(&[units]),
            Packet::AnyBuffer(at, size) => {
                bytes.variant(6, PACKETS).of(&at).put(&size.to_le_bytes())
            }
            Packet::Fill(place, count, pattern) => {
                bytes.variant(7, PACKETS).put(&[place, count]).put(&pattern.to_le_bytes())
            }
            Packet::WriteData(place, count, word) => {
                bytes.variant(8, PACKETS).put(&[place, count]).put(&word.to_le_bytes())
            }
            Packet::Header(opcode, units, argument) => {
                bytes.variant(9, PACKETS).put(&[opcode, units]).put(&argument.to_le_bytes())
            }
            Packet::Word(word) => bytes.variant(10, PACKETS).put(&word.to_le_bytes()),
        };
    }
}

impl Seed for Action {
    fn write(&self, bytes: &mut Bytes) {
        match self {
            Action::Place { at, packets } => bytes.variant(0, ACTIONS).of(at).all(packets),
            Action::Submit { packets, each } => {
                bytes.variant(1, ACTIONS).all(packets).put(&[(*each).into()])
            }
            Action::Map { page, to, kind: how } => {
                bytes.variant(2, ACTIONS).put(&[*page, *to, *how])
            }
            Action::Forget => bytes.variant(3, ACTIONS),
            Action::Reopen { fence, again } => {
                bytes.variant(4, ACTIONS).put(&[*fence, (*again).into()])
            }
        };
    }
}

/// The actions of a guest, and the fault that they end with.
struct Case {
    name: &'static str,
    actions: Vec<Action>,
    fault: Option<FaultReason>,
}

fn submit(packets: Vec<Packet>) -> Action {
    Action::Submit { packets, each: false }
}

fn place(page: u8, packets: Vec<Packet>) -> Action {
    Action::Place { at: At::Page(page, 0), packets }
}

/// The buffer at the beginning of a page.
fn buffer(page: u8, units: u8) -> Packet {
    Packet::Buffer(At::Page(page, 0), units)
}

fn nops(count: usize) -> Vec<Packet> {
    (0..count).map(|_| Packet::Nop).collect()
}

/// Words that a packet has behind its header.
fn words(count: usize) -> Vec<Packet> {
    (0..count).map(|_| Packet::Word(0)).collect()
}

/// Signals of the fence with these values, of which none is the opcode of a packet that [`super::tame`] spoils.
fn signals(fence: u8, values: impl IntoIterator<Item = u8>) -> Vec<Packet> {
    values.into_iter().map(|value| Packet::Signal(fence, value)).collect()
}

/// Seeds without a fault.
fn fine() -> Vec<Case> {
    use Packet::{Fill, LongNop, Nop, Signal, Write, WriteData};
    let seed = |name, actions| Case { name, actions, fault: None };
    let each = |packets| Action::Submit { packets, each: true };
    let read_only = |page| Action::Map { page, to: page, kind: 1 };
    let compressed = |page| Action::Map { page, to: page, kind: 2 };
    let small = || place(1, vec![Nop, Signal(1, 3)]);
    vec![
        seed(
            "submissions",
            vec![
                small(),
                submit(vec![buffer(1, 3), Signal(0, 1), buffer(1, 3), Signal(0, 2), buffer(1, 1)]),
            ],
        ),
        seed(
            "submissions-rung-each",
            vec![small(), each(vec![buffer(1, 3), Signal(0, 1), buffer(1, 3), Signal(0, 2), Nop])],
        ),
        seed(
            "signals-held-and-made",
            vec![
                submit(signals(1, (3..43).map(|number| number / 3))),
                submit(signals(1, [14, 15, 15])),
            ],
        ),
        seed(
            "signals-of-two-fences",
            vec![submit((1..15).flat_map(|value| [Signal(1, value), Signal(2, value)]).collect())],
        ),
        seed(
            "long-nops-and-other-packets",
            vec![submit(vec![
                Signal(1, 1),
                LongNop(5),
                Fill(0, 9, 7),
                Signal(1, 2),
                WriteData(64, 20, 0x1122),
                Write(1, 3),
                Signal(1, 4),
            ])],
        ),
        seed("buffer-of-a-line", vec![place(1, nops(8)), submit(vec![buffer(1, 8), Signal(0, 1)])]),
        seed(
            "buffer-of-more-than-a-line",
            vec![place(1, nops(11)), submit(vec![buffer(1, 9), Signal(0, 1), buffer(1, 11)])],
        ),
        seed("empty-buffer", vec![submit(vec![buffer(1, 0), Signal(0, 1)])]),
        seed(
            "buffer-with-another-packet",
            vec![
                place(1, vec![Nop, Fill(0, 4, 7), Signal(1, 1)]),
                submit(vec![buffer(1, 6), Signal(0, 1), buffer(1, 4)]),
            ],
        ),
        seed(
            "buffer-to-a-page-s-end",
            vec![
                Action::Place { at: At::End(1, 3), packets: vec![Nop, Signal(1, 1)] },
                submit(vec![Packet::Buffer(At::End(1, 3), 3), Signal(0, 1)]),
            ],
        ),
        seed(
            "buffer-across-pages",
            vec![
                Action::Place { at: At::End(1, 2), packets: vec![Nop, Signal(1, 1), Nop] },
                submit(vec![Packet::Buffer(At::End(1, 2), 4), Signal(0, 1)]),
            ],
        ),
        seed(
            "nested-buffers",
            vec![
                place(2, vec![Signal(1, 1)]),
                place(1, vec![Nop, buffer(2, 2), Signal(1, 2)]),
                submit(vec![buffer(1, 5), Signal(0, 1)]),
            ],
        ),
        seed("more-packets-than-a-turn-has", vec![submit(nops(300)), submit(nops(256))]),
        seed(
            "ring-that-wraps",
            vec![submit(nops(500)), submit(signals(1, 1..16)), each(signals(1, 22..27))],
        ),
        seed(
            "pages-not-known",
            vec![
                small(),
                submit(vec![buffer(1, 3)]),
                Action::Forget,
                submit(vec![buffer(1, 3), Signal(0, 1)]),
                place(2, nops(1)),
                place(3, nops(1)),
                place(4, nops(1)),
                submit(vec![buffer(2, 1), buffer(3, 1), buffer(4, 1)]),
            ],
        ),
        seed(
            "page-that-moves",
            vec![
                small(),
                place(2, vec![Signal(2, 5)]),
                submit(vec![buffer(1, 3)]),
                Action::Map { page: 1, to: 2, kind: 0 },
                submit(vec![buffer(1, 2), Signal(0, 1)]),
            ],
        ),
        seed(
            "read-only-and-compressed-pages",
            vec![
                small(),
                read_only(1),
                submit(vec![buffer(1, 3)]),
                compressed(1),
                submit(vec![buffer(1, 3), Signal(0, 1)]),
            ],
        ),
        seed(
            "packets-past-the-last-address",
            vec![
                Action::Place { at: At::Any(u64::MAX), packets: vec![Nop, Nop] },
                submit(vec![Signal(0, 1)]),
            ],
        ),
        seed(
            "fence-that-is-another",
            vec![
                submit(signals(1, [1, 2, 3])),
                Action::Reopen { fence: 1, again: true },
                submit(signals(1, [1, 2])),
            ],
        ),
    ]
}

/// Seeds that end with a fault.
fn faulty() -> Vec<Case> {
    use Packet::{AnyBuffer, AnySignal, Header, Nop, Signal};
    let seed = |name, actions, fault| Case { name, actions, fault: Some(fault) };
    // Packets before the fault take effect.
    let after = |packet| vec![submit(vec![Signal(1, 1), Signal(1, 2), Nop, packet, Signal(1, 3)])];
    let within = |packet| {
        vec![place(1, vec![Nop, Signal(1, 1), packet]), submit(vec![buffer(1, 5), Signal(1, 2)])]
    };
    let unmapped = Action::Map { page: 1, to: 1, kind: 3 };
    vec![
        seed("unknown-packet", after(Header(0x4F, 1, 0)), FaultReason::UNKNOWN_PACKET),
        seed("unknown-packet-in-a-buffer", within(Header(0x4F, 1, 0)), FaultReason::UNKNOWN_PACKET),
        seed("packet-of-no-units", after(Header(0x20, 0, 1)), FaultReason::BAD_PACKET_LENGTH),
        seed("signal-of-one-unit", after(Header(0x20, 1, 1)), FaultReason::BAD_PACKET_LENGTH),
        seed(
            "signal-cut-off-in-a-buffer",
            vec![place(1, vec![Nop, Signal(1, 1)]), submit(vec![buffer(1, 2), Signal(0, 1)])],
            FaultReason::BAD_PACKET_LENGTH,
        ),
        seed(
            "signal-cut-off-in-the-ring",
            vec![submit(vec![Nop, Header(0x20, 2, 1)])],
            FaultReason::BAD_PACKET_LENGTH,
        ),
        seed(
            "kernel-on-a-copy-engine",
            vec![submit(
                [vec![Signal(1, 1), Header(0x31, 5, 1)], words(4), nops(1)]
                    .into_iter()
                    .flatten()
                    .collect(),
            )],
            FaultReason::NOT_SUPPORTED_BY_NODE,
        ),
        seed(
            "kernel-on-a-copy-engine-in-a-buffer",
            vec![
                place(1, [vec![Nop, Header(0x31, 5, 1)], words(4)].into_iter().flatten().collect()),
                submit(vec![buffer(1, 6), Signal(1, 2)]),
            ],
            FaultReason::NOT_SUPPORTED_BY_NODE,
        ),
        seed(
            "kernel-of-three-units",
            vec![submit(
                [vec![Signal(1, 1), Header(0x31, 3, 1)], words(4)].into_iter().flatten().collect(),
            )],
            FaultReason::BAD_PACKET_LENGTH,
        ),
        seed("no-fence", after(Signal(4, 1)), FaultReason::FENCE_NOT_OWNED),
        seed("no-fence-in-a-buffer", within(Signal(4, 1)), FaultReason::FENCE_NOT_OWNED),
        seed("slot-that-is-none", after(AnySignal(u32::MAX, 1)), FaultReason::FENCE_NOT_OWNED),
        seed(
            "closed-fence",
            vec![
                submit(signals(1, [1, 2])),
                Action::Reopen { fence: 1, again: false },
                submit(signals(1, [3])),
            ],
            FaultReason::FENCE_NOT_OWNED,
        ),
        seed("signal-backwards", after(Signal(1, 1)), FaultReason::FENCE_WENT_BACKWARDS),
        seed(
            "signal-backwards-in-a-buffer",
            within(Signal(1, 0)),
            FaultReason::FENCE_WENT_BACKWARDS,
        ),
        seed(
            "signal-back-from-the-greatest",
            vec![submit(vec![AnySignal(1, u64::MAX - 1), AnySignal(1, 5)])],
            FaultReason::FENCE_WENT_BACKWARDS,
        ),
        seed(
            "buffer-of-half-a-unit",
            after(AnyBuffer(At::Page(1, 0), 12)),
            FaultReason::BAD_INDIRECT_BUFFER,
        ),
        seed(
            "buffer-that-is-too-long",
            after(AnyBuffer(At::Page(1, 0), (1 << 20) + 8)),
            FaultReason::BAD_INDIRECT_BUFFER,
        ),
        seed(
            "buffer-beyond-all-addresses",
            after(AnyBuffer(At::Any(1 << 48), 8)),
            FaultReason::ADDRESS_OUT_OF_RANGE,
        ),
        seed(
            "buffer-where-nothing-is-mapped",
            after(AnyBuffer(At::Any(1 << 40), 8)),
            FaultReason::READ_PAGE_FAULT,
        ),
        seed(
            "page-that-goes",
            vec![
                place(1, nops(1)),
                submit(vec![buffer(1, 1)]),
                unmapped,
                submit(vec![Signal(1, 1), buffer(1, 1), Signal(1, 2)]),
            ],
            FaultReason::READ_PAGE_FAULT,
        ),
        seed(
            "buffer-in-itself",
            vec![
                place(1, vec![Nop, buffer(1, 5), Nop, Nop]),
                submit(vec![Signal(1, 1), buffer(1, 5)]),
            ],
            FaultReason::INDIRECT_BUFFER_TOO_DEEP,
        ),
    ]
}

#[test]
fn seeds_are_in_the_corpus_are_read_as_they_were_meant_and_do_what_they_say() {
    for Case { name, actions, fault } in fine().into_iter().chain(faulty()) {
        let bytes = input(&actions);
        is_in_corpus("burst", name, &bytes);
        let read: Vec<_> = crate::actions::<Action>(&bytes, actions.len()).collect();
        assert_eq!(format!("{read:?}"), format!("{actions:?}"), "{name}");
        let found = compare(read);
        assert_eq!(found.map(|fault| fault.reason), fault, "{name}: {found:?}");
    }
}
