// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests' own kernels: what a dispatch costs over the same Vulkan in one process, and how guests share an engine.

use super::setting::Setting;
use super::weights::off_weights;
use crate::hosted::WORKER;
use anyhow::{Context, anyhow};
use bellhop_device::service::Worker;
use bellhop_guest::bench::kernel::{self, LongKernels, Neighbour, SHARES, Times};
use bellhop_guest::bench::{Measured, Suite};
use bellhop_guest_umd::Adapter;
use bellhop_worker::bench::native_in;
use bellhop_worker::probe::{PATIENCE, Search, probe};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Guests: one that is measured, and two that share an engine with it.
pub(super) const GUESTS: usize = 3;
/// The weights of the two, which are not the default one.
pub(super) const CONFIG: &str = "[weights]\n\"1.sock\" = 100\n\"2.sock\" = 300\n";
const WEIGHTS: [f64; 2] = [100.0, 300.0];
/// How long they share it before they are measured, and how long they are measured.
const SETTLE: Duration = Duration::from_millis(300);
const LOOK: Duration = Duration::from_secs(2);
/// Round trips of the neighbour, at most, in that time.
const ROUND_TRIPS: u64 = 500;

pub(super) fn run(setting: &Setting, _: &[Suite], measured: &mut Measured) -> anyhow::Result<()> {
    let options = setting.options(&[]);
    let adapter = Adapter::open_with(setting.guest(0)?, options.placement)?;
    // The first usable device, as the daemon chooses.
    let report = probe(
        || worker(setting),
        Search { name: None, gpus: false, first: true, patience: PATIENCE },
    )?;
    let device = report.chosen().map(|(device, _)| device.index);
    let mut native = || {
        let device = device.context("there is no usable Vulkan device")?;
        let figures = native_in(worker(setting)?, device)?;
        Ok(Times {
            null_ns: figures.null_ns as f64,
            groups_ns: figures.groups_ns as f64,
            batch_ns: figures.batch_ns as f64,
            stream_ns: figures.stream_ns as f64,
        })
    };
    let samples = options.samples.div_ceil(options.repetitions);
    for _ in 0..options.repetitions {
        kernel::measure(&adapter, samples, Some(&mut native), measured)?;
    }
    if !adapter.kernel_caps()?.are_supported() {
        return Ok(());
    }
    drop(adapter);
    let guest = |number| -> anyhow::Result<_> {
        Ok(Adapter::open_with(setting.guest(number)?, options.placement)?)
    };
    let mut neighbour = Neighbour::new(guest(0)?)?;
    let mut sharing = [LongKernels::new(guest(1)?)?, LongKernels::new(guest(2)?)?];
    for _ in 0..options.repetitions {
        share(&mut neighbour, &mut sharing, measured)?;
    }
    Ok(())
}

/// Two guests share an engine by weight, and a third has short commands there.
fn share(
    neighbour: &mut Neighbour,
    sharing: &mut [LongKernels; 2],
    measured: &mut Measured,
) -> anyhow::Result<()> {
    let stop = AtomicBool::new(false);
    let adapters = sharing.each_ref().map(LongKernels::adapter);
    let times = || -> anyhow::Result<[f64; 2]> {
        let [one, other] = adapters.each_ref().map(|adapter| adapter.statistics());
        Ok([one?.engine_time as f64, other?.engine_time as f64])
    };
    let (shares, round_trips) = thread::scope(|scope| {
        let run = |guest| {
            let stop = &stop;
            scope.spawn(move || LongKernels::run(guest, stop))
        };
        let threads = sharing.each_mut().map(run);
        let mut look = || -> anyhow::Result<_> {
            thread::sleep(SETTLE);
            let (start, before) = (Instant::now(), times()?);
            let round_trips = neighbour.round_trips(ROUND_TRIPS)?;
            thread::sleep(LOOK.saturating_sub(start.elapsed()));
            let after = times()?;
            Ok(([0, 1].map(|guest| after[guest] - before[guest]), round_trips))
        };
        let seen = look();
        stop.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().map_err(|_| anyhow!("a guest's thread panicked"))??;
        }
        seen
    })?;
    measured.ratio("kernel_time_of_weight_3_over_weight_1", shares[1], shares[0]);
    measured.figure(SHARES, off_weights(shares, WEIGHTS));
    measured.figure("doorbell_beside_long_kernels_rtt_ns_p50", round_trips.p50 as f64);
    measured.figure("doorbell_beside_long_kernels_rtt_ns_p99", round_trips.p99 as f64);
    Ok(())
}

/// A command that runs a worker with the Vulkan of the daemon's workers.
fn worker(setting: &Setting) -> anyhow::Result<Command> {
    let worker = Worker::of_words(&setting.worker);
    let worker = worker.unwrap_or_else(|| Worker::this_executable(WORKER));
    match worker {
        Worker::Program(program) => Ok(program.command()),
        Worker::Installed => anyhow::bail!("cannot find bellhop's own executable"),
    }
}
