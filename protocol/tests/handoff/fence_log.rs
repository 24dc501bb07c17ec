// SPDX-License-Identifier: MIT OR Apache-2.0

//! Logs: writer and reader. Small logs with entries of two words, so that every order of accesses can be explored.

use bellhop_protocol::fence_log::FenceLogType;
use bellhop_protocol::handoff::fence::{FenceCell, FenceWords, SignalRule};
use bellhop_protocol::handoff::fence_log::{FenceLog, LogReader};
use bellhop_protocol::handoff::sync::{AtomicU64, Ordering};
use loom::sync::Arc;

/// Words of a header.
const HEADER: usize = 5;

/// A log's memory.
struct Log(Vec<AtomicU64>);

impl Log {
    fn new(entries: usize) -> Arc<Self> {
        let words = HEADER + 2 * entries;
        Arc::new(Self((0..words).map(|_| AtomicU64::new(0)).collect()))
    }

    fn get(&self) -> FenceLog<'_, 2> {
        FenceLog::new(&self.0).unwrap()
    }

    /// Engine: writes an entry with `number` in both words.
    fn write(&self, number: u64) {
        self.get().write([number, number]);
    }

    /// Control plane: the new entries, and the number of overwritten ones.
    fn read(&self, reader: &mut LogReader) -> (Vec<u64>, u64) {
        let mut entries = Vec::new();
        let position = self.get().position();
        if !reader.is_behind(position) {
            return (entries, 0);
        }
        FenceLog::<2>::flush();
        let lost = reader.read(&self.get(), position, |[first, second]| {
            assert_eq!(first, second, "half of an entry");
            entries.push(first);
        });
        (entries, lost)
    }
}

// In these models the engine is the first thread: loom remembers one access of a word when it explores earlier
// orders, and the engine's own look at its position would hide the reader's.

#[test]
fn an_entry_that_is_announced_is_there_whole() {
    loom::model(|| {
        let log = Log::new(3);
        let reading = spawn!(log => {
            let mut reader = LogReader::default();
            (log.read(&mut reader), reader)
        });
        log.write(1);
        log.write(2);
        let ((mut entries, lost), mut reader) = reading.join().unwrap();
        assert_eq!(lost, 0);
        let (rest, lost) = log.read(&mut reader);
        assert_eq!(lost, 0);
        entries.extend(rest);
        assert_eq!(entries, [1, 2]);
    });
}

#[test]
fn an_entry_that_is_overwritten_while_it_is_read_counts_as_lost_and_is_not_handed_out() {
    loom::model(|| {
        let log = Log::new(2);
        log.write(1);
        let reading = spawn!(log => {
            let mut reader = LogReader::default();
            (log.read(&mut reader), reader)
        });
        // The second entry overwrites the one that is being read.
        log.write(2);
        log.write(3);
        let ((mut entries, mut lost), mut reader) = reading.join().unwrap();
        let (rest, lost_since) = log.read(&mut reader);
        entries.extend(rest);
        lost += lost_since;
        // Each entry is handed out once, in order, or lost.
        assert!(entries.is_sorted_by(|before, after| before < after));
        assert_eq!(entries.len() as u64 + lost, 3);
        assert_eq!(entries.last(), Some(&3));
    });
}

#[test]
fn who_is_interrupted_for_a_signal_finds_its_entry() {
    loom::model(|| {
        let (fence, log) = (Arc::new(FenceWords::new(0, SignalRule::Monotonic)), Log::new(2));
        let interrupt = Arc::new(AtomicU64::new(0));
        let waiting = spawn!(fence, log, interrupt => {
            FenceCell::monitor([(fence.cell(), 0)]);
            let current = fence.cell().current();
            if interrupt.load(Ordering::Acquire) == 1 {
                assert_eq!(log.read(&mut LogReader::default()), (vec![1], 0));
            }
            current
        });
        fence.cell().write(1).unwrap();
        log.write(1);
        let interrupted = fence.cell().evaluate(None).interrupt;
        if interrupted {
            // Relaxed: the signal alone orders the entry before this.
            interrupt.store(1, Ordering::Relaxed);
        }
        let current = waiting.join().unwrap();
        assert!(interrupted || current == 1, "the interrupt was missed");
    });
}

#[test]
fn a_log_that_is_used_again_is_empty() {
    loom::model(|| {
        let log = Log::new(2);
        log.write(1);
        let told = Arc::new(AtomicU64::new(0));
        let engine = spawn!(log, told => {
            if told.load(Ordering::Acquire) == 1 {
                assert_eq!(log.get().last(), None);
                log.write(2);
                assert_eq!(log.get().last(), Some([2, 2]));
            }
        });
        log.get().reset(FenceLogType::SIGNALS);
        told.store(1, Ordering::Release);
        engine.join().unwrap();
    });
}
