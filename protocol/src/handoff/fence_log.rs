// SPDX-License-Identifier: MIT OR Apache-2.0

//! Log write and log read.
//!
//! The engine that executes a HW queue writes the entries of the queue's logs, and overwrites the oldest without
//! asking. The control plane reads the new entries. It detects overwritten ones by the position that the engine
//! stores after each entry:
//!
//! - The engine stores an entry and then its position, which releases the entry. It decides on an interrupt only
//!   afterwards, after the full fence of [`FenceCell::evaluate`](super::fence::FenceCell::evaluate): the
//!   interrupted CPU finds the entry.
//! - The control plane loads the position, and only if there are new entries pays for the barrier that follows,
//!   [`FenceLog::flush`], which acquires the entries. The reference moves this barrier "from GPU (producer) to CPU
//!   (consumer)".
//! - The reader reads an entry and then the position once more, as in a sequence lock. The engine's fence before an
//!   entry and the reader's after it pair: a reader that sees a word of a newer entry in an old entry's place also
//!   sees that the position has advanced that far.
//!
//! Source: native GPU fence object, "Log buffer overrun is permitted" and "Synchronously updating native
//! fence Log".

use super::sync::{AtomicU64, Ordering, fence};
use crate::fence_log::{FenceLogEntry, FenceLogHeader, FenceLogType};

/// 64-bit words of a header and of an entry.
const HEADER_WORDS: usize = size_of::<FenceLogHeader>() / size_of::<u64>();
const ENTRY_WORDS: usize = size_of::<FenceLogEntry>() / size_of::<u64>();

/// `AtomicWraparoundAndEntryIndex`: index of the next entry, and number of times that the log was full.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogPosition(u64);

impl LogPosition {
    const fn new(first_free: u32, wraparounds: u32) -> Self {
        Self((wraparounds as u64) << 32 | first_free as u64)
    }

    /// `FirstFreeEntryIndex`
    #[must_use]
    pub const fn first_free(self) -> u32 {
        self.0 as u32
    }

    /// `WraparoundCount`
    #[must_use]
    pub const fn wraparounds(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The position `count` entries later, in a log of `entries`.
    fn plus(self, count: u64, entries: u32) -> Self {
        let index = u64::from(self.first_free()) + count % (u64::from(entries) << 32);
        let wraparounds = self.wraparounds().wrapping_add((index / u64::from(entries)) as u32);
        Self::new((index % u64::from(entries)) as u32, wraparounds)
    }

    /// Number of entries between an earlier position and this one. Wraparounds are counted in 32 bits; no reader
    /// lags that far behind.
    fn since(self, earlier: Self, entries: u32) -> u64 {
        let wraparounds = self.wraparounds().wrapping_sub(earlier.wraparounds());
        (u64::from(wraparounds) * u64::from(entries))
            .wrapping_add(u64::from(self.first_free()))
            .wrapping_sub(u64::from(earlier.first_free()))
    }
}

/// A log, in memory that no guest can write. `WORDS` is the length of an entry, so that the models need not explore
/// all orders of six words.
#[derive(Debug, Clone, Copy)]
pub struct FenceLog<'a, const WORDS: usize = ENTRY_WORDS> {
    header: &'a [AtomicU64; HEADER_WORDS],
    entries: &'a [[AtomicU64; WORDS]],
}

impl<'a, const WORDS: usize> FenceLog<'a, WORDS> {
    /// The log in these words, which ignores words after the last whole entry. `None` without room for two entries,
    /// one to be read while the other is written.
    #[must_use]
    pub fn new(words: &'a [AtomicU64]) -> Option<Self> {
        let (header, rest) = words.split_first_chunk()?;
        let (entries, _) = rest.as_chunks();
        let is_log = entries.len() >= 2 && u32::try_from(entries.len()).is_ok();
        is_log.then_some(Self { header, entries })
    }

    /// Number of entries that the log has room for.
    #[must_use]
    pub const fn number_of_entries(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Control plane: makes it an empty log. The caller ensures that no thread uses the old log any more, and
    /// releases the new one to its users.
    pub fn reset(&self, log_type: FenceLogType) {
        let [position, kind, entries, reserved @ ..] = self.header;
        position.store(0, Ordering::Relaxed);
        kind.store(u64::from(log_type.0), Ordering::Relaxed);
        entries.store(self.entries.len() as u64, Ordering::Relaxed);
        for word in reserved.iter().chain(self.entries.as_flattened()) {
            word.store(0, Ordering::Relaxed);
        }
    }

    fn at(&self, position: LogPosition) -> Option<&'a [AtomicU64; WORDS]> {
        self.entries.get(position.first_free() as usize)
    }

    /// Engine: the last entry written, if there is one. Only the engine writes.
    #[must_use]
    #[inline]
    pub fn last(&self) -> Option<[u64; WORDS]> {
        let position = self.position();
        if position == LogPosition::default() {
            return None;
        }
        let last = position.first_free().checked_sub(1).unwrap_or(self.number_of_entries() - 1);
        let entry = self.entries.get(last as usize)?;
        Some(entry.each_ref().map(|word| word.load(Ordering::Relaxed)))
    }

