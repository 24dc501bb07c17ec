// SPDX-License-Identifier: MIT OR Apache-2.0

//! Workers: processes of one guest that each run a kernel of their own.

use super::{counts, nanoseconds, repeat, round_trips};
use crate::bench::setting::Setting;
use anyhow::Context as _;
use bellhop_guest::bench::kernel::Dispatcher;
use bellhop_guest::bench::{Measured, Memory, Suite};
use bellhop_guest::timing::{Latency, time};
use bellhop_guest_umd::Adapter;
use bellhop_protocol::control::kernel::unpadded;
use std::fs;

const COUNTS: [usize; 5] = [1, 2, 4, 8, 16];
/// All of them are one guest's.
pub(in crate::bench) const CONFIG: &str = "[adapter]\nkernel_workers = 17\nkernel_workers_per_guest = 17\n\
     [guest]\nworker_starts_per_second = 1000\nworker_start_burst = 1000\n";
const SUBJECT: &str = "workers";
/// Processes that are replaced one after another: the daemon keeps one worker ready, which makes the first of them quick
/// after a pause, and no other.
const REPLACED: usize = 8;
/// A dispatch takes as long as hundreds of submissions.
const SHARE: u64 = 20;

pub(in crate::bench) fn run(
    setting: &Setting,
    _: &[Suite],
    measured: &mut Measured,
) -> anyhow::Result<()> {
    let guest = Adapter::open_with(setting.guest(0)?, setting.place.policy())?;
    let caps = guest.kernel_caps()?;
    if !caps.are_supported() {
        let missing = unpadded(&caps.missing);
        measured.absent("scale_workers", format!("there are no kernels: {missing}"));
        return Ok(());
    }
    repeat(setting, || once(setting, &guest, measured))
}

fn once(setting: &Setting, guest: &Adapter, measured: &mut Measured) -> anyhow::Result<()> {
    let mut workers: Vec<Dispatcher> = Vec::new();
    let before = memory(setting.daemon)?;
    for count in counts(setting, &COUNTS) {
        let mut put = |cost: &str, value: f64| measured.at_scale(SUBJECT, count, cost, value);
        while workers.len() < count {
            workers.push(Dispatcher::start(guest.open_process()?)?);
        }
        let replaced: anyhow::Result<Vec<_>> = (0..REPLACED)
            .map(|_| {
                let ((), time) = nanoseconds(|| replace_one(guest, &mut workers))?;
                Ok(time)
            })
            .collect();
        put("replace_ns", Latency::of_all(replaced?)?.p50 as f64);
        put("memory_bytes", (memory(setting.daemon)? as f64 - before as f64) / count as f64);
        let times = round_trips(setting).div_ceil(SHARE);
        let rounds = times.div_ceil(count as u64);
        let ((), time_of_all) = nanoseconds(|| (0..rounds).try_for_each(|_| all(&mut workers)))?;
        put("dispatches_per_second", rounds as f64 * count as f64 / time_of_all as f64 * 1e9);
        if let [first, ..] = workers.as_mut_slice() {
            let times = time(times, || first.submit().and_then(|()| first.finish()))?;
            measured.times_at_scale(SUBJECT, count, "dispatch_ns", &times);
        }
    }
    Ok(())
}

/// Ends a process that has a worker, and has another one run a kernel.
fn replace_one(guest: &Adapter, workers: &mut Vec<Dispatcher>) -> anyhow::Result<()> {
    workers.pop();
    workers.push(Dispatcher::start(guest.open_process()?)?);
    Ok(())
}

/// Each worker's process dispatches once, and then waits.
fn all(workers: &mut [Dispatcher]) -> anyhow::Result<()> {
    workers.iter_mut().try_for_each(Dispatcher::submit)?;
    Ok(workers.iter().try_for_each(Dispatcher::finish)?)
}

/// The memory of the daemon and of the processes that it started.
fn memory(daemon: u32) -> anyhow::Result<u64> {
    let mut bytes = Memory::of(daemon)?.bytes;
    for task in fs::read_dir(format!("/proc/{daemon}/task")).context("the daemon has ended")? {
        let children = fs::read_to_string(task?.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace() {
            // It may have ended since.
            bytes += Memory::of(child.parse()?).map_or(0, |memory| memory.bytes);
        }
    }
    Ok(bytes)
}
