// SPDX-License-Identifier: MIT OR Apache-2.0

//! A guest beside a front end that punches holes into the memory that its engine works in.

use super::neighbour::Neighbour;
use crate::bench::oversubscription::LOOK;
use crate::bench::setting::Setting;
use anyhow::Context;
use bellhop_guest::bench::Measured;
use bellhop_guest::client::{Client, Shape};
use bellhop_guest::fake_guest::{FakeGuest, GuestOptions};
use bellhop_guest::hostile::Punch;
use bellhop_guest_umd::Adapter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Bytes that are punched.
const HOLE: u64 = 64 << 20;
/// How often the front end maps its memory. A hole then takes some tenths of a second.
const MAPPINGS: usize = 200;
/// Fills of half of the memory in a submission, so that the engine is always in it.
const FILLS: u32 = 4;

/// Measures the neighbour beside such a front end, and beside one that punches nothing.
pub(super) fn run(
    setting: &Setting,
    neighbour: &mut Neighbour,
    measured: &mut Measured,
) -> anyhow::Result<()> {
    for _ in 0..setting.options(&[]).repetitions {
        let mut beside = |punches| {
            neighbour.work_beside(LOOK, &|beside| {
                beside.has_begun();
                conduct(setting, punches, beside.stop)
            })
        };
        let (honest, punching) = (beside(false)?, beside(true)?);
        punching.over(&honest, "hole", measured);
    }
    Ok(())
}

/// A guest whose engine works in its memory, until the flag is set. Its front end punches that memory again and again, if
/// it does: each time the guest is another one, since its memory is gone.
fn conduct(setting: &Setting, punches: bool, stop: &AtomicBool) -> anyhow::Result<()> {
    let socket = setting.sockets.get(2).context("there is no third socket")?;
    while !stop.load(Ordering::Relaxed) {
        let options = GuestOptions { ram: HOLE, ..GuestOptions::default() };
        let guest = FakeGuest::connect(socket, options)?;
        let process = Adapter::open_with(Arc::<FakeGuest>::clone(&guest), setting.place.policy())?;
        let shape = Shape { memory: HOLE / 2, ..Shape::default() };
        let mut client = Client::new(process, shape)?;
        for value in 0..FILLS {
            client.commands.fill(client.memory.gpu_va(), HOLE / 2, value)?;
        }
        let punch = Punch::prepare(&guest.memory_file()?, MAPPINGS)?;
        let over = AtomicBool::new(false);
        let is_over = || over.load(Ordering::Relaxed) || stop.load(Ordering::Relaxed);
        thread::scope(|threads| {
            let working = threads.spawn(|| work(&mut client, &is_over));
            let punched = if punches { punch.punch() } else { Ok(()) };
            over.store(punches, Ordering::Relaxed);
            let _ = working.join();
            punched
        })?;
        if punches {
            // Its memory is another now, so it cannot say goodbye.
            std::mem::forget(client);
            guest.kill();
        }
    }
    Ok(())
}

/// Submits until it is over, or until the device refuses, as it does a guest that keeps its memory from it.
fn work(client: &mut Client, is_over: &dyn Fn() -> bool) {
    while !is_over() {
        let done = client.submit().and_then(|value| client.finish(value));
        if done.is_err() {
            return;
        }
    }
}
