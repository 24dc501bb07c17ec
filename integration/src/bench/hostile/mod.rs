// SPDX-License-Identifier: MIT OR Apache-2.0

//! The rate of a guest's work beside a hostile guest, and beside a guest that is merely as busy.

mod holes;
mod neighbour;
mod workers;

use super::oversubscription::{LOOK, Load, Wait};
use super::setting::Setting;
use anyhow::{Context, anyhow};
use bellhop_guest::bench::{Measured, Suite};
use bellhop_guest::fake_guest::{FakeGuest, GuestOptions};
use bellhop_guest::hostile::Hostile;
use bellhop_guest_umd::Fence;
use neighbour::Neighbour;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
pub(super) use workers::{beside_confined_workers, beside_workers};

/// A guest may hang any number of times.
pub(super) const CONFIG: &str = "[adapter]\nhang_limit = 0\n";
/// Guests: a neighbour, one that is as busy, and a hostile one.
pub(super) const GUESTS: usize = 3;
/// How long the hostile guest takes to reach its full speed.
const SETTLE: Duration = Duration::from_millis(200);

pub(super) fn run(setting: &Setting, _: &[Suite], measured: &mut Measured) -> anyhow::Result<()> {
    let (mut neighbour, mut busy) = (Load::new(setting, 0)?, Load::new(setting, 1)?);
    let socket = setting.sockets.get(2).context("there is no third socket")?;
    let guest = FakeGuest::connect(socket, GuestOptions::default())?;
    for repetition in 0..setting.options(&[]).repetitions {
        let alone = rate(&mut neighbour, Fence::poll, LOOK)?;
        let busy = beside_a_busy_guest(&mut busy, &mut neighbour)?;
        let hostile = Hostile::begin(&guest, repetition)?;
        thread::sleep(SETTLE);
        let hostile_rate = rate(&mut neighbour, Fence::poll, LOOK);
        let blocked = rate(&mut neighbour, Fence::wait, LOOK);
        drop(hostile);
        let hostile_rate = hostile_rate?;
        let rates = [
            ("alone", alone),
            ("beside_busy_guest", busy),
            ("beside_hostile_guest", hostile_rate),
            ("beside_hostile_guest_blocked_waits", blocked?),
        ];
        for (name, rate) in rates {
            measured.figure(format!("neighbour_{name}_submissions_per_second"), rate);
        }
        measured.ratio("neighbour_share_beside_hostile_guest", hostile_rate, busy);
    }
    drop(guest);
    holes::run(setting, &mut Neighbour::new(neighbour)?, measured)
}

/// The neighbour's rate while another guest has as much work.
fn beside_a_busy_guest(busy: &mut Load, neighbour: &mut Load) -> anyhow::Result<f64> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let working = scope.spawn(|| busy.run(Fence::poll, &stop, &AtomicU64::new(0)));
        thread::sleep(SETTLE);
        let rate = rate(neighbour, Fence::poll, LOOK);
        stop.store(true, Ordering::Relaxed);
        working.join().map_err(|_| anyhow!("a guest's thread panicked"))??;
        rate
    })
}

/// The load's submissions a second, in so much time.
fn rate(load: &mut Load, wait: Wait, look: Duration) -> anyhow::Result<f64> {
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let working = scope.spawn(|| load.run(wait, &stop, &done));
        let (before, start) = (done.load(Ordering::Relaxed), Instant::now());
        thread::sleep(look);
        let (after, time) = (done.load(Ordering::Relaxed), start.elapsed());
        stop.store(true, Ordering::Relaxed);
        working.join().map_err(|_| anyhow!("a guest's thread panicked"))??;
        Ok((after - before) as f64 / time.as_secs_f64())
    })
}
