// SPDX-License-Identifier: MIT OR Apache-2.0

//! The times at which a program has VSYNCs, beside timers that wake one thread, and two one after another.

use super::{TIMEOUT, show};
use crate::bench::partner::Partner;
use crate::bench::report::Measured;
use crate::timing::{Latency, times};
use bellhop_guest_umd::Adapter;
use bellhop_guest_umd::display::TargetMode;
use rustix::event::{EventfdFlags, eventfd};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::os::fd::OwnedFd;
use std::time::Instant;

/// VSYNCs of a repetition whose times are taken, and expirations of each timer.
const VSYNCS: u64 = 960;
/// The rate at which they are.
pub(super) const RATE: u64 = 240;

/// How far ticks are from where they should be, the earliest of them being on time.
struct Jitter {
    period: f64,
    first: Option<Instant>,
    offsets: Vec<f64>,
}

impl Jitter {
    fn new(rate: u64) -> Self {
        Self { period: 1e9 / rate as f64, first: None, offsets: Vec::new() }
    }

    /// Notes that tick `count` has come now.
    fn tick(&mut self, count: u64) {
        let now = Instant::now();
        let first = *self.first.get_or_insert(now);
        self.offsets.push((now - first).as_nanos() as f64 - count as f64 * self.period);
    }

    fn latency(&self) -> anyhow::Result<Latency> {
        let least = self.offsets.iter().copied().fold(f64::INFINITY, f64::min);
        let mut taken = times()?;
        for offset in &self.offsets {
            taken.record(((offset - least) as u64).max(1))?;
        }
        Ok(Latency::of(&taken))
    }
}

pub(super) fn run(
    adapter: &Adapter,
    mode: TargetMode,
    measured: &mut Measured,
) -> anyhow::Result<()> {
    let (_process, display, _) = show(adapter, 0, mode)?;
    display.set_vsync_events(0, true)?;
    let first = display.wait_for_vsync(0, TIMEOUT)?.count;
    let mut vsyncs = Jitter::new(RATE);
    for _ in 0..VSYNCS {
        let vsync = display.wait_for_vsync(0, TIMEOUT)?;
        vsyncs.tick(vsync.count - first);
    }
    display.set_vsync_events(0, false)?;
    let vsyncs = vsyncs.latency()?;
    measured.figure("display_vsync_jitter_ns_p99", vsyncs.p99 as f64);
    measured.figure("display_vsync_jitter_ns_p50", vsyncs.p50 as f64);
    // One wake-up, and as many as a VSYNC takes.
    for (name, floor) in [("timerfd", timer()?), ("two_wakes", two_wakes()?)] {
        measured.figure(format!("{name}_jitter_ns_p99"), floor.p99 as f64);
        measured.figure(format!("{name}_jitter_ns_p50"), floor.p50 as f64);
        let over = format!("display_vsync_jitter_over_{name}_jitter");
        measured.ratio(over, vsyncs.p99 as f64, floor.p99.max(1) as f64);
    }
    Ok(())
}

/// A timer that expires at the rate, and its period in nanoseconds.
fn start_timer() -> anyhow::Result<(OwnedFd, f64)> {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::empty())?;
    let period = Timespec { tv_sec: 0, tv_nsec: (1_000_000_000 / RATE).try_into()? };
    let setting = Itimerspec { it_interval: period, it_value: period };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &setting)?;
    // The timer's period is whole nanoseconds.
    Ok((timer, period.tv_nsec as f64))
}

/// The jitter of what counts expirations, and becomes readable with each.
fn jitter_of(expirations: &OwnedFd, period: f64) -> anyhow::Result<Latency> {
    let mut ticks = Jitter { period, first: None, offsets: Vec::new() };
    let mut count = 0;
    while count < VSYNCS {
        let mut expired = [0; 8];
        rustix::io::read(expirations, &mut expired)?;
        count += u64::from_ne_bytes(expired);
        ticks.tick(count);
    }
    ticks.latency()
}

/// The same with a timer of this thread's own.
fn timer() -> anyhow::Result<Latency> {
    let (timer, period) = start_timer()?;
    jitter_of(&timer, period)
}

/// The same with a timer of another process, on the daemon's processor, that tells this thread with an eventfd.
fn two_wakes() -> anyhow::Result<Latency> {
    let (timer, period) = start_timer()?;
    let event = eventfd(0, EventfdFlags::empty())?;
    let _partner = Partner::start(|| {
        let mut expired = [0; 8];
        while rustix::io::read(&timer, &mut expired).is_ok() {
            // A counter that overflows would be of a reader that has gone.
            if rustix::io::write(&event, &expired).is_err() {
                return;
            }
        }
    })?;
    jitter_of(&event, period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_is_counted_from_the_tick_that_came_first() {
        let offsets = vec![3000.0, 1000.0, 1000.0, 9000.0];
        let jitter = Jitter { period: 1.0, first: None, offsets };
        let latency = jitter.latency().unwrap();
        assert_eq!(latency.samples, 4);
        // Within the histogram's three digits.
        assert!(latency.max.abs_diff(8000) <= 8, "{}", latency.max);
    }
}
