// SPDX-License-Identifier: MIT OR Apache-2.0

//! How a stream's time was spent, and what bounded it.

use serde::{Serialize, Serializer};
use std::time::{Duration, Instant};

/// The time of a stream. Reading, handing over, waiting and checking follow each other in the guest's one
/// thread; engines execute beside it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Parts {
    /// The whole time, in seconds.
    #[serde(rename = "elapsed_seconds", serialize_with = "seconds")]
    pub elapsed: Duration,
    /// The guest read its input to where the GPU reads it, in seconds.
    #[serde(rename = "reading_seconds", serialize_with = "seconds")]
    pub reading: Duration,
    /// The guest submitted the stages, in seconds.
    #[serde(rename = "handing_over_seconds", serialize_with = "seconds")]
    pub handing_over: Duration,
    /// The guest waited for the GPU, in seconds.
    #[serde(rename = "waiting_seconds", serialize_with = "seconds")]
    pub waiting: Duration,
    /// The guest computed what the GPU was to return and compared it, in seconds.
    #[serde(rename = "checking_seconds", serialize_with = "seconds")]
    pub checking: Duration,
    /// Engines executed the guest's packets, in seconds of all engines together.
    #[serde(rename = "executing_seconds", serialize_with = "seconds")]
    pub executing: Duration,
    /// The number of engines of the stages.
    pub engines: u64,
}

fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

/// What bounded a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The guest's own thread: it hardly ever waited.
    Guest,
    /// The engines, or the processors that they run on: the guest waited for them.
    Engines,
    /// There was nothing to stream.
    Nothing,
}

/// If the guest waits for a smaller share of the time, the guest itself bounds the stream.
const MUCH_WAITING: f64 = 0.1;

impl Parts {
    /// What bounded it.
    #[must_use]
    pub fn bound(&self) -> Bound {
        if self.elapsed.is_zero() {
            Bound::Nothing
        } else if self.share(self.waiting) < MUCH_WAITING {
            Bound::Guest
        } else {
            Bound::Engines
        }
    }

    fn share(&self, part: Duration) -> f64 {
        part.as_secs_f64() / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// What bounded it, with the figures that show it.
    #[must_use]
    pub fn verdict(&self) -> String {
        let percent = |part| format!("{:.0} %", 100.0 * self.share(part));
        let guest = format!(
            "checking {}, reading {}, handing over {}, waiting {}",
            percent(self.checking),
            percent(self.reading),
            percent(self.handing_over),
            percent(self.waiting)
        );
        let (busy, engines) = (self.share(self.executing), self.engines);
        let executing = format!("{busy:.2} of {engines} engines executed at a time");
        match self.bound() {
            Bound::Guest => format!("the guest's own work ({guest}); {executing}"),
            Bound::Engines => format!("the engines ({executing}); the guest: {guest}"),
            Bound::Nothing => "nothing: there was no time to measure".to_owned(),
        }
    }
}

/// Times consecutive parts.
pub(super) struct Clock {
    start: Instant,
    last: Instant,
    parts: Parts,
}

impl Clock {
    pub(super) fn start() -> Self {
        let start = Instant::now();
        Self { start, last: start, parts: Parts::default() }
    }

    /// Ends a part, which began at the end of the previous one.
    pub(super) fn end(&mut self, part: impl FnOnce(&mut Parts) -> &mut Duration) {
        let now = Instant::now();
        *part(&mut self.parts) += now - self.last;
        self.last = now;
    }

    pub(super) fn stop(mut self) -> Parts {
        self.parts.elapsed = self.start.elapsed();
        self.parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(waiting: u64) -> Parts {
        let [elapsed, reading, handing_over, checking, executing] =
            [1000, 200, 100, 500, 750].map(Duration::from_millis);
        let waiting = Duration::from_millis(waiting);
        Parts { elapsed, reading, handing_over, waiting, checking, executing, engines: 3 }
    }

    #[test]
    fn a_guest_that_hardly_waits_bounds_the_stream_itself() {
        assert_eq!(parts(99).bound(), Bound::Guest);
        let verdict = parts(50).verdict();
        let expected = "the guest's own work (checking 50 %, reading 20 %, handing over 10 %, waiting 5 %); \
                        0.75 of 3 engines executed at a time";
        assert_eq!(verdict, expected);
    }

    #[test]
    fn engines_that_are_waited_for_bound_it() {
        assert_eq!(parts(100).bound(), Bound::Engines);
        let verdict = parts(200).verdict();
        assert!(
            verdict.starts_with("the engines (0.75 of 3 engines executed at a time)"),
            "{verdict}"
        );
        assert!(verdict.contains("waiting 20 %"), "{verdict}");
        assert_eq!(Parts::default().bound(), Bound::Nothing);
    }

    #[test]
    fn parts_follow_each_other_and_none_of_the_time_is_counted_twice() {
        let mut clock = Clock::start();
        clock.end(|parts| &mut parts.reading);
        clock.end(|parts| &mut parts.checking);
        clock.end(|parts| &mut parts.reading);
        let Parts { elapsed, reading, checking, .. } = clock.stop();
        assert!(reading + checking <= elapsed);
    }
}
