// SPDX-License-Identifier: MIT OR Apache-2.0

//! The least that a submission can cost: cache lines that move between two processes.

use super::partner::{LINE, Partner, SharedLines};
use crate::processors;
use crate::timing::{Latency, time};
use bellhop_protocol::handoff::publication;
use std::convert::Infallible;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Why two polling processes are not measured: each would wait for the end of the other's time slice.
pub(super) const ONE_PROCESSOR: &str =
    "two programs that poll need a processor each; give the guest two";

/// A cache line to another process and one back, both polled. `None` on one processor.
pub(super) fn cache_line_round_trip(samples: u64) -> anyhow::Result<Option<Latency>> {
    if processors::pair().is_none() {
        return Ok(None);
    }
    let shared = SharedLines::new(2)?;
    let (there, back) = (&shared.words()[0], &shared.words()[LINE]);
    let _partner = Partner::start(|| {
        let mut seen = 0;
        loop {
            seen = wait_for_another(there, seen);
            publication::publish(back, seen);
        }
    })?;
    let mut value = 0;
    time(samples, || {
        value += 1;
        publication::publish(there, value);
        wait_for(back, value);
        Ok::<_, Infallible>(())
    })
    .map(Some)
}

#[inline]
fn wait_for(word: &AtomicU64, value: u64) {
    while publication::read(word) < value {
        spin_loop();
    }
}

#[inline]
fn wait_for_another(word: &AtomicU64, value: u64) -> u64 {
    loop {
        let now = publication::read(word);
        if now != value {
            return now;
        }
        spin_loop();
    }
}

/// Most pauses between two loads of the fence: one for each submission that is not done.
const MOST_PAUSES: usize = 64;
/// Submissions for which there is room.
const SLOTS: u64 = 64;
/// Words of a ring's entry: where the command buffer is, and how long.
const ENTRY: usize = 3;
/// Words of the command buffer: a packet that does nothing, and one that signals.
const COMMANDS: usize = 3;

/// Two processes that move only the cache lines that a submission must move: command buffer, ring entry and
/// doorbell one way, fence the other.
pub(super) struct MinimalPath {
    _partner: Partner,
    lines: SharedLines,
    submitted: u64,
}

/// The words of a [`MinimalPath`].
#[derive(Clone, Copy)]
struct Words<'a> {
    doorbell: &'a AtomicU64,
    fence: &'a AtomicU64,
    ring: &'a [AtomicU64],
    commands: &'a [AtomicU64],
}

const RING_LINES: usize = SLOTS as usize * ENTRY / LINE;
const LINES: usize = 2 + RING_LINES + SLOTS as usize;

impl<'a> Words<'a> {
    fn of(lines: &'a SharedLines) -> Self {
        let (head, rest) = lines.words().split_at(2 * LINE);
        let (ring, commands) = rest.split_at(RING_LINES * LINE);
        Self { doorbell: &head[0], fence: &head[LINE], ring, commands }
    }

    #[inline]
    fn entry(&self, submission: u64) -> &'a [AtomicU64] {
        let place = (submission % SLOTS) as usize * ENTRY;
        &self.ring[place..place + ENTRY]
    }

    #[inline]
    fn buffer(&self, submission: u64) -> &'a [AtomicU64] {
        let place = (submission % SLOTS) as usize * LINE;
        &self.commands[place..place + COMMANDS]
    }

    /// The submitter's part, but for the ring of the doorbell.
    #[inline]
    fn queue(&self, submission: u64) {
        let [entry, commands] = [self.entry(submission), self.buffer(submission)];
        for (word, value) in
            commands.iter().chain(entry).zip([0, 1, submission + 1, 2, 3, submission])
        {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// The engine's part.
    fn execute(&self) {
        let mut done = 0;
        loop {
            let written = wait_for_another(self.doorbell, done);
            while done < written {
                let [opcode, size, buffer] = self.entry(done) else { return };
                let entry = opcode.load(Ordering::Relaxed) ^ size.load(Ordering::Relaxed);
                // The entry says where the command buffer is, so this can load the line only now.
                let buffer = self.buffer(buffer.load(Ordering::Relaxed));
                let [nop, signal, value] = buffer else { return };
                let packets = nop.load(Ordering::Relaxed) ^ signal.load(Ordering::Relaxed);
                black_box(entry ^ packets);
                done += 1;
                publication::publish(self.fence, value.load(Ordering::Relaxed));
            }
        }
    }
}

impl MinimalPath {
    /// `None` on one processor.
    pub(super) fn start() -> anyhow::Result<Option<Self>> {
        if processors::pair().is_none() {
            return Ok(None);
        }
        let lines = SharedLines::new(LINES)?;
        let partner = Partner::start(|| Words::of(&lines).execute())?;
        Ok(Some(Self { _partner: partner, lines, submitted: 0 }))
    }

    /// Submits `depth` command buffers, at most [`SLOTS`], rings once, and waits for the last.
    #[inline]
    fn batch(&mut self, depth: u64) {
        let words = Words::of(&self.lines);
        let end = self.submitted + depth.min(SLOTS);
        for submission in self.submitted..end {
            words.queue(submission);
        }
        self.submitted = end;
        publication::publish(words.doorbell, end);
        loop {
            let done = publication::read(words.fence);
            if done >= end {
                return;
            }
            // As the driver does: each load takes the line from the process that signals.
            (done..end).take(MOST_PAUSES).for_each(|_| spin_loop());
        }
    }

    /// One submission at a time.
    pub(super) fn round_trip(&mut self, samples: u64) -> anyhow::Result<Latency> {
        time(samples, || {
            self.batch(1);
            Ok::<_, Infallible>(())
        })
    }

    /// Submissions a second in batches of `depth`.
    pub(super) fn rate(&mut self, depth: u64, samples: u64) -> f64 {
        let rounds = (samples / depth).max(1);
        let start = Instant::now();
        for _ in 0..rounds {
            self.batch(depth);
        }
        (rounds * depth) as f64 / start.elapsed().as_secs_f64()
    }
}
