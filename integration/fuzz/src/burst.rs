// SPDX-License-Identifier: MIT OR Apache-2.0

//! Bursts compared with the general path: two GPUs execute the packets, one of them without bursts.

use crate::rig::{COPY, FREE, Guest, LAYOUT, LOCAL, Queue, eventually, fence_storage, quiesce};
use crate::stepped;
use arbitrary::Arbitrary;
use bellhop_device::gpu::{Gpu, GpuConfig};
use bellhop_host_kmd::ddi::paging::PageSize;
use bellhop_host_kmd::hardware::{
    AccessedBits as _, CurrentValues as _, DriverProtection, Fault, Fences as _, GuestId,
    Interrupt, Interrupts as _, Observe as _, PageTables as _, PhysicalPage, Pte, Quiescence as _,
    Segment,
};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::packet::fence::{SignalFence, WriteFence};
use bellhop_protocol::packet::flow::IndirectBuffer;
use bellhop_protocol::packet::transfer::{Fill, WriteData};
use bellhop_protocol::packet::{Opcode, PacketHeader};
use std::cell::RefCell;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Most actions of one input.
const MOST: usize = 24;
/// Fences beside the queue's own; one more slot is empty.
const FENCES: u32 = 3;
/// Pages of packets. Packets do not write them, so engines execute what the target wrote.
const PAGES: u64 = 6;
/// The range that packets write.
const RESULTS: u64 = LOCAL + 16 * PAGE_SIZE;
const RESULTS_SIZE: u64 = PAGE_SIZE / 2;

/// The place of a buffer.
#[derive(Debug, Clone, Copy, Arbitrary)]
enum At {
    /// At this unit of a page.
    Page(u8, u16),
    /// This number of units before a page's end.
    End(u8, u8),
    /// Anywhere but in the ring or the results.
    Any(u64),
}

impl At {
    fn get(self) -> u64 {
        let page = |page: u8| LOCAL + u64::from(page) % PAGES * PAGE_SIZE;
        match self {
            Self::Page(number, unit) => page(number) + u64::from(unit) * 8 % PAGE_SIZE,
            Self::End(number, units) => page(number) + PAGE_SIZE - u64::from(units) % 16 * 8,
            Self::Any(address) if (LOCAL..LOCAL + FREE * 2).contains(&address) => {
                LOCAL + address % (PAGES * PAGE_SIZE)
            }
            Self::Any(address) => address,
        }
    }
}

/// A packet, or words in its place.
#[derive(Debug, Arbitrary)]
enum Packet {
    Nop,
    /// A `NOP` of several units, which hold no packets.
    LongNop(u8),
    Signal(u8, u8),
    AnySignal(u32, u64),
    Write(u8, u8),
    Buffer(At, u8),
    AnyBuffer(At, u32),
    Fill(u8, u8, u32),
    WriteData(u8, u8, u64),
    /// A header alone.
    Header(u8, u8, u32),
    Word(u64),
}

/// A slot that may have a fence.
fn slot(number: u8) -> u32 {
    u32::from(number) % (FENCES + 2)
}

impl Packet {
    fn words(&self) -> Vec<u64> {
        let bytes = match *self {
            Self::Nop => PacketHeader::new(Opcode::NOP, 8, 0).as_bytes().to_vec(),
            Self::LongNop(units) => {
                let size = 8 * (usize::from(units) % 12 + 1);
                let mut bytes = vec![0xEE; size];
                bytes[..8].copy_from_slice(PacketHeader::new(Opcode::NOP, size, 0).as_bytes());
                bytes
            }
            Self::Signal(number, value) => {
                SignalFence::new(slot(number), (value % 32).into()).as_bytes().to_vec()
            }
            Self::AnySignal(slot, value) => SignalFence::new(slot, value).as_bytes().to_vec(),
            Self::Write(number, value) => {
                WriteFence::new(slot(number), (value % 32).into()).as_bytes().to_vec()
            }
            Self::Buffer(at, units) => {
                let size = u32::from(units) % 12 * 8;
                IndirectBuffer::new(at.get() & !7, size).as_bytes().to_vec()
            }
            Self::AnyBuffer(at, size) => IndirectBuffer::new(at.get(), size).as_bytes().to_vec(),
            Self::Fill(place, count, pattern) => {
                let (at, length) = (u64::from(place) * 4, u64::from(count) * 4);
                Fill::new(RESULTS + at, length, pattern).as_bytes().to_vec()
            }
            Self::WriteData(place, count, word) => {
                let count = usize::from(count) % 64 + 1;
                let data = word.to_le_bytes().repeat(count.div_ceil(8));
                let fixed = WriteData::new(RESULTS + u64::from(place), count);
                fixed.map_or_else(Vec::new, |fixed| [fixed.as_bytes(), &data].concat())
            }
            Self::Header(opcode, units, argument) => {
                let header = PacketHeader {
                    opcode: Opcode((opcode % 0x50).into()),
                    units: (units % 6).into(),
                    argument,
                };
                header.as_bytes().to_vec()
            }
            Self::Word(word) => word.to_le_bytes().to_vec(),
        };
        let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        match self {
            Self::Fill(..) => words.collect(),
            Self::WriteData(..) => {
                let (count, places) = (size_of::<WriteData>() / 8, 0..);
                let tamed = |(place, word)| if place < count { word } else { tame(word) };
                places.zip(words).map(tamed).collect()
            }
            _ => words.map(tame).collect(),
        }
    }
}

