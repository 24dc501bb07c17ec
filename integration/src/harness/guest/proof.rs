// SPDX-License-Identifier: MIT OR Apache-2.0

//! Proof that the GPU executed a queue's submissions once and in order.
//!
//! Each queue has a word that every submission hashes in place, together with the bytes of its work, and with its
//! own number as the seed. The word after submission `n` is then a digest of all submissions up to `n` in their
//! order. A submission that was left out, executed twice or too early changes it, and so does work whose bytes
//! were not visible when they were hashed. Memory keeps a copy of each digest until its submission was checked.

use crate::harness::scenario::{QueueSpec, Work};
use bellhop_guest_umd::{CommandBuffer, Error, Fence, GpuMapping};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use xxhash_rust::xxh64::xxh64;

const WORD: u64 = size_of::<u64>() as u64;
/// Bytes to which a queue's memory is aligned, so that two queues share no cache line.
const ALIGNMENT: u64 = 64;
/// Most bytes of packets of a submission.
pub(in crate::harness) const COMMANDS: usize = 512;

/// A queue's memory, and its expected contents.
pub(in crate::harness) struct Proof {
    memory: Arc<GpuMapping>,
    /// Where the queue's part of the memory begins.
    start: u64,
    bytes: u64,
    depth: u64,
    /// The two sources of copies.
    sources: [Vec<u8>; 2],
    /// The digest once all submissions are executed.
    digest: u64,
    scratch: Vec<u8>,
}

/// The other queue that a submission waits for.
pub(in crate::harness) struct After<'a> {
    pub(in crate::harness) fence: &'a Fence,
    /// Where the other queue writes its numbers.
    pub(in crate::harness) number: u64,
}

/// The layout of a queue's memory.
#[derive(Debug, Clone, Copy)]
pub(in crate::harness) struct Extent {
    pub(in crate::harness) start: u64,
    bytes: u64,
    depth: u64,
}

impl Extent {
    /// The memory of a queue, from `start` on.
    pub(in crate::harness) fn new(spec: &QueueSpec, start: u64) -> Self {
        let bytes = match spec.work {
            Work::Nop => 0,
            Work::Write => WORD,
            Work::Fill | Work::Copy | Work::Mixed => spec.size.get(),
        };
        Self { start, bytes, depth: spec.depth.get().into() }
    }

    /// Where the next queue's memory begins: behind two sources, the target of work, digest, number, and two
    /// words for each submission in flight.
    pub(in crate::harness) fn end(&self) -> u64 {
        (self.start + 3 * self.bytes + (2 + 2 * self.depth) * WORD).next_multiple_of(ALIGNMENT)
    }

    /// Where the number of the last submission is.
    pub(in crate::harness) fn number(&self) -> u64 {
        self.start + 3 * self.bytes + WORD
    }
}

impl Proof {
    /// Begins a proof. `name` makes the bytes unique to the queue; `number` is that of the previous submission.
    pub(in crate::harness) fn begin(
        memory: Arc<GpuMapping>,
        extent: Extent,
        name: &str,
        number: u64,
    ) -> Result<Self, Error> {
        let Extent { start, bytes, depth } = extent;
        let source = |seed: u64| -> Vec<u8> {
            let word = |place| xxh64(name.as_bytes(), seed << 32 | place).to_le_bytes();
            (0..bytes / WORD).flat_map(word).collect()
        };
        let digest = xxh64(name.as_bytes(), number);
        let sources = [source(1), source(2)];
        let proof = Self { memory, start, bytes, depth, sources, digest, scratch: Vec::new() };
        for (place, source) in (0..).zip(&proof.sources) {
            let offset = start + place * bytes;
            proof.memory.allocation().write(offset as usize, source)?;
        }
        proof.word(proof.state())?.store(digest, Ordering::Release);
        proof.word(proof.number())?.store(number, Ordering::Release);
        Ok(proof)
    }

    fn word(&self, offset: u64) -> Result<&std::sync::atomic::AtomicU64, Error> {
        self.memory.allocation().word(offset as usize)
    }

    fn va(&self, offset: u64) -> u64 {
        self.memory.gpu_va() + offset
    }

    /// The target of work; the digest follows.
    fn area(&self) -> u64 {
        self.start + 2 * self.bytes
    }

    fn state(&self) -> u64 {
        self.start + 3 * self.bytes
    }

    fn number(&self) -> u64 {
        self.state() + WORD
    }

    fn log(&self, number: u64) -> u64 {
        self.number() + (1 + number % self.depth) * WORD
    }

    fn seen(&self, number: u64) -> u64 {
        self.number() + (1 + self.depth + number % self.depth) * WORD
    }

    /// The digest after all recorded submissions.
    pub(in crate::harness) fn digest(&self) -> u64 {
        self.digest
    }

    /// Forgets submissions that were recorded beyond this digest and then not submitted.
    pub(in crate::harness) fn forget_beyond(&mut self, digest: u64) {
        self.digest = digest;
    }

    /// Records submission `number`.
    pub(in crate::harness) fn record(
        &mut self,
        commands: &mut CommandBuffer,
        number: u64,
        work: Work,
        after: Option<&After<'_>>,
        signal: Option<&Fence>,
    ) -> Result<(), Error> {
        commands.reset();
        if let Some(After { fence, number: others }) = after {
            commands.wait_fence(fence, number)?;
            commands.copy(self.va(*others), self.va(self.seen(number)), WORD)?;
        }
        let written = self.record_work(commands, number, work)?;
        let (hashed, state) = (self.va(self.state() - written), self.va(self.state()));
        commands.hash(hashed, written + WORD, number, state)?;
        commands.copy(state, self.va(self.log(number)), WORD)?;
        if let Some(fence) = signal {
            commands.write_data(self.va(self.number()), &number.to_le_bytes())?;
            commands.signal_fence(fence, number)?;
        }
        self.scratch.extend_from_slice(&self.digest.to_le_bytes());
        self.digest = xxh64(&self.scratch, number);
        Ok(())
    }

