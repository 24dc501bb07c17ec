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
use crate::gpu::memory::violation::Violation;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::packet::fence::SignalFence;
use bellhop_protocol::packet::flow::IndirectBuffer;
use bellhop_protocol::packet::{Opcode, UNIT};
use std::sync::atomic::Ordering;

/// The most bytes of a buffer that is executed from guest memory: a cache line.
const SMALL: u32 = 64;
/// Bytes of a cache line.
const LINE: u64 = 64;
/// Bytes of the ring that are prefetched ahead of execution.
const AHEAD: u64 = 8 * LINE;
/// The sizes of these packets.
const UNIT_SIZE: u64 = UNIT as u64;
const PAIR: u64 = 2 * UNIT_SIZE;
const _: () = assert!(size_of::<IndirectBuffer>() as u64 == PAIR);
const _: () = assert!(size_of::<SignalFence>() as u64 == PAIR);

/// The lower half of these packets' headers, as in memory: opcode and length.
const NOP: u32 = half(Opcode::NOP, UNIT_SIZE);
const INDIRECT_BUFFER: u32 = half(Opcode::INDIRECT_BUFFER, PAIR);
const SIGNAL_FENCE: u32 = half(Opcode::SIGNAL_FENCE, PAIR);

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
        let Self { ring: Some(ring), buffers, opcode, packet_start, .. } = self else {
            return Ok(Burst::Empty);
        };
        let stream = &mut ring.stream;
        while !stream.is_empty() {
            let (mut at, length) = stream.in_page();
            let end = at + length;
            let Some(page) = pinned.get(Use::Ring, at, false) else {
                return Ok(Burst::Missing(Use::Ring, at));
            };
            // The line that is read now holds a submission or two.
            let asks_until = if length > LINE { prefetch_ring(page, at, end) } else { 0 };
            while at < end {
                if *packets >= most {
                    return Ok(Burst::Limit);
                }
                let header = read(page, at);
                if header as u32 == NOP {
                    stream.advance(UNIT);
                    at += UNIT_SIZE;
                    *packets += 1;
                    continue;
                }
                if end - at < PAIR {
                    return Ok(Burst::Other);
                }
                match header as u32 {
                    INDIRECT_BUFFER => {
                        let (gpu_va, size) = (read(page, at + UNIT_SIZE), argument(header));
                        let small = is_small(gpu_va, size);
                        let buffer = if small {
                            let Some(buffer) = pinned.get(Use::Buffer, gpu_va, false) else {
                                return Ok(Burst::Missing(Use::Buffer, gpu_va));
                            };
                            Some(buffer)
                        } else {
                            None
                        };
                        let left = match buffer {
                            Some(_) => 0,
                            None if Stream::indirect_buffer(gpu_va, size).is_ok() => size,
                            None => return Ok(Burst::Other),
                        };
                        *packet_start = stream.position();
                        stream.advance(PAIR as usize);
                        at += PAIR;
                        *packets += 1;
                        buffers.note(gpu_va);
                        if end - at >= 2 * PAIR {
                            prefetch_named(pinned, page, at + PAIR);
                        }
                        // Twice for a line of two submissions: that takes fewer instructions than checking for it.
                        if at < asks_until {
                            page.prefetch(at + AHEAD);
                        }
                        let left = match buffer {
                            Some(page) => {
                                execute_small(page, gpu_va, size, signals, opcode, packets)?
                            }
                            None => left,
                        };
                        if left > 0 {
                            return self.enter_rest(gpu_va, size, left);
                        }
                    }
                    SIGNAL_FENCE => {
                        let (slot, value) = (argument(header), read(page, at + UNIT_SIZE));
                        let start = stream.position();
                        stream.advance(PAIR as usize);
                        at += PAIR;
                        *packets += 1;
                        if !signals.hold(slot, value) {
                            (*opcode, *packet_start) = (Opcode::SIGNAL_FENCE, start);
                            signals.signal(slot, value)?;
                        }
                    }
                    _ => return Ok(Burst::Other),
                }
            }
        }
        Ok(Burst::Empty)
    }

    /// Leaves the last bytes of a buffer to the slow path.
    #[cold]
    fn enter_rest(&mut self, gpu_va: u64, size: u32, left: u32) -> Result<Burst, Violation> {
        let mut buffer = Stream::indirect_buffer(gpu_va, size)?;
        buffer.advance((size - left) as usize);
        self.enter(buffer)?;
        Ok(Burst::Other)
    }
}

/// Prefetches lines of the ring with packets up to `end`. The guest has announced all of these and writes them no
/// longer, so no line is taken from it. The lines arrive in parallel, not one after another. Returns the address up
/// to which each packet prefetches one more line, [`AHEAD`] of itself.
#[inline(never)]
fn prefetch_ring(ring: HostPage<'_>, at: u64, end: u64) -> u64 {
    for line in (at + LINE..end.min(at + AHEAD)).step_by(LINE as usize) {
        ring.prefetch(line);
    }
    end.saturating_sub(AHEAD)
}

/// Prefetches the buffer that the packet at this address names. A guess: there may be no packet.
#[inline]
fn prefetch_named(pinned: &Pinned<'_>, ring: HostPage<'_>, gpu_va: u64) {
    if read(ring, gpu_va) as u32 == INDIRECT_BUFFER {
        pinned.prefetch(Use::Buffer, read(ring, gpu_va + UNIT_SIZE));
    }
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
            SIGNAL_FENCE if left >= PAIR as u32 => {
                let (slot, value) = (argument(header), read(page, at + UNIT_SIZE));
                at += PAIR;
                left -= PAIR as u32;
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
