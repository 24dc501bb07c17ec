//! For how long an engine, or a queue on it, was busy.

use std::sync::atomic::{AtomicU64, Ordering};

/// Set while it is busy. Times on the adapter's clock never come this far: 292 years.
const BUSY: u64 = 1 << 63;

/// A time that goes on while something is busy. One thread says when that is; any may ask.
///
/// It is one word, so that no reader sees half of a change: the time itself while it stands, and while it
/// goes on the moment on the adapter's clock that it counts from. So what takes long counts before it is
/// over. Relaxed, as nothing else is passed on with it.
#[derive(Debug, Default)]
pub struct Busy(AtomicU64);

impl Busy {
    /// Engine: busy from `now` on, on the adapter's clock.
    #[inline]
    pub fn begin(&self, now: u64) {
        let time = self.0.load(Ordering::Relaxed);
        self.0.store(BUSY | now.saturating_sub(time), Ordering::Relaxed);
    }

    /// Engine: not busy from `now` on.
    #[inline]
    pub fn end(&self, now: u64) {
        let word = self.0.load(Ordering::Relaxed);
        self.0.store(now.saturating_sub(word & !BUSY), Ordering::Relaxed);
    }

    /// Nanoseconds that it was busy until `now`, which is asked for after the look. An engine that is
    /// suspended by its host just before it says that it is not busy has the time until then taken back.
    pub fn read(&self, now: impl FnOnce() -> u64) -> u64 {
        let word = self.0.load(Ordering::Relaxed);
        if word & BUSY == 0 { word } else { now().saturating_sub(word & !BUSY) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_while_it_is_busy_and_stands_while_it_is_not() {
        let busy = Busy::default();
        assert_eq!(busy.read(|| 100), 0);
        busy.begin(100);
        assert_eq!([100, 130].map(|now| busy.read(|| now)), [0, 30]);
        busy.end(150);
        assert_eq!([150, 1000].map(|now| busy.read(|| now)), [50, 50]);
        busy.begin(1000);
        assert_eq!(busy.read(|| 1007), 57);
        busy.end(1010);
        assert_eq!(busy.read(|| 5000), 60);
    }
}