    /// Engine: writes an entry, over the oldest one if the log is full. Only the engine writes.
    ///
    /// The fence pairs with the one in [`LogReader::read`]: a reader that sees a part of this entry sees that the
    /// entries before it were announced. The store pairs with [`Self::flush`].
    #[inline]
    pub fn write(&self, entry: [u64; WORDS]) {
        let position = self.position();
        let Some(place) = self.at(position) else { return };
        fence(Ordering::Release);
        for (word, value) in place.iter().zip(entry) {
            word.store(value, Ordering::Relaxed);
        }
        let next = position.plus(1, self.number_of_entries());
        self.header[0].store(next.0, Ordering::Release);
    }

    /// The position of the next entry. Earlier entries may be read after [`Self::flush`].
    #[must_use]
    #[inline]
    pub fn position(&self) -> LogPosition {
        LogPosition(self.header[0].load(Ordering::Relaxed))
    }

    /// Control plane: makes the entries before every position that it has loaded readable. Pairs with the store in
    /// [`Self::write`], of any number of logs.
    pub fn flush() {
        fence(Ordering::Acquire);
    }
}

impl FenceLog<'_> {
    /// Engine: writes an entry. Its time is at least the last entry's, whatever the packet says.
    #[inline]
    pub fn write_entry(&self, entry: FenceLogEntry) {
        let last: Option<FenceLogEntry> = self.last().map(|last| zerocopy::transmute!(last));
        let end_timestamp = last.map_or(0, |last| last.end_timestamp).max(entry.end_timestamp);
        self.write(zerocopy::transmute!(FenceLogEntry { end_timestamp, ..entry }));
    }
}

/// The control plane's read position in a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogReader {
    next: LogPosition,
}

impl LogReader {
    /// Returns whether there are new entries at this position.
    #[must_use]
    pub fn is_behind(&self, position: LogPosition) -> bool {
        self.next != position
    }

    /// The `until` for which [`Self::read`] reads at most `most` entries of a log at `position`. Overwritten
    /// entries are skipped and do not count.
    #[must_use]
    pub fn at_most<const WORDS: usize>(
        &self,
        log: &FenceLog<'_, WORDS>,
        position: LogPosition,
        most: u64,
    ) -> LogPosition {
        let entries = log.number_of_entries();
        let behind = position.since(self.next, entries);
        let gone = behind.saturating_sub(u64::from(entries) - 1);
        if behind - gone <= most { position } else { self.next.plus(gone + most, entries) }
    }

    /// As [`Self::read`], with whole entries.
    pub fn read_entries(
        &mut self,
        log: &FenceLog<'_>,
        until: LogPosition,
        mut each: impl FnMut(FenceLogEntry),
    ) -> u64 {
        self.read(log, until, |words| each(zerocopy::transmute!(words)))
    }

