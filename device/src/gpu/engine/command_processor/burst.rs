// SPDX-License-Identifier: MIT OR Apache-2.0

//! Executes, from guest memory, the packets that every submission has: `NOP`, `INDIRECT_BUFFER` and `SIGNAL_FENCE`
//! in the ring, and `NOP` and `SIGNAL_FENCE` in a buffer of at most a cache line that the ring names.
//!
//! A word of such a packet is read once, into a register, which is then checked and used: no guest can change it in
//! between. Everything else is left to the slow path, at a packet's boundary, as if it had been there from the
//! start: other packets, malformed ones, and a ring or buffer that cannot be read. The fuzz target `burst` compares
//! the two paths.

use super::Execution;
use crate::gpu::engine::fetch::Stream;
use crate::gpu::engine::packets::fence::Signals;
use crate::gpu::memory::page_table::ADDRESS_BITS;
use crate::gpu::memory::pins::{HostPage, Pinned, Use};
use crate::gpu::memory::prefetch::Stride;
use crate::gpu::memory::violation::Violation;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::handoff::doorbell_line::LINE_WORDS;
use bellhop_protocol::packet::fence::SignalFence;
use bellhop_protocol::packet::flow::IndirectBuffer;
use bellhop_protocol::packet::{Opcode, UNIT};
use std::sync::atomic::Ordering;

/// The most bytes of a buffer that is executed from guest memory: a cache line.
const SMALL: u32 = 64;
/// Words of the ring that are prefetched ahead of execution.
const AHEAD: usize = 8 * LINE_WORDS;
/// Words of the packets that are not `NOP`.
const PAIR: usize = 2;
const UNIT_SIZE: u64 = UNIT as u64;
const PAIR_SIZE: u64 = PAIR as u64 * UNIT_SIZE;
const _: () = assert!(size_of::<IndirectBuffer>() as u64 == PAIR_SIZE);
const _: () = assert!(size_of::<SignalFence>() as u64 == PAIR_SIZE);

/// The lower half of these packets' headers, as in memory: opcode and length.
const NOP: u32 = half(Opcode::NOP, UNIT_SIZE);
const INDIRECT_BUFFER: u32 = half(Opcode::INDIRECT_BUFFER, PAIR_SIZE);
const SIGNAL_FENCE: u32 = half(Opcode::SIGNAL_FENCE, PAIR_SIZE);

const fn half(opcode: Opcode, size: u64) -> u32 {
    opcode.0 as u32 | ((size / UNIT_SIZE) as u32) << 16
}

/// The only read of a packet's word.
#[inline]
fn read(page: HostPage<'_>, gpu_va: u64) -> u64 {
    // Relaxed: the write pointer was acquired, which hands over the packets before it.
    u64::from_le(page.word(gpu_va).load(Ordering::Relaxed))
}

/// A header's argument.
#[inline]
const fn argument(header: u64) -> u32 {
    (header >> 32) as u32
}

/// Why a burst ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Burst {
    /// The ring is empty, or there is none.
    Empty,
    /// About as many packets as allowed were executed.
    Limit,
    /// The next packet is not for a burst.
    Other,
    /// The burst needs this page to continue.
    Missing(Use, u64),
}

/// Packets of the ring that lie next to each other: in the doorbell's line, or in a page of the ring.
trait Packets {
    /// The number of words.
    fn len(&self) -> usize;

    /// The only read of a word.
    fn word(&self, index: usize) -> u64;

    /// Asks for the lines behind the first. Returns the index up to which each submission asks for one more line,
    /// [`AHEAD`] of itself.
    fn ask(&self) -> usize;

    /// Asks for the line [`AHEAD`] of a word.
    fn ask_ahead(&self, index: usize);
}

/// What the engine has read of the doorbell's line.
impl Packets for &[u64] {
    #[inline(always)]
    fn len(&self) -> usize {
        (**self).len()
    }

    #[inline(always)]
    fn word(&self, index: usize) -> u64 {
        u64::from_le(self.get(index).copied().unwrap_or_default())
    }

    #[inline(always)]
    fn ask(&self) -> usize {
        0
    }

    #[inline(always)]
    fn ask_ahead(&self, _: usize) {}
}

/// Words of a page of the ring. The guest has announced all of these packets and writes them no longer, so no line is
/// taken from it. Lines that are asked for arrive in parallel, not one after another.
struct InPage<'a> {
    page: HostPage<'a>,
    /// GPU virtual address of the first.
    gpu_va: u64,
    words: usize,
}

impl InPage<'_> {
    #[inline(always)]
    fn address(&self, index: usize) -> u64 {
        self.gpu_va + index as u64 * UNIT_SIZE
    }
}

