// SPDX-License-Identifier: MIT OR Apache-2.0

//! The processor time of a daemon that has guests and no work.

use super::setting::Setting;
use bellhop_guest::bench::{Measured, Suite, Usage};
use bellhop_guest::client::{Client, Shape};
use bellhop_guest_umd::Adapter;
use std::thread;
use std::time::{Duration, Instant};

/// Guests, each with a queue on each node that has had work.
pub(super) const GUESTS: usize = 16;
/// How long to measure.
const LOOK: Duration = Duration::from_secs(5);
/// Time for the engines and the device to lose power, and for the kernel to check every engine for hangs.
const SETTLE: Duration = Duration::from_secs(15);

pub(super) fn run(setting: &Setting, _: &[Suite], measured: &mut Measured) -> anyhow::Result<()> {
    let mut guests = Vec::new();
    for number in 0..GUESTS {
        let guest = setting.guest(number)?;
        let process = Adapter::open_with(guest, setting.place.policy())?;
        let mut client = Client::new(process, Shape::default())?;
        let mut queues = Vec::new();
        for node in 0..client.process.nodes()?.len() {
            let mut queue = client.queue_on(u32::try_from(node)?)?;
            client.run_on(&mut queue)?;
            queues.push(queue);
        }
        guests.push((client, queues));
    }
    let mut look = |name: &str| -> anyhow::Result<Usage> {
        let (before, start) = (Usage::of(setting.daemon)?, Instant::now());
        thread::sleep(LOOK);
        let used = Usage::of(setting.daemon)?.since(before);
        let time = start.elapsed();
        let share = used.cpu_ns as f64 / time.as_nanos() as f64;
        measured.figure(format!("{name}_daemon_cpu_fraction"), share);
        let wakeups = used.wakeups as f64 / time.as_secs_f64();
        measured.figure(format!("{name}_wakeups_per_second"), wakeups);
        Ok(used)
    };
    thread::sleep(SETTLE);
    look("idle")?;
    Ok(())
}
