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
use bellhop_protocol::handoff::doorbell_line::COPY_WORDS;
use bellhop_protocol::packet::fence::{SignalFence, WriteFence};
use bellhop_protocol::packet::flow::IndirectBuffer;
use bellhop_protocol::packet::transfer::{Fill, WriteData};
use bellhop_protocol::packet::{Opcode, PacketHeader};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
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
    /// Adds its words.
    fn put(&self, words: &mut Vec<u64>) {
        let first = words.len();
        let mut put = |bytes: &[u8]| {
            let units = bytes.as_chunks::<8>().0.iter();
            words.extend(units.map(|unit| u64::from_le_bytes(*unit)));
        };
        match *self {
            Self::Nop => put(PacketHeader::new(Opcode::NOP, 8, 0).as_bytes()),
            Self::LongNop(units) => {
                let size = 8 * (usize::from(units) % 12 + 1);
                put(PacketHeader::new(Opcode::NOP, size, 0).as_bytes());
                put(&[0xEE; 8 * 12][8..size]);
            }
            Self::Signal(number, value) => {
                put(SignalFence::new(slot(number), (value % 32).into()).as_bytes());
            }
            Self::AnySignal(slot, value) => put(SignalFence::new(slot, value).as_bytes()),
            Self::Write(number, value) => {
                put(WriteFence::new(slot(number), (value % 32).into()).as_bytes());
            }
            Self::Buffer(at, units) => {
                let size = u32::from(units) % 12 * 8;
                put(IndirectBuffer::new(at.get() & !7, size).as_bytes());
            }
            Self::AnyBuffer(at, size) => put(IndirectBuffer::new(at.get(), size).as_bytes()),
            Self::Fill(place, count, pattern) => {
                let (at, length) = (u64::from(place) * 4, u64::from(count) * 4);
                put(Fill::new(RESULTS + at, length, pattern).as_bytes());
            }
            Self::WriteData(place, count, word) => {
                let count = usize::from(count) % 64 + 1;
                if let Some(fixed) = WriteData::new(RESULTS + u64::from(place), count) {
                    put(fixed.as_bytes());
                    put([word; 8][..count.div_ceil(8)].as_bytes());
                }
            }
            Self::Header(opcode, units, argument) => {
                let header = PacketHeader {
                    opcode: Opcode((opcode % 0x50).into()),
                    units: (units % 6).into(),
                    argument,
                };
                put(header.as_bytes());
            }
            Self::Word(word) => put(word.as_bytes()),
        }
        let known = match self {
            Self::Fill(..) => size_of::<Fill>() / 8,
            Self::WriteData(..) => size_of::<WriteData>() / 8,
            _ => 0,
        };
        words[first..].iter_mut().skip(known).for_each(|word| *word = tame(*word));
    }
}

/// The words of packets, one packet after another.
#[derive(Default)]
struct Words {
    all: Vec<u64>,
    /// Where each packet ends.
    ends: Vec<usize>,
}

impl Words {
    /// Has those of these packets instead.
    fn set(&mut self, packets: &[Packet]) {
        self.all.clear();
        self.ends.clear();
        for packet in packets {
            packet.put(&mut self.all);
            self.ends.push(self.all.len());
        }
    }

    /// Those of each packet.
    fn packets(&self) -> impl Iterator<Item = &[u64]> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts.zip(&self.ends).map(|(start, end)| &self.all[*start..*end])
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
    /// The position in the ring that the doorbell's line begins with, and the one that was rung last.
    line: (u64, u64),
    fault: Option<Fault>,
    /// What packets have written, as it was last seen.
    results: [u8; RESULTS_SIZE as usize],
}

/// The observable state of a side.
#[derive(Debug, PartialEq)]
struct Seen {
    read_pointer: u64,
    values: [(u64, u64); FENCES as usize + 1],
    packets: u64,
    fault: Option<Fault>,
}

