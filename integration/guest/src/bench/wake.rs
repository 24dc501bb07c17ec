// SPDX-License-Identifier: MIT OR Apache-2.0

//! The first submission after a while without any.

use super::report::Measured;
use super::rivals::EventfdWake;
use super::set_up::{TIMEOUT, context, null_commands};
use super::usage::Usage;
use crate::timing::{Latency, times};
use bellhop_guest_umd::Adapter;
use bellhop_protocol::control::adapter::EngineType;
use std::thread;
use std::time::{Duration, Instant};

/// Pauses between submissions, in microseconds.
const GAPS: [u64; 8] = [0, 200, 600, 1000, 1400, 2000, 5000, LONGEST_GAP];
/// As long as a frame: engines sleep by then.
const LONGEST_GAP: u64 = 16_700;
/// Submissions after each pause.
const SAMPLES: u64 = 100;

pub(super) fn run(
    adapter: &Adapter,
    daemon: Option<u32>,
    measured: &mut Measured,
) -> anyhow::Result<()> {
    let context = context(adapter, EngineType::THREE_D)?;
    let mut commands = null_commands(context.device())?;
    let mut queue = context.create_user_mode_queue(4096)?;
    let mut process = EventfdWake::start()?;
    for gap in GAPS {
        let pause = Duration::from_micros(gap);
        let usage = || daemon.map(Usage::of).transpose();
        let (before, start) = (usage()?, Instant::now());
        let submission = after(pause, || {
            let value = queue.submit(&mut commands)?;
            Ok(queue.progress_fence().poll(value, TIMEOUT)?)
        })?;
        let name = format!("daemon_cpu_fraction_gap_{gap:05}_us");
        match before.zip(usage()?) {
            Some((before, after)) => {
                let used = after.since(before).cpu_ns as f64;
                measured.figure(name, used / start.elapsed().as_nanos() as f64);
            }
            None => measured.absent(name, "a guest cannot see its daemon; run this on the host"),
        }
        let wake = after(pause, || Ok(process.wake()?))?;
        measured.figure(format!("rtt_after_idle_{gap:05}_us_ns_p50"), submission.p50 as f64);
        measured.figure(format!("rtt_after_idle_{gap:05}_us_ns_p99"), submission.p99 as f64);
        measured.figure(format!("eventfd_wake_after_{gap:05}_us_ns_p50"), wake.p50 as f64);
        if gap == LONGEST_GAP {
            let (submission, wake) = (submission.p50 as f64, wake.p50.max(1) as f64);
            measured.ratio("rtt_after_idle_over_eventfd_wake", submission, wake);
        }
    }
    Ok(())
}

/// Times calls with a pause before each.
fn after(pause: Duration, mut call: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<Latency> {
    let mut taken = times()?;
    call()?;
    for _ in 0..SAMPLES {
        if !pause.is_zero() {
            thread::sleep(pause);
        }
        let start = Instant::now();
        call()?;
        taken.record(start.elapsed().as_nanos() as u64)?;
    }
    Ok(Latency::of(&taken))
}
