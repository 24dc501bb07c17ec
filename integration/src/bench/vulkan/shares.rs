// SPDX-License-Identifier: MIT OR Apache-2.0

//! Two programs with the driver, which share an engine by weight.

use super::super::setting::Setting;
use super::super::weights::off_weights;
use super::guest::Guest;
use crate::inspect::ControlClient;
use crate::vulkan::busy::{Busy, Where};
use anyhow::Context;
use bellhop_guest::bench::{Measured, Suite};
use bellhop_guest::inspect::{Selection, snapshots};
use std::thread;
use std::time::Duration;

/// Of the two guests, which are not of the default weight.
pub(in super::super) const CONFIG: &str = "[weights]\n\"0.sock\" = 100\n\"1.sock\" = 300\n";
const WEIGHTS: [f64; 2] = [100.0, 300.0];
/// How long they share it before they are measured, and how long they are measured.
const SETTLE: Duration = Duration::from_millis(300);
const LOOK: Duration = Duration::from_secs(3);
/// The figure.
const OFF: &str = "vulkan_shares_off_weights_fraction";

/// Measures which part of the engine's time each of two programs has that always have work for it.
pub(in super::super) fn run(
    setting: &Setting,
    _: &[Suite],
    measured: &mut Measured,
) -> anyhow::Result<()> {
    if super::adapter(setting, &[OFF], measured)?.is_none() {
        return Ok(());
    }
    let guests = [Guest::new(setting, 0)?, Guest::new(setting, 1)?];
    let [one, other] =
        guests.each_ref().map(|guest| Busy::start(guest.command(&[])?, Where::WithFrames));
    let programs = [one?, other?];
    for _ in 0..setting.options(&[]).repetitions {
        thread::sleep(SETTLE);
        let before = times(setting)?;
        thread::sleep(LOOK);
        let after = times(setting)?;
        let had = [0, 1].map(|guest| (after[guest] - before[guest]) as f64);
        measured.figure(OFF, off_weights(had, WEIGHTS));
        measured.ratio("vulkan_time_of_weight_3_over_weight_1", had[1], had[0]);
    }
    programs.into_iter().try_for_each(Busy::end)
}

/// Nanoseconds that engines executed each guest, by the daemon's word.
fn times(setting: &Setting) -> anyhow::Result<[u64; 2]> {
    let mut client = ControlClient::connect(&setting.control)?;
    let seen = snapshots(&mut client, Selection::default())?;
    let time = |number: usize| {
        let socket = setting.sockets.get(number).and_then(|socket| socket.to_str());
        let mut guests = seen.iter().flat_map(|snapshot| &snapshot.guests);
        let guest = guests.find(|guest| guest.socket.as_deref() == socket);
        let guest = guest.context("the daemon shows no such guest")?;
        anyhow::Ok(guest.statistics.engine_time)
    };
    Ok([time(0)?, time(1)?])
}
