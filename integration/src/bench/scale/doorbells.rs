// SPDX-License-Identifier: MIT OR Apache-2.0

//! Connected doorbells of one guest, all of which an engine watches.

use super::{
    batch, client, counts, memory, nanoseconds, one_submits, repeat, round_trip, round_trips,
};
use crate::bench::setting::Setting;
use anyhow::{Context as _, ensure};
use bellhop_guest::bench::{Measured, Suite};
use bellhop_guest::timing::{Latency, time_all};
use bellhop_guest_umd::UserModeQueue;

const COUNTS: [usize; 6] = [1, 4, 16, 64, 256, 1024];
/// A physical doorbell for each, which it keeps however long it is silent.
pub(in crate::bench) const CONFIG: &str = "[adapter]\nphysical_doorbells = 2048\nengine_idle = \"1h\"\n\
     [guest]\ndoorbells = 2048\n";
const SUBJECT: &str = "doorbells";

pub(in crate::bench) fn run(
    setting: &Setting,
    _: &[Suite],
    measured: &mut Measured,
) -> anyhow::Result<()> {
    repeat(setting, || once(setting, measured))
}

fn once(setting: &Setting, measured: &mut Measured) -> anyhow::Result<()> {
    let mut guest = client(setting, 0)?;
    let mut commands = batch(&guest.device)?;
    let before = memory(setting)?;
    // The guest's own queue is one of them.
    let mut silent: Vec<UserModeQueue> = Vec::new();
    for count in counts(setting, &COUNTS) {
        let [first, ..] = commands.as_mut_slice() else { return Ok(()) };
        let mut connecting = Vec::new();
        while silent.len() + 1 < count {
            let (queue, time) = nanoseconds(|| {
                let mut queue = guest.context.create_user_mode_queue(4096)?;
                round_trip(&mut queue, first)?;
                Ok(queue)
            })?;
            silent.push(queue);
            connecting.push(time);
        }
        if !silent.is_empty() {
            let mut put = |cost: &str, value: f64| measured.at_scale(SUBJECT, count, cost, value);
            put("connect_ns", Latency::of_all(connecting)?.p50 as f64);
            put("memory_bytes", memory(setting)?.since(before, silent.len()));
            let times = (round_trips(setting) / 4).max(silent.len() as u64);
            let mut at = 0;
            // Each was silent while the others rang.
            let times = time_all(times, || {
                at = (at + 1) % silent.len();
                let queue = silent.get_mut(at).context("there is no such queue")?;
                anyhow::Ok(round_trip(queue, first)?)
            })?;
            measured.times_at_scale(SUBJECT, count, "silent_ns", &times);
        }
        one_submits(setting, (SUBJECT, count), &mut guest.queue, &mut commands, measured)?;
        let connects = guest.process.statistics()?;
        ensure!(connects.victims == 0, "a doorbell was taken from its queue");
    }
    Ok(())
}
