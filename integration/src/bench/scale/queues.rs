// SPDX-License-Identifier: MIT OR Apache-2.0

//! Queues of one guest, most of which have no physical doorbell.

use super::{
    batch, client_of, counts, inspect, memory, nanoseconds, one_submits, repeat, round_trip,
};
use crate::bench::setting::Setting;
use anyhow::{Context as _, bail, ensure};
use bellhop_guest::Guest;
use bellhop_guest::bench::{Measured, Suite};
use bellhop_guest::client::Client;
use bellhop_guest::fake_guest::{FakeGuest, GuestOptions};
use bellhop_guest::timing::{Latency, time_all};
use bellhop_guest_umd::UserModeQueue;
use bellhop_protocol::snapshot::Snapshot;
use std::sync::Arc;

const COUNTS: [usize; 5] = [1, 10, 100, 1000, 10_000];
/// Physical doorbells.
const DOORBELLS: usize = 64;
/// Room for all of the queues, which share [`DOORBELLS`].
pub(in crate::bench) const CONFIG: &str = "[adapter]\nphysical_doorbells = 64\npage_table_memory = \"256MiB\"\n\
     engine_idle = \"1h\"\n\
     [guest]\ndoorbells = 10240\nlocal_memory = \"256MiB\"\nobjects = 131072\n";
const SUBJECT: &str = "queues";
/// Queues that are created and destroyed, at least, for one time of each.
const CREATED: usize = 64;
/// Doorbells that are taken from another queue, at each number.
const TAKEN: u64 = 1000;

pub(in crate::bench) fn run(
    setting: &Setting,
    _: &[Suite],
    measured: &mut Measured,
) -> anyhow::Result<()> {
    repeat(setting, || once(setting, measured))
}

fn once(setting: &Setting, measured: &mut Measured) -> anyhow::Result<()> {
    let (mut connection, mut guest) = attach(setting)?;
    let before = memory(setting)?;
    for count in counts(setting, &COUNTS) {
        let mut commands = batch(&guest.device)?;
        let (mut creating, mut destroying) = (Vec::new(), Vec::new());
        for _ in 0..CREATED.div_ceil(count) {
            let (queues, time) = nanoseconds(|| create(&guest, count))?;
            creating.push(time / count as u64);
            let ((), time) = nanoseconds(|| {
                drop(queues);
                Ok(())
            })?;
            destroying.push(time / count as u64);
        }
        let mut put = |cost: &str, value: f64| measured.at_scale(SUBJECT, count, cost, value);
        put("create_ns", Latency::of_all(creating)?.p50 as f64);
        put("destroy_ns", Latency::of_all(destroying)?.p50 as f64);
        let mut queues = create(&guest, count)?;
        put("memory_bytes", memory(setting)?.since(before, count));
        let (seen, time) = inspect(setting, 1)?;
        // The guest has one beside.
        let shown = seen.iter().map(queues_of).sum::<usize>();
        ensure!(shown == count + 1, "{shown} of {count} and one queues are shown");
        put("inspect_ns", time / count as f64);
        let [first, ..] = commands.as_mut_slice() else { return Ok(()) };
        if count > DOORBELLS {
            let mut at = 0;
            let mut connect = || {
                at = (at + 1) % count;
                let queue = queues.get_mut(at).context("there is no such queue")?;
                anyhow::Ok(round_trip(queue, first)?)
            };
            // The first ones find doorbells that no queue has.
            (0..DOORBELLS).try_for_each(|_| connect())?;
            measured.times_at_scale(SUBJECT, count, "connect_ns", &time_all(TAKEN, connect)?);
        }
        if let [hot, ..] = queues.as_mut_slice() {
            one_submits(setting, (SUBJECT, count), hot, &mut commands, measured)?;
        }
        // The socket takes the next guest when the last one, and all that it had, has gone.
        let (next, time) = nanoseconds(|| {
            connection.kill();
            attach(setting)
        })?;
        if count > DOORBELLS {
            measured.at_scale(SUBJECT, count, "end_ns", time as f64 / count as f64);
        }
        // What the driver still has of the guest before goes now, without requests.
        drop((queues, commands));
        (connection, guest) = next;
    }
    Ok(())
}

/// A guest, and a process of it with what it takes to submit.
fn attach(setting: &Setting) -> anyhow::Result<(Arc<FakeGuest>, Client)> {
    let [socket, ..] = setting.sockets.as_slice() else { bail!("there is no socket") };
    let connection = FakeGuest::connect(socket, GuestOptions::default())?;
    let guest = client_of(setting, Arc::clone(&connection) as Arc<dyn Guest>)?;
    Ok((connection, guest))
}

fn create(guest: &Client, count: usize) -> anyhow::Result<Vec<UserModeQueue>> {
    let queues = (0..count).map(|_| guest.context.create_user_mode_queue(4096));
    queues.collect::<Result<_, _>>().with_context(|| format!("cannot create {count} queues"))
}

fn queues_of(snapshot: &Snapshot) -> usize {
    let processes = snapshot.guests.iter().flat_map(|guest| &guest.processes);
    let contexts =
        processes.flat_map(|process| &process.devices).flat_map(|device| &device.contexts);
    contexts.map(|context| context.hw_queues.len()).sum()
}
