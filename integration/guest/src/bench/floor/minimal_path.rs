// SPDX-License-Identifier: MIT OR Apache-2.0

//! Two processes that move the words of a submission and do nothing else, or nothing but the checks that make it safe.

use super::shape::{Packets, Shape};
use crate::bench::partner::{LINE, Partner, SharedLines};
use crate::processors;
use crate::timing::{Latency, time};
use bellhop_protocol::handoff::publication;
use bellhop_protocol::packet::Opcode;
use std::convert::Infallible;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Most pauses between two loads of the fence: one for each submission that is not done.
const MOST_PAUSES: usize = 64;
/// Submissions for which there is room: two of the deepest batches.
const SLOTS: u64 = 128;
/// Consecutive loads of the doorbell without a pause, each with a prefetch, as an engine does them.
const FRESH_LOOKS: u32 = 64;
/// Submissions before the first that is timed.
const WARM_UP: u64 = 256;

/// The place of a submission's packets, as code.
trait Place {
    /// Words of a ring's entry.
    const ENTRY: usize;

    /// The submitter's part, except for ringing the doorbell.
    fn queue(words: Words<'_>, submission: u64);

    /// The executor's part, except for the store to the fence. Returns the fence's value, or `None` if a check fails.
    fn execute(words: Words<'_>, submission: u64) -> Option<u64>;
}

/// [`Packets::WrittenBuffer`]. The entry: opcode, size, where the buffer is.
struct WrittenBuffer;

impl Place for WrittenBuffer {
    const ENTRY: usize = 3;

    #[inline(always)]
    fn queue(words: Words<'_>, submission: u64) {
        store(words.buffer(submission), [0, 1, submission + 1]);
        store(words.entry(submission, Self::ENTRY), [2, 3, submission]);
    }

    #[inline(always)]
    fn execute(words: Words<'_>, submission: u64) -> Option<u64> {
        let [opcode, size, buffer] = load(words.entry(submission, Self::ENTRY));
        // The entry says where the command buffer is, so this can load the line only now.
        let [nop, signal, value] = load(words.buffer(buffer));
        black_box(opcode ^ size ^ nop ^ signal);
        Some(value)
    }
}

/// [`Packets::KeptBuffer`]. The entry: opcode with size, where the buffer is, the signal, the fence's value.
struct KeptBuffer;

impl Place for KeptBuffer {
    const ENTRY: usize = 4;

    #[inline(always)]
    fn queue(words: Words<'_>, submission: u64) {
        store(words.entry(submission, Self::ENTRY), [2, submission, 1, submission + 1]);
    }

    #[inline(always)]
    fn execute(words: Words<'_>, submission: u64) -> Option<u64> {
        let [opcode, buffer, signal, value] = load(words.entry(submission, Self::ENTRY));
        let [nop] = load(words.buffer(buffer));
        black_box(opcode ^ nop ^ signal);
        Some(value)
    }
}

/// [`Packets::Ring`]. The entry: the null packet, the signal, the fence's value.
struct Ring;

impl Place for Ring {
    const ENTRY: usize = 3;

    #[inline(always)]
    fn queue(words: Words<'_>, submission: u64) {
        store(words.entry(submission, Self::ENTRY), [0, 1, submission + 1]);
    }

    #[inline(always)]
    fn execute(words: Words<'_>, submission: u64) -> Option<u64> {
        let [nop, signal, value] = load(words.entry(submission, Self::ENTRY));
        black_box(nop ^ signal);
        Some(value)
    }
}

/// [`Packets::CheckedRing`]. The entry: `NOP`, `SIGNAL_FENCE` and its value, as in the product's ring.
///
/// These are the least checks that keep one submitter's words from doing harm to another:
///
/// - the write pointer is at most a ring ahead ([`Words::wait_for_doorbell`]'s caller), or the executor would work for a
///   lifetime on entries that nobody wrote;
/// - the ring's page is mapped: what is unmapped may belong to somebody else a moment later;
/// - each header is that of a packet of its length, or the next one would be read from the middle of this one;
/// - the fence's slot exists, or the executor would store outside the table; and it is the submitter's, or it would
///   signal another's;
/// - its value does not go back, or who waited for it would have waited in vain.
struct CheckedRing;

/// The headers of the two packets.
const NOP_HEADER: u64 = header(Opcode::NOP, 1, 0);
const SIGNAL: u32 = header(Opcode::SIGNAL_FENCE, 2, 0) as u32;
/// The fence that is signaled.
const SLOT: u64 = 5;
/// Who may signal it.
const OWNER: u64 = 1;

const fn header(opcode: Opcode, units: u64, argument: u64) -> u64 {
    opcode.0 as u64 | units << 16 | argument << 32
}

impl Place for CheckedRing {
    const ENTRY: usize = 3;

    #[inline(always)]
    fn queue(words: Words<'_>, submission: u64) {
        let signal = header(Opcode::SIGNAL_FENCE, 2, SLOT);
        store(words.entry(submission, Self::ENTRY), [NOP_HEADER, signal, submission + 1]);
    }

    #[inline(always)]
    fn execute(words: Words<'_>, submission: u64) -> Option<u64> {
        let entry = words.entry(submission, Self::ENTRY);
        let page = (submission % SLOTS) as usize * Self::ENTRY * size_of::<u64>() / 4096;
        if words.pages.get(page)?.load(Ordering::Relaxed) != OWNER {
            return None;
        }
        let [nop, signal, value] = load(entry);
        if nop != NOP_HEADER || signal as u32 != SIGNAL {
            return None;
        }
        let owner = words.owners.get((signal >> 32) as usize)?;
        let is_owned = owner.load(Ordering::Relaxed) == OWNER;
        (is_owned && value >= words.fence.load(Ordering::Relaxed)).then_some(value)
    }
}

#[inline(always)]
fn store<const N: usize>(words: &[AtomicU64], values: [u64; N]) {
    for (word, value) in words.iter().zip(values) {
        word.store(value, Ordering::Relaxed);
    }
}

#[inline(always)]
fn load<const N: usize>(words: &[AtomicU64]) -> [u64; N] {
    std::array::from_fn(|at| words[at].load(Ordering::Relaxed))
}

/// Prefetches a word's cache line.
#[inline(always)]
fn ask_for(word: &AtomicU64) {
    // SAFETY: a prefetch is a hint, which reads and writes nothing and faults nowhere.
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "the intrinsic takes a raw pointer")]
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch(word.as_ptr().cast(), _MM_HINT_T0);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = word;
}