/// The word, unless it is the header of a packet that waits for another guest, varies between runs, or writes at an
/// address that follows. Such a write may hit packets, which the two paths need not read at one time.
fn tame(word: u64) -> u64 {
    match Opcode(word as u16) {
        Opcode::TIMESTAMP
        | Opcode::WAIT_FENCE
        | Opcode::DISPATCH
        | Opcode::FILL
        | Opcode::WRITE_DATA
        | Opcode::COPY
        | Opcode::COMPARE
        | Opcode::HASH => word | 0x7000,
        _ => word,
    }
}

/// An action of the guest.
#[derive(Debug, Arbitrary)]
enum Action {
    /// Writes packets into a buffer.
    Place { at: At, packets: Vec<Packet> },
    /// Puts packets into the ring, and rings once or for each.
    Submit { packets: Vec<Packet>, each: bool },
    /// Maps a page of packets to another, read-only or compressed, or not at all.
    Map { page: u8, to: u8, kind: u8 },
    /// Flushes the engine's translations.
    Forget,
    /// Closes a fence, and opens it again or not.
    Reopen { fence: u8, again: bool },
}

/// One GPU and its guest.
struct Side<'a> {
    guest: &'a mut Guest,
    queue: Queue,
    fault: Option<Fault>,
}

/// The observable state of a side.
#[derive(Debug, PartialEq)]
struct Seen {
    read_pointer: u64,
    values: Vec<(u64, u64)>,
    packets: u64,
    fault: Option<Fault>,
    results: Vec<u8>,
}

impl<'a> Side<'a> {
    fn new(guest: &'a mut Guest) -> Self {
        for _ in 0..FENCES {
            guest.fence(0);
        }
        let queue = guest.queue(COPY);
        let mut side = Self { guest, queue, fault: None };
        // The engine has set the queue up and remembers its pages.
        side.submit(&[Packet::Buffer(At::Page(0, 0), 0).words(), Packet::Nop.words()], true);
        side
    }

    fn gpu(&self) -> &Arc<Gpu> {
        &self.guest.gpu
    }

    /// Waits until the engine has executed everything that was rung for, or the queue has faulted.
    fn settle(&mut self) {
        let written = self.queue.written;
        eventually("the end of all packets", || {
            for interrupt in self.guest.gpu.take_interrupts() {
                if let Interrupt::HwQueueFault { queue, fault }
                | Interrupt::PageFault { queue, fault } = interrupt
                    && queue == self.queue.id
                {
                    self.fault = Some(fault);
                }
            }
            self.fault.is_some() || self.guest.pointers(&self.queue).consumed() == written
        });
        self.pass();
    }

    /// Waits until the turn is over and its counts are published; the engine forgets nothing.
    fn pass(&self) {
        let nobody = GuestId(u64::MAX);
        let ticket = self.gpu().quiesce(Some(nobody));
        eventually("the end of the turn", || self.gpu().quiesced() >= ticket);
    }

    fn submit(&mut self, packets: &[Vec<u64>], each: bool) {
        let size = self.queue.binding.ring_size;
        let mut room = size;
        for packet in packets {
            for word in packet.iter().take(room as usize / 8) {
                let at = self.queue.binding.ring_va + self.queue.written % size;
                self.guest.write(at, &word.to_le_bytes());
                self.queue.written += 8;
                room -= 8;
            }
            if each && self.fault.is_none() {
                self.ring();
                room = size;
            }
        }
        if self.fault.is_none() {
            self.ring();
        }
    }

    fn ring(&mut self) {
        self.guest.pointers(&self.queue).publish(self.queue.written);
        self.guest.ring(&self.queue);
        self.settle();
    }