impl<'a> Side<'a> {
    fn new(guest: &'a mut Guest) -> Self {
        for _ in 0..FENCES {
            guest.fence(0);
        }
        let queue = guest.queue(COPY);
        let mut side =
            Self { guest, queue, line: (0, 0), fault: None, results: [0; RESULTS_SIZE as usize] };
        // The engine has set the queue up and remembers its pages.
        let mut words = Words::default();
        words.set(&[Packet::Buffer(At::Page(0, 0), 0), Packet::Nop]);
        side.submit(&words, true);
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

    fn submit(&mut self, words: &Words, each: bool) {
        let (ring, size) = (self.queue.binding.ring_va, self.queue.binding.ring_size);
        let mut room = size;
        for packet in words.packets() {
            let packet = &packet[..packet.len().min(room as usize / 8)];
            let at = self.queue.written % size;
            let to_end = (size - at) as usize / 8;
            let (before, behind) = packet.split_at(packet.len().min(to_end));
            self.guest.write(ring + at, before.as_bytes());
            self.guest.write(ring, behind.as_bytes());
            self.queue.written += size_of_val(packet) as u64;
            room -= size_of_val(packet) as u64;
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
        if self.guest.has_lines {
            self.copy();
        }
        self.guest.ring(&self.queue);
        self.settle();
    }

    /// Copies into the doorbell's line what the ring has since the last ring, as a driver does: behind what the line
    /// holds, or anew if only that fits, or nothing.
    fn copy(&mut self) {
        let (written, (start, rung)) = (self.queue.written, self.line);
        let fits = |start: u64| written - start <= (8 * COPY_WORDS) as u64;
        let start = [start, rung].into_iter().find(|start| fits(*start)).unwrap_or(written);
        self.line = (start, written);
        let line = LAYOUT.doorbell(self.queue.binding.slot);
        let store =
            |index: u64, word| self.guest.word(line + 8 * index).store(word, Ordering::Relaxed);
        store(1, start);
        let (ring, size) = (self.queue.binding.ring_va, self.queue.binding.ring_size);
        for (position, index) in (start..written).step_by(8).zip(2..) {
            let mut word = [0; 8];
            self.guest.read_into(ring + position % size, &mut word);
            store(index, u64::from_le_bytes(word));
        }
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

    /// Does that, with these words of the action's packets.
    fn act(&mut self, action: &Action, words: &Words) {
        match action {
            Action::Place { at, .. } => {
                // There is nothing to place before the pages of packets, and behind them.
                let at = at.get() & !7;
                let before = LOCAL.saturating_sub(at) as usize / 8;
                let words = words.all.get(before..).unwrap_or_default();
                let at = at.max(LOCAL);
                let room = (LOCAL + PAGES * PAGE_SIZE).saturating_sub(at) as usize / 8;
                let words = &words[..words.len().min(room)];
                if !words.is_empty() {
                    self.guest.write(at, words.as_bytes());
                }
            }
            Action::Submit { each, .. } => self.submit(words, *each),
            Action::Map { page, to, kind } => self.map(*page, *to, *kind),
            Action::Forget => {
                self.gpu().forget_translations();
                self.pass();
            }
            Action::Reopen { fence, again } => self.reopen(*fence, *again),
        }
    }

    fn see(&mut self) -> Seen {
        self.guest.read_into(RESULTS, &mut self.results);
        let value = |slot| self.gpu().fence_value(self.guest.id, slot).unwrap();
        let values = std::array::from_fn(|slot| slot as u32);
        Seen {
            read_pointer: self.guest.pointers(&self.queue).consumed(),
            values: values.map(|slot| (value(slot), self.guest.published(slot))),
            packets: self.gpu().statistics(self.guest.id).unwrap().packets,
            fault: self.fault,
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

/// A guest submits anything to an engine that executes bursts and reads the doorbell's line, and to one that does
/// neither. After each action both have executed equally many packets, with equal effects and faults.
pub fn burst(data: &[u8]) {
    compare(crate::actions(data, MOST));
}

/// Returns the fault that both end with.
fn compare(actions: impl IntoIterator<Item = Action>) -> Option<Fault> {
    thread_local! {
        static GUESTS: RefCell<[Guest; 2]> = RefCell::new([true, false].map(|bursts| {
            let config = GpuConfig { copy_engines: 1, bursts, ..GpuConfig::default() };
            let mut guest = Guest::attach(&stepped::start(config));
            guest.has_lines = bursts;
            guest
        }));
    }
    const { assert!(FENCES + 2 < LAYOUT.fence_count) };
    GUESTS.with_borrow_mut(|guests| play(guests, actions))
}

fn play(guests: &mut [Guest; 2], actions: impl IntoIterator<Item = Action>) -> Option<Fault> {
    let mut sides = guests.each_mut().map(Side::new);
    let (mut fault, mut words) = (None, Words::default());
    for action in actions {
        if let Action::Place { packets, .. } | Action::Submit { packets, .. } = &action {
            words.set(packets);
        }
        sides.iter_mut().for_each(|side| side.act(&action, &words));
        let [with, without] = sides.each_mut().map(Side::see);
        assert_eq!(with, without, "after {action:?}");
        assert_eq!(sides[0].results, sides[1].results, "after {action:?}");
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