/// The words of a [`MinimalPath`].
#[derive(Clone, Copy)]
struct Words<'a> {
    doorbell: &'a AtomicU64,
    fence: &'a AtomicU64,
    ring: &'a [AtomicU64],
    commands: &'a [AtomicU64],
    /// By page of the ring: who has it. Only the executor uses this and the next.
    pages: &'a [AtomicU64],
    /// By slot: who may signal the fence.
    owners: &'a [AtomicU64],
}

/// Words of the longest entry.
const MOST_ENTRY: usize = KeptBuffer::ENTRY;
const RING_LINES: usize = SLOTS as usize * MOST_ENTRY / LINE;
/// Lines of the executor's tables: of pages, and of fences.
const PAGE_LINES: usize = 1;
const OWNER_LINES: usize = 8;
const LINES: usize = 2 + RING_LINES + SLOTS as usize + PAGE_LINES + OWNER_LINES;

impl<'a> Words<'a> {
    fn of(lines: &'a SharedLines) -> Self {
        let (head, rest) = lines.words().split_at(2 * LINE);
        let (ring, rest) = rest.split_at(RING_LINES * LINE);
        let (commands, tables) = rest.split_at(SLOTS as usize * LINE);
        let (pages, owners) = tables.split_at(PAGE_LINES * LINE);
        Self { doorbell: &head[0], fence: &head[LINE], ring, commands, pages, owners }
    }

    /// Gives the submitter the ring's pages and its fence.
    fn grant(self) {
        self.pages.iter().chain(&self.owners[SLOT as usize..=SLOT as usize]).for_each(|word| {
            word.store(OWNER, Ordering::Relaxed);
        });
    }

