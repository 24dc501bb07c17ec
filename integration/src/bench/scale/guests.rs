// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests that each have a connected doorbell.

use super::{
    client, counts, inspect, memory_with_guests, nanoseconds, repeat, round_trip, round_trips,
};
use crate::bench::setting::Setting;
use bellhop_guest::bench::{Measured, Suite};
use bellhop_guest::client::Client;
use bellhop_guest::timing::{Latency, time};

/// The greatest number.
pub(in crate::bench) const MOST: usize = 64;
const COUNTS: [usize; 4] = [1, 4, 16, MOST];
/// A doorbell for each guest, which keeps it however long it is silent.
pub(in crate::bench) const CONFIG: &str =
    "[adapter]\nphysical_doorbells = 128\nengine_idle = \"1h\"\n";
const SUBJECT: &str = "guests";
/// Guests that are replaced by others, at each number.
const REPLACED: usize = 8;
/// Snapshots that are timed.
const SNAPSHOTS: u64 = 8;

pub(in crate::bench) fn run(
    setting: &Setting,
    _: &[Suite],
    measured: &mut Measured,
) -> anyhow::Result<()> {
    // Whatever the daemon makes for the first guest that it ever has, is not a guest's.
    drop(client(setting, 0)?);
    repeat(setting, || once(setting, measured))
}

fn once(setting: &Setting, measured: &mut Measured) -> anyhow::Result<()> {
    let before = memory_with_guests(setting, 0)?;
    let mut guests: Vec<Client> = Vec::new();
    for count in counts(setting, &COUNTS) {
        let mut put = |cost: &str, value: f64| measured.at_scale(SUBJECT, count, cost, value);
        let mut attaching = Vec::new();
        while guests.len() < count {
            let (guest, time) = nanoseconds(|| client(setting, guests.len()))?;
            guests.push(guest);
            attaching.push(time);
        }
        put("attach_ns", Latency::of_all(attaching)?.p50 as f64);
        put("memory_bytes", memory_with_guests(setting, count)?.since(before, count));
        let (_, time_of_all) = inspect(setting, SNAPSHOTS)?;
        put("inspect_ns", time_of_all / count as f64);
        let rounds = (round_trips(setting) as usize).div_ceil(count);
        let ((), time_of_all) = nanoseconds(|| (0..rounds).try_for_each(|_| all(&mut guests)))?;
        put("submissions_per_second", (rounds * count) as f64 / time_of_all as f64 * 1e9);
        if let [Client { queue, commands, .. }, ..] = guests.as_mut_slice() {
            let times = time(round_trips(setting), || round_trip(queue, commands))?;
            measured.times_at_scale(SUBJECT, count, "submission_ns", &times);
        }
        let mut replacing = Vec::new();
        for _ in 0..REPLACED {
            // The socket takes the next guest when the last one has gone.
            let (guest, time) = nanoseconds(|| {
                drop(guests.pop());
                client(setting, count - 1)
            })?;
            guests.push(guest);
            replacing.push(time);
        }
        let replacing = Latency::of_all(replacing)?.p50;
        measured.at_scale(SUBJECT, count, "replace_ns", replacing as f64);
    }
    Ok(())
}

/// Each guest submits once, and then waits.
fn all(guests: &mut [Client]) -> anyhow::Result<()> {
    for guest in &mut *guests {
        guest.submit()?;
    }
    for guest in guests {
        guest.finish(guest.queue.last_value())?;
    }
    Ok(())
}