    /// Hands each new entry before `until` to `each`, and returns how many were overwritten before they could be
    /// read. Afterwards all of them are read or lost; later ones are lost too if the engine is far enough ahead.
    ///
    /// `until` was loaded from this log, and [`FenceLog::flush`] was called since.
    ///
    /// The loop is bounded: each round reads at least one entry before `until`, or gives some up. Of a log of *N*
    /// entries, at most *N* - 1 are safe to read, because the engine may already be writing the next one.
    pub fn read<const WORDS: usize>(
        &mut self,
        log: &FenceLog<'_, WORDS>,
        until: LogPosition,
        mut each: impl FnMut([u64; WORDS]),
    ) -> u64 {
        let entries = log.number_of_entries();
        let overrun = |behind: u64| behind.saturating_sub(u64::from(entries) - 1);
        let mut left = until.since(self.next, entries);
        let mut lost = 0;
        let mut gone = overrun(left);
        loop {
            self.next = self.next.plus(gone, entries);
            lost += gone;
            left = left.saturating_sub(gone);
            if left == 0 {
                return lost;
            }
            let Some(place) = log.at(self.next) else { return lost };
            let entry = place.each_ref().map(|word| word.load(Ordering::Relaxed));
            // Pairs with the fence in `FenceLog::write`.
            fence(Ordering::Acquire);
            gone = overrun(log.position().since(self.next, entries));
            if gone == 0 {
                each(entry);
                self.next = self.next.plus(1, entries);
                left -= 1;
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn words(entries: usize) -> Vec<AtomicU64> {
        (0..HEADER_WORDS + ENTRY_WORDS * entries).map(|_| AtomicU64::new(7)).collect()
    }

    fn entry(value: u64, end_timestamp: u64) -> FenceLogEntry {
        FenceLogEntry { fence_value: value, end_timestamp, ..FenceLogEntry::default() }
    }

    #[test]
    fn a_page_is_a_log_of_84_entries_with_the_references_header() {
        let words: Vec<_> = (0..512).map(|_| AtomicU64::new(7)).collect();
        let log = FenceLog::<ENTRY_WORDS>::new(&words).unwrap();
        log.reset(FenceLogType::SIGNALS);
        for value in 0..85 {
            log.write_entry(entry(value, value));
        }
        let header: Vec<_> =
            words.iter().take(5).map(|word| word.load(Ordering::Relaxed)).collect();
        assert_eq!(header, [1 << 32 | 1, 2, 84, 0, 0]);
        assert_eq!((log.position().first_free(), log.position().wraparounds()), (1, 1));
        assert_eq!(words[5].load(Ordering::Relaxed), 84);
        assert_eq!(words[11].load(Ordering::Relaxed), 1);
    }

    #[test]
    fn time_never_goes_back_in_a_log() {
        let words = words(2);
        let log = FenceLog::<ENTRY_WORDS>::new(&words).unwrap();
        log.reset(FenceLogType::WAITS);
        let mut reader = LogReader::default();
        let mut times = Vec::new();
        for time in [5, 3, 9, 0, 9] {
            log.write_entry(entry(1, time));
            reader.read(&log, log.position(), |words| times.push(words[ENTRY_WORDS - 1]));
        }
        assert_eq!(times, [5, 5, 9, 9, 9]);
    }

    #[test]
    fn a_log_has_room_for_two_entries_at_least() {
        for entries in 0..2 {
            assert!(FenceLog::<ENTRY_WORDS>::new(&words(entries)).is_none());
        }
        assert!(FenceLog::<ENTRY_WORDS>::new(&[]).is_none());
        assert_eq!(FenceLog::<ENTRY_WORDS>::new(&words(2)).unwrap().number_of_entries(), 2);
    }

    proptest! {
        #[test]
        fn positions_count_entries_past_every_wraparound(
            entries in 2u32..100, start in any::<u32>(), first in any::<u32>(), count in 0u64..1 << 40,
        ) {
            let position = LogPosition::new(first % entries, start);
            let later = position.plus(count, entries);
            prop_assert!(later.first_free() < entries);
            prop_assert_eq!(later.since(position, entries), count % (u64::from(entries) << 32));
        }

        #[test]
        fn each_entry_is_handed_out_once_and_in_order_or_is_lost(
            entries in 2usize..9, batches in proptest::collection::vec(0u64..20, 0..30),
        ) {
            let words = words(entries);
            let log = FenceLog::<ENTRY_WORDS>::new(&words).unwrap();
            log.reset(FenceLogType::SIGNALS);
            let (mut reader, mut written, mut next) = (LogReader::default(), 0, 0);
            for batch in batches {
                for _ in 0..batch {
                    log.write_entry(entry(written, 0));
                    written += 1;
                }
                let (mut read, position) = (Vec::new(), log.position());
                prop_assert_eq!(reader.is_behind(position), batch > 0);
                FenceLog::<ENTRY_WORDS>::flush();
                let lost = reader.read(&log, position, |words| read.push(words[0]));
                prop_assert_eq!(lost, batch.saturating_sub(entries as u64 - 1));
                next += lost;
                for value in read {
                    prop_assert_eq!(value, next);
                    next += 1;
                }
                prop_assert_eq!(next, written);
            }
        }

        #[test]
        fn what_is_read_in_parts_is_what_is_read_at_once(
            entries in 2usize..9, written in 0u64..40, most in 1u64..9,
        ) {
            let words = words(entries);
            let log = FenceLog::<ENTRY_WORDS>::new(&words).unwrap();
            log.reset(FenceLogType::SIGNALS);
            (0..written).for_each(|value| log.write_entry(entry(value, 0)));
            let position = log.position();
            let (mut whole, mut parts) = (LogReader::default(), LogReader::default());
            let (mut at_once, mut in_parts, mut lost) = (Vec::new(), Vec::new(), 0);
            let all_lost = whole.read(&log, position, |words| at_once.push(words[0]));
            while parts.is_behind(position) {
                let before = in_parts.len();
                let until = parts.at_most(&log, position, most);
                lost += parts.read(&log, until, |words| in_parts.push(words[0]));
                prop_assert!(in_parts.len() - before <= most as usize);
            }
            prop_assert_eq!((at_once, all_lost), (in_parts, lost));
        }

        #[test]
        fn a_position_that_is_a_lie_ends_a_read(
            entries in 2usize..9, positions in proptest::collection::vec(any::<u64>(), 1..5),
        ) {
            let words = words(entries);
            let log = FenceLog::<ENTRY_WORDS>::new(&words).unwrap();
            let mut reader = LogReader::default();
            for position in positions {
                words[0].store(position, Ordering::Relaxed);
                let mut read = 0;
                reader.read(&log, log.position(), |_| read += 1);
                prop_assert!(read < entries);
            }
        }
    }
}