    #[inline(always)]
    fn entry(self, submission: u64, words: usize) -> &'a [AtomicU64] {
        let place = (submission % SLOTS) as usize * words;
        &self.ring[place..place + words]
    }

    /// The line of a submission's command buffer.
    #[inline(always)]
    fn buffer(self, submission: u64) -> &'a [AtomicU64] {
        let place = (submission % SLOTS) as usize * LINE;
        &self.commands[place..place + LINE]
    }

    /// Waits for the doorbell to say more than `done`, and returns what it says.
    #[inline(always)]
    fn wait_for_doorbell<P: Place, const ASKS_AHEAD: bool>(self, done: u64) -> u64 {
        let mut looks = 0;
        loop {
            let written = publication::read(self.doorbell);
            if written != done {
                return written;
            }
            if ASKS_AHEAD && looks < FRESH_LOOKS {
                looks += 1;
                ask_for(&self.entry(done, P::ENTRY)[0]);
                ask_for(&self.buffer(done)[0]);
            } else {
                spin_loop();
            }
        }
    }

    /// The executor.
    fn execute<P: Place, const ASKS_AHEAD: bool, const COALESCES: bool>(self) {
        let mut done = 0;
        loop {
            let written = self.wait_for_doorbell::<P, ASKS_AHEAD>(done);
            if written.wrapping_sub(done) > SLOTS {
                return;
            }
            while done < written {
                let Some(value) = P::execute(self, done) else { return };
                done += 1;
                if !COALESCES || done.is_multiple_of(Shape::COALESCED) || done == written {
                    publication::publish(self.fence, value);
                }
            }
        }
    }

    fn execute_as<P: Place>(self, shape: Shape) {
        match (shape.asks_ahead, shape.coalesces) {
            (false, false) => self.execute::<P, false, false>(),
            (false, true) => self.execute::<P, false, true>(),
            (true, false) => self.execute::<P, true, false>(),
            (true, true) => self.execute::<P, true, true>(),
        }
    }
}

/// A submitter, and an executor in a process of its own.
pub(in super::super) struct MinimalPath {
    _partner: Partner,
    lines: SharedLines,
    shape: Shape,
    code: Code,
    submitted: u64,
}

/// Submitter and executor for one place of packets.
#[derive(Clone, Copy)]
struct Code {
    execute: fn(Words<'_>, Shape),
    round_trip: fn(&mut MinimalPath, u64) -> anyhow::Result<Latency>,
    rate: fn(&mut MinimalPath, u64, u64, bool) -> f64,
}

impl Code {
    fn of<P: Place>() -> Self {
        Self {
            execute: |words, shape| words.execute_as::<P>(shape),
            round_trip: MinimalPath::round_trip_of::<P>,
            rate: MinimalPath::rate_of::<P>,
        }
    }
}

impl MinimalPath {
    /// `None` on one processor.
    pub(in super::super) fn start(shape: Shape) -> anyhow::Result<Option<Self>> {
        if processors::pair().is_none() {
            return Ok(None);
        }
        let lines = SharedLines::new(LINES)?;
        let words = Words::of(&lines);
        let code = match shape.packets {
            Packets::WrittenBuffer => Code::of::<WrittenBuffer>(),
            Packets::KeptBuffer => Code::of::<KeptBuffer>(),
            Packets::Ring => Code::of::<Ring>(),
            Packets::CheckedRing => Code::of::<CheckedRing>(),
        };
        words.grant();
        let partner = Partner::start(|| (code.execute)(words, shape))?;
        Ok(Some(Self { _partner: partner, lines, shape, code, submitted: 0 }))
    }

    /// Submits `depth` command buffers, at most half of [`SLOTS`], rings as the shape says, and waits for the last
    /// of this batch, or of the batch before.
    #[inline(always)]
    fn batch<P: Place>(&mut self, depth: u64, keeps_fed: bool) {
        let words = Words::of(&self.lines);
        let start = self.submitted;
        let end = start + depth.min(SLOTS / 2);
        for submission in start..end {
            P::queue(words, submission);
            if self.shape.rings_each || submission + 1 == end {
                publication::publish(words.doorbell, submission + 1);
            }
        }
        self.submitted = end;
        self.wait_for(if keeps_fed { start } else { end });
    }