    /// Records the work before the proof; leaves the bytes that it writes in `scratch`, and returns their number.
    fn record_work(
        &mut self,
        commands: &mut CommandBuffer,
        number: u64,
        work: Work,
    ) -> Result<u64, Error> {
        self.scratch.clear();
        let area = self.va(self.area());
        match work {
            Work::Nop | Work::Mixed => {
                commands.nop()?;
            }
            Work::Fill => {
                let pattern = number as u32;
                commands.fill(area, self.bytes, pattern)?;
                let words = self.bytes / size_of::<u32>() as u64;
                self.scratch.extend((0..words).flat_map(|_| pattern.to_le_bytes()));
            }
            Work::Copy => {
                let which = number % 2;
                let source = self.va(self.start + which * self.bytes);
                commands.copy(source, area, self.bytes)?;
                self.scratch.extend_from_slice(&self.sources[which as usize]);
            }
            Work::Write => {
                let bytes = number.to_le_bytes();
                commands.write_data(self.va(self.state() - WORD), &bytes)?;
                self.scratch.extend_from_slice(&bytes);
            }
        }
        Ok(self.scratch.len() as u64)
    }

    /// Checks the digest of completed submission `number`; the error says what is wrong.
    pub(in crate::harness) fn check(
        &self,
        number: u64,
        digest: u64,
        waited: bool,
    ) -> Result<(), String> {
        let read = |offset| self.word(offset).map(|word| word.load(Ordering::Acquire));
        let shown = |error: Error| format!("its proof cannot be read: {error}");
        let found = read(self.log(number)).map_err(shown)?;
        if found != digest {
            return Err(format!(
                "submission {number} left digest {found:#018x}, not {digest:#018x}: it or an earlier one was skipped, executed twice or executed out of order"
            ));
        }
        if waited {
            let seen = read(self.seen(number)).map_err(shown)?;
            if seen < number {
                return Err(format!(
                    "submission {number} did not wait: the other queue was at {seen}"
                ));
            }
        }
        Ok(())
    }

    /// The present digest, whether or not all submissions are executed.
    pub(in crate::harness) fn found(&self) -> Result<u64, Error> {
        Ok(self.word(self.state())?.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::scenario::Scenario;
    use bellhop_config::at;
    use bellhop_device::service::{Endpoint, Service};
    use bellhop_guest::client::{Client, Shape};
    use bellhop_guest::fake_guest::{FakeGuest, GuestOptions};
    use bellhop_guest_umd::Adapter;
    use bellhop_protocol::control::gpu_va::Protection;
    use std::os::unix::net::UnixStream;

    /// A client of a real device, the proof of its queue, and command buffers with submissions 1 to 3, each with
    /// the digest that it must leave.
    struct Bench {
        client: Client,
        recorded: Vec<(CommandBuffer, u64)>,
        proof: Proof,
        _service: Service,
    }

    impl Bench {
        fn new(work: Work) -> Self {
            let service = Service::start(&Scenario::default().host.config()).unwrap();
            let (front_end, device_end) = UnixStream::pair().unwrap();
            service.serve(Endpoint::connected(device_end).unwrap()).unwrap();
            let guest = FakeGuest::over(front_end, GuestOptions::default()).unwrap();
            let client = Client::new(Adapter::open(guest).unwrap(), Shape::default()).unwrap();
            let spec = QueueSpec { size: at(256), ..QueueSpec::new("q").work(work) };
            let memory = Arc::new(client.memory.allocation().map(Protection::WRITE).unwrap());
            let mut proof = Proof::begin(memory, Extent::new(&spec, 0), "vm/main/q", 0).unwrap();
            let record = |number| {
                let mut commands = client.more_commands(COMMANDS).unwrap();
                proof.record(&mut commands, number, work, None, None).unwrap();
                (commands, proof.digest())
            };
            let recorded = (1..=3).map(record).collect();
            Self { client, recorded, proof, _service: service }
        }

        /// Executes these submissions in this order. Returns whether the proof of the last one holds.
        fn is_right_after(&mut self, order: &[usize]) -> bool {
            for number in order {
                let value = self.client.queue.submit(&mut self.recorded[number - 1].0).unwrap();
                self.client.finish(value).unwrap();
            }
            let digest = self.recorded[2].1;
            let is_right = self.proof.check(3, digest, false).is_ok();
            assert_eq!(is_right, self.proof.found().unwrap() == digest);
            is_right
        }
    }

    #[test]
    fn what_was_left_out_doubled_or_swapped_shows() {
        for work in [Work::Nop, Work::Fill, Work::Copy, Work::Write] {
            assert!(Bench::new(work).is_right_after(&[1, 2, 3]), "{work:?}");
        }
        for order in [&[1, 3][..], &[2, 3], &[1, 2, 2, 3], &[2, 1, 3], &[1, 2, 3, 3], &[1, 2]] {
            assert!(!Bench::new(Work::Write).is_right_after(order), "{order:?}");
        }
    }

    #[test]
    fn work_that_was_not_done_shows() {
        let mut bench = Bench::new(Work::Copy);
        bench.recorded[1].0.reset();
        bench.recorded[1].0.nop().unwrap();
        assert!(!bench.is_right_after(&[1, 2, 3]));
    }
}