impl Packets for InPage<'_> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.words
    }

    #[inline(always)]
    fn word(&self, index: usize) -> u64 {
        read(self.page, self.address(index))
    }

    #[inline(always)]
    fn ask(&self) -> usize {
        // The line that is read now holds a submission or two.
        if self.words > LINE_WORDS { prefetch_ring(self.page, self.gpu_va, self.words) } else { 0 }
    }

    #[inline(always)]
    fn ask_ahead(&self, index: usize) {
        self.page.prefetch(self.address(index + AHEAD));
    }
}

/// Decodes and executes the packets of a burst, with what they reach.
struct Decoder<'e, 'a> {
    signals: &'e mut Signals<'a>,
    pinned: &'e Pinned<'e>,
    buffers: &'e mut Stride,
    reads: &'e mut Reads,
    /// The packet that a fault is of, and its position in the ring.
    fault: (&'e mut Opcode, &'e mut u64),
    /// The number of packets that were executed.
    packets: u32,
}

/// How packets that lie next to each other ended.
enum Run {
    /// All were executed.
    Through,
    /// About as many packets as allowed were executed.
    Limit,
    /// The next packet is not for a burst.
    Other,
    /// The next packet needs this page.
    Missing(Use, u64),
    /// The last packet's buffer has so many bytes left for the slow path.
    Rest { gpu_va: u64, size: u32, left: u32 },
}

impl Decoder<'_, '_> {
    /// Executes packets from the word `at` on, which it moves. The first word is at the ring's position `base`.
    #[inline(always)]
    fn run(
        &mut self,
        source: &impl Packets,
        at: &mut usize,
        base: u64,
        most: u32,
    ) -> Result<Run, Violation> {
        let asks_until = source.ask();
        while *at < source.len() {
            if self.packets >= most {
                return Ok(Run::Limit);
            }
            let header = source.word(*at);
            if header as u32 == SIGNAL_FENCE && *at + 1 < source.len() {
                let (slot, value) = (argument(header), source.word(*at + 1));
                let start = *at;
                *at += PAIR;
                self.packets += 1;
                if !self.signals.hold(slot, value) {
                    *self.fault.0 = Opcode::SIGNAL_FENCE;
                    *self.fault.1 = position(base, start);
                    self.signals.signal(slot, value)?;
                }
                // Twice for a line of two submissions: that takes fewer instructions than checking for it.
                if *at < asks_until {
                    source.ask_ahead(*at);
                }
                continue;
            }
            if header as u32 == NOP {
                *at += 1;
                self.packets += 1;
                continue;
            }
            if header as u32 != INDIRECT_BUFFER || *at + 1 >= source.len() {
                return Ok(Run::Other);
            }
            let (gpu_va, size) = (source.word(*at + 1), argument(header));
            let mut left = size;
            if is_small(gpu_va, size) {
                let Some(buffer) = self.pinned.get(Use::Buffer, gpu_va, false) else {
                    return Ok(Run::Missing(Use::Buffer, gpu_va));
                };
                self.enter_packet(at, base, gpu_va);
                self.prefetch_named(source, *at + PAIR);
                let (signals, opcode) = (&mut *self.signals, &mut *self.fault.0);
                left = execute_small(buffer, gpu_va, size, signals, opcode, &mut self.packets)?;
            } else if Stream::indirect_buffer(gpu_va, size).is_ok() {
                self.enter_packet(at, base, gpu_va);
            } else {
                return Ok(Run::Other);
            }
            if left > 0 {
                return Ok(Run::Rest { gpu_va, size, left });
            }
        }
        Ok(Run::Through)
    }

    /// Moves past a packet that names a buffer.
    #[inline(always)]
    fn enter_packet(&mut self, at: &mut usize, base: u64, gpu_va: u64) {
        *self.fault.1 = position(base, *at);
        *at += PAIR;
        self.packets += 1;
        self.reads.buffer = true;
        self.buffers.note(gpu_va);
    }

    /// Prefetches the buffer that the packet at this word names. A guess: there may be no packet.
    #[inline(always)]
    fn prefetch_named(&self, source: &impl Packets, at: usize) {
        if at + 1 < source.len() && source.word(at) as u32 == INDIRECT_BUFFER {
            self.pinned.prefetch(Use::Buffer, source.word(at + 1));
        }
    }
}

/// The ring's position of a word.
#[inline(always)]
fn position(base: u64, index: usize) -> u64 {
    base.wrapping_add(index as u64 * UNIT_SIZE)
}

/// Where the packets of the last burst were: the next ones are likely to be there as well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Reads {
    /// Some were in the ring's memory.
    pub(super) ring: bool,
    /// Some were in buffers.
    pub(super) buffer: bool,
}