    #[inline(always)]
    fn wait_for(&self, end: u64) {
        let words = Words::of(&self.lines);
        loop {
            let done = publication::read(words.fence);
            if done >= end {
                return;
            }
            // Pauses as the driver does: each load takes the line from the process that signals.
            (done..end).take(MOST_PAUSES).for_each(|_| spin_loop());
        }
    }

    /// One submission at a time.
    pub(in super::super) fn round_trip(&mut self, samples: u64) -> anyhow::Result<Latency> {
        (self.code.round_trip)(self, samples)
    }

    fn round_trip_of<P: Place>(&mut self, samples: u64) -> anyhow::Result<Latency> {
        time(samples, || {
            self.batch::<P>(1, false);
            Ok::<_, Infallible>(())
        })
    }

    /// Submissions a second in batches of `depth`. The submitter waits for each batch before it fills the next, or
    /// the one after the next.
    pub(in super::super) fn rate(&mut self, depth: u64, samples: u64, keeps_fed: bool) -> f64 {
        (self.code.rate)(self, depth, samples, keeps_fed)
    }

    fn rate_of<P: Place>(&mut self, depth: u64, samples: u64, keeps_fed: bool) -> f64 {
        // The other process may have yet to begin.
        for _ in 0..WARM_UP.min(samples).div_ceil(depth) {
            self.batch::<P>(depth, keeps_fed);
        }
        self.wait_for(self.submitted);
        let rounds = (samples / depth).max(1);
        let start = Instant::now();
        for _ in 0..rounds {
            self.batch::<P>(depth, keeps_fed);
        }
        self.wait_for(self.submitted);
        (rounds * depth) as f64 / start.elapsed().as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executor_finds_in_each_place_what_the_submitter_put_there() {
        fn fences<P: Place>() -> Vec<u64> {
            let lines = SharedLines::new(LINES).unwrap();
            let words = Words::of(&lines);
            words.grant();
            (0..SLOTS).for_each(|submission| P::queue(words, submission));
            (0..SLOTS).map_while(|submission| P::execute(words, submission)).collect()
        }
        let expected: Vec<_> = (1..=SLOTS).collect();
        assert_eq!(fences::<WrittenBuffer>(), expected);
        assert_eq!(fences::<KeptBuffer>(), expected);
        assert_eq!(fences::<Ring>(), expected);
        assert_eq!(fences::<CheckedRing>(), expected);
    }

    #[test]
    fn an_executor_that_checks_refuses_what_would_harm_others() {
        let lines = SharedLines::new(LINES).unwrap();
        let words = Words::of(&lines);
        CheckedRing::queue(words, 0);
        assert_eq!(CheckedRing::execute(words, 0), None, "it has neither page nor fence");
        words.grant();
        assert_eq!(CheckedRing::execute(words, 0), Some(1));
        for (index, word) in [
            (0, header(Opcode::NOP, 2, 0)),
            (1, header(Opcode::FILL, 2, SLOT)),
            (1, header(Opcode::SIGNAL_FENCE, 2, SLOT + 1)),
            (1, header(Opcode::SIGNAL_FENCE, 2, u64::from(u32::MAX))),
        ] {
            let entry = words.entry(0, CheckedRing::ENTRY);
            let was = entry[index].swap(word, Ordering::Relaxed);
            assert_eq!(CheckedRing::execute(words, 0), None, "{index}: {word:#x}");
            entry[index].store(was, Ordering::Relaxed);
        }
        words.fence.store(2, Ordering::Relaxed);
        assert_eq!(CheckedRing::execute(words, 0), None, "the fence is further already");
    }

    #[test]
    fn every_shape_does_every_submission() {
        if processors::pair().is_none() {
            return;
        }
        for shape in Shape::of_depth(SLOTS / 2).chain(Shape::checked_of_depth(SLOTS / 2)) {
            let Some(mut path) = MinimalPath::start(shape).unwrap() else { return };
            assert_eq!(path.round_trip(10).unwrap().samples, 10, "{shape}");
            for keeps_fed in [false, true] {
                assert!(path.rate(SLOTS / 2, 3 * SLOTS, keeps_fed) > 0.0, "{shape}");
            }
            let fence = publication::read(Words::of(&path.lines).fence);
            assert_eq!(fence, path.submitted, "{shape}");
        }
    }
}
