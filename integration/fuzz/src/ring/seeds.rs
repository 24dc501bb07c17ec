// SPDX-License-Identifier: MIT OR Apache-2.0

//! First inputs with guests' own kernels, and with packets of security nodes.

use super::{Action, ring};
use crate::packets::{Fence, Packet};
use crate::places::Address;
use crate::seeds::{Bytes, Seed, input, is_in_corpus};

/// Kinds of packets, of addresses and of actions.
const PACKETS: u64 = 19;
const ADDRESSES: u64 = 8;
const ACTIONS: u64 = 5;

impl Seed for Address {
    fn write(&self, bytes: &mut Bytes) {
        match self {
            Address::System(offset) => bytes.variant(2, ADDRESSES).put(&offset.to_le_bytes()),
            Address::Any(address) => bytes.variant(7, ADDRESSES).put(&address.to_le_bytes()),
            other => unreachable!("{other:?} is in no seed"),
        };
    }
}

impl Seed for Packet {
    fn write(&self, bytes: &mut Bytes) {
        match self {
            Packet::IndirectBuffer(at, size) => {
                bytes.variant(0, PACKETS).of(at).put(&size.to_le_bytes())
            }
            Packet::Signal(Fence::Few(slot, value)) => {
                bytes.variant(8, PACKETS).variant(0, 2).put(&[*slot, *value])
            }
            Packet::DispatchKernel {
                kernel,
                groups,
                flags,
                arguments,
                push_constants,
                descriptors,
            } => {
                bytes.variant(16, PACKETS).put(&[*kernel]);
                groups.iter().for_each(|count| _ = bytes.put(&count.to_le_bytes()));
                bytes.put(&[*flags]).of(arguments);
                bytes.put(&push_constants.to_le_bytes()).put(&[*descriptors])
            }
            Packet::Raw { opcode, units, argument, words, count } => {
                bytes.variant(17, PACKETS).put(&[*opcode, *units]).put(&argument.to_le_bytes());
                words.iter().for_each(|word| _ = bytes.put(&word.to_le_bytes()));
                bytes.put(&[*count])
            }
            Packet::Word(word) => bytes.variant(18, PACKETS).put(&word.to_le_bytes()),
            other => unreachable!("{other:?} is in no seed"),
        };
    }
}

impl Seed for Action {
    fn write(&self, bytes: &mut Bytes) {
        match self {
            Action::Write { at, packets } => bytes.variant(0, ACTIONS).of(at).all(packets),
            Action::Submit { queue, packets } => {
                bytes.variant(1, ACTIONS).put(&[(*queue).into()]).all(packets)
            }
            Action::KernelMode { queue, at, size } => {
                bytes.variant(3, ACTIONS).put(&[(*queue).into()]).of(at).put(&size.to_le_bytes())
            }
            other => unreachable!("{other:?} is in no seed"),
        };
    }
}

fn dispatch(kernel: u8, arguments: Address, push_constants: u16, descriptors: u8) -> Packet {
    Packet::DispatchKernel {
        kernel,
        groups: [1, 2, 3],
        flags: 1,
        arguments,
        push_constants,
        descriptors,
    }
}

/// The beginning of a security node's packet, by its number and its length in units of eight bytes: where the data is,
/// where it goes, where the status goes, where the associated data is.
fn security(opcode: u8, units: u8) -> Packet {
    Packet::Raw { opcode, units, argument: 0, words: [0x4000, 0x5000, 0x6000, 0x7000], count: 4 }
}

/// A compute queue's packets, then the same for a copy queue.
fn both(packets: impl Fn() -> Vec<Packet>) -> Vec<Action> {
    [false, true].map(|queue| Action::Submit { queue, packets: packets() }).into()
}

fn seeds() -> Vec<(&'static str, Vec<Action>)> {
    const AT: Address = Address::System(0x4000);
    let signal = || Packet::Signal(Fence::Few(4, 1));
    let kernels = || vec![dispatch(1, AT, 16, 2), dispatch(2, AT, 0, 0), signal()];
    vec![
        ("kernels-in-a-ring", both(kernels)),
        (
            "kernels-in-a-buffer",
            std::iter::once(Action::Write { at: AT, packets: kernels() })
                .chain(both(|| vec![Packet::IndirectBuffer(AT, 12), signal()]))
                .collect(),
        ),
        (
            "kernel-cut-off-in-a-buffer",
            std::iter::once(Action::Write { at: AT, packets: kernels() })
                .chain(both(|| vec![Packet::IndirectBuffer(AT, 4)]))
                .collect(),
        ),
        (
            "kernel-with-arguments-nowhere",
            both(|| vec![dispatch(1, Address::Any(1 << 40), 256, 16), signal()]),
        ),
        ("no-kernel", both(|| vec![signal(), dispatch(0, AT, 511, 31)])),
        // `SEAL`, `OPEN` and `ATTEST`: whole with the word that follows, or cut off.
        ("seal-where-none-is", both(|| vec![security(0x38, 6), Packet::Word(0x10_0000_0040)])),
        ("open-where-none-is", both(|| vec![security(0x39, 6), Packet::Word(0x10_0000_0040)])),
        (
            "attest-where-none-is",
            both(|| vec![security(0x3a, 7), Packet::Word(1), Packet::Word(2), signal()]),
        ),
        ("seal-cut-off", both(|| vec![signal(), security(0x38, 6)])),
        (
            "kernels-in-kernel-mode",
            vec![
                Action::Write { at: AT, packets: kernels() },
                Action::KernelMode { queue: false, at: AT, size: 96 },
                Action::KernelMode { queue: true, at: AT, size: 96 },
            ],
        ),
    ]
}

#[test]
fn seeds_are_in_the_corpus_and_are_read_as_they_were_meant() {
    for (name, actions) in seeds() {
        let bytes = input(&actions);
        is_in_corpus("ring", name, &bytes);
        let read: Vec<_> = crate::actions::<Action>(&bytes, actions.len()).collect();
        assert_eq!(format!("{read:?}"), format!("{actions:?}"), "{name}");
        ring(&bytes);
    }
}