impl Execution {
    /// Executes packets of the ring while they are of these kinds, until `packets`, which counts them, is about
    /// `most`. The caller tallies them.
    ///
    /// # Errors
    /// If a packet broke a rule that only its execution checks.
    #[inline(always)]
    pub(super) fn burst(
        &mut self,
        signals: &mut Signals<'_>,
        pinned: &Pinned<'_>,
        packets: &mut u32,
        most: u32,
    ) -> Result<Burst, Violation> {
        let Self { ring: Some(ring), buffers, reads, opcode, packet_start, .. } = self else {
            return Ok(Burst::Empty);
        };
        let stream = &mut ring.stream;
        *reads = Reads::default();
        let fault = (opcode, packet_start);
        let mut decoder = Decoder { signals, pinned, buffers, reads, fault, packets: *packets };
        let run = loop {
            if stream.is_empty() {
                break Ok(Run::Through);
            }
            let (position, mut at) = (stream.position(), 0);
            let line = ring.line.at(position);
            let run = if line.is_empty() {
                let (gpu_va, length) = stream.in_page();
                let Some(page) = pinned.get(Use::Ring, gpu_va, false) else {
                    break Ok(Run::Missing(Use::Ring, gpu_va));
                };
                decoder.reads.ring = true;
                let packets = InPage { page, gpu_va, words: (length / UNIT_SIZE) as usize };
                decoder.run(&packets, &mut at, position, most)
            } else {
                decoder.run(&line, &mut at, position, most)
            };
            stream.advance(at * UNIT);
            if !matches!(run, Ok(Run::Through)) {
                break run;
            }
        };
        *packets = decoder.packets;
        match run? {
            Run::Through => Ok(Burst::Empty),
            Run::Limit => Ok(Burst::Limit),
            Run::Other => Ok(Burst::Other),
            Run::Missing(what, gpu_va) => Ok(Burst::Missing(what, gpu_va)),
            Run::Rest { gpu_va, size, left } => self.enter_rest(gpu_va, size, left),
        }
    }

    /// Leaves the last bytes of a buffer to the slow path.
    #[cold]
    fn enter_rest(&mut self, gpu_va: u64, size: u32, left: u32) -> Result<Burst, Violation> {
        let mut buffer = Stream::indirect_buffer(gpu_va, size)?;
        buffer.advance((size - left) as usize);
        self.enter(buffer)?;
        self.has_ring_alone = false;
        Ok(Burst::Other)
    }
}

/// Prefetches lines of the ring behind the first of `words` words. Returns the index of the word up to which each
/// submission prefetches one more line, [`AHEAD`] of itself.
#[inline(never)]
fn prefetch_ring(ring: HostPage<'_>, gpu_va: u64, words: usize) -> usize {
    for index in (LINE_WORDS..words.min(AHEAD)).step_by(LINE_WORDS) {
        ring.prefetch(gpu_va + index as u64 * UNIT_SIZE);
    }
    words.saturating_sub(AHEAD)
}

/// Whether a buffer is small and valid: aligned, in one page and in the address space.
#[inline]
fn is_small(gpu_va: u64, size: u32) -> bool {
    let size_of = u64::from(size);
    size <= SMALL
        && (gpu_va | size_of).is_multiple_of(UNIT_SIZE)
        && gpu_va % PAGE_SIZE + size_of <= PAGE_SIZE
        && gpu_va < 1 << ADDRESS_BITS
        && size > 0
}

/// Executes the `NOP` and `SIGNAL_FENCE` packets at the start of a small buffer. Returns how many bytes are left.
#[inline]
fn execute_small(
    page: HostPage<'_>,
    gpu_va: u64,
    size: u32,
    signals: &mut Signals<'_>,
    opcode: &mut Opcode,
    packets: &mut u32,
) -> Result<u32, Violation> {
    let (mut at, mut left) = (gpu_va, size);
    while left > 0 {
        let header = read(page, at);
        match header as u32 {
            NOP => {
                at += UNIT_SIZE;
                left -= UNIT_SIZE as u32;
                *packets += 1;
            }
            SIGNAL_FENCE if left >= PAIR_SIZE as u32 => {
                let (slot, value) = (argument(header), read(page, at + UNIT_SIZE));
                at += PAIR_SIZE;
                left -= PAIR_SIZE as u32;
                *packets += 1;
                if !signals.hold(slot, value) {
                    *opcode = Opcode::SIGNAL_FENCE;
                    signals.signal(slot, value)?;
                }
            }
            _ => break,
        }
    }
    Ok(left)
}