    fn map(&self, page: u8, to: u8, kind: u8) {
        let va = LOCAL + u64::from(page) % PAGES * PAGE_SIZE;
        let address = u64::from(to) % PAGES * PAGE_SIZE;
        let entry =
            |writable| Pte::new(PhysicalPage { segment: Segment::Local, address }, writable);
        let entry = match kind % 4 {
            0 => entry(true),
            1 => entry(false),
            2 => entry(true).protected(DriverProtection { compressed: true, protected: false }),
            _ => Pte::INVALID,
        };
        let space = self.guest.space;
        self.gpu().update_page_table(space, va, PageSize::Small, &[entry]).unwrap();
        // Flushes everything that the engine remembers.
        quiesce(self.gpu());
    }

    fn reopen(&self, fence: u8, again: bool) {
        let (slot, id) = (u32::from(fence) % (FENCES + 1), self.guest.id);
        self.gpu().close_fence(id, slot).unwrap();
        self.pass();
        if again {
            self.gpu().create_fence(id, slot, fence_storage(slot), Some(0)).unwrap();
            self.gpu().open_fence(id, slot, slot, self.guest.space).unwrap();
        }
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::Place { at, packets } => {
                let at = at.get() & !7;
                let words = packets.iter().flat_map(Packet::words);
                for (word, number) in words.zip(0u64..) {
                    // Past the last address is nothing to place.
                    let place = at.saturating_add(8 * number);
                    if (LOCAL..LOCAL + PAGES * PAGE_SIZE).contains(&place) {
                        self.guest.write(place, &word.to_le_bytes());
                    }
                }
            }
            Action::Submit { packets, each } => {
                let packets: Vec<_> = packets.iter().map(Packet::words).collect();
                self.submit(&packets, *each);
            }
            Action::Map { page, to, kind } => self.map(*page, *to, *kind),
            Action::Forget => {
                self.gpu().forget_translations();
                self.pass();
            }
            Action::Reopen { fence, again } => self.reopen(*fence, *again),
        }
    }

    fn seen(&self) -> Seen {
        let value = |id: GuestId, slot| self.gpu().fence_value(id, slot).unwrap();
        Seen {
            read_pointer: self.guest.pointers(&self.queue).consumed(),
            values: (0..=FENCES)
                .map(|slot| (value(self.guest.id, slot), self.guest.published(slot)))
                .collect(),
            packets: self.gpu().statistics(self.guest.id).unwrap().packets,
            fault: self.fault,
            results: self.guest.read(RESULTS, RESULTS_SIZE as usize),
        }
    }

    /// Leaves the guest with nothing, as it was.
    fn end(self) {
        let Self { guest, queue, .. } = self;
        guest.map(LOCAL, Segment::Local, 0, PAGES * PAGE_SIZE, true);
        guest.clear(&[&queue]);
        for slot in 0..=FENCES {
            guest.gpu.close_fence(guest.id, slot).unwrap();
        }
        const PAGE: [u8; PAGE_SIZE as usize] = [0; PAGE_SIZE as usize];
        let packets = (0..PAGES).map(|page| LOCAL + page * PAGE_SIZE);
        for page in packets.chain([RESULTS, queue.binding.ring_va, queue.binding.control_va]) {
            guest.write(page, &PAGE);
        }
    }
}

/// A guest submits anything to an engine that executes bursts and to one that does not. After each action both have
/// executed equally many packets, with equal effects and faults.
pub fn burst(data: &[u8]) {
    compare(crate::actions(data, MOST));
}

/// Returns the fault that both end with.
fn compare(actions: impl IntoIterator<Item = Action>) -> Option<Fault> {
    thread_local! {
        static GUESTS: RefCell<[Guest; 2]> = RefCell::new([true, false].map(|bursts| {
            let config = GpuConfig { copy_engines: 1, bursts, ..GpuConfig::default() };
            Guest::attach(&stepped::start(config))
        }));
    }
    const { assert!(FENCES + 2 < LAYOUT.fence_count) };
    GUESTS.with_borrow_mut(|guests| play(guests, actions))
}

fn play(guests: &mut [Guest; 2], actions: impl IntoIterator<Item = Action>) -> Option<Fault> {
    let mut sides = guests.each_mut().map(Side::new);
    let mut fault = None;
    for action in actions {
        sides.iter_mut().for_each(|side| side.act(&action));
        let [with, without] = sides.each_ref().map(Side::seen);
        assert_eq!(with, without, "after {action:?}");
        fault = with.fault;
        if fault.is_some() {
            break;
        }
    }
    sides.into_iter().for_each(Side::end);
    fault
}

#[cfg(test)]
mod seeds;
