// SPDX-License-Identifier: MIT OR Apache-2.0

//! The broker: what the graphics kernel is to the processes of an operating system, to the programs of a guest.
//!
//! It has the guest's device. A program without privileges connects to its socket and gets only what is its own: memory in a
//! file, with a BAR at its beginning, and the numbers of its processes, which requests and events name. Rings, doorbells and
//! fences are in that file, so the broker is not on the path of a submission.
//!
//! Each program has threads of its own here, so none waits for another. The thread of events waits for nobody: a program that
//! does not take its events is disconnected.

mod access;
mod client;
mod device;
mod events;
mod listener;
mod places;
mod turns;

pub use places::Limits;

use anyhow::{Context, ensure};
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::transport::control_queue::MAX_IN_FLIGHT;
use bellhop_protocol::bar::BarLayout;
use bellhop_protocol::features::Features;
use client::Client;
use device::Device;
use events::Routes;
use listener::Listener;
use places::Places;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use turns::Turns;

/// How a broker serves.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where it listens.
    pub socket: PathBuf,
    /// The socket's mode: who may connect.
    pub mode: u32,
    /// What programs may have.
    pub limits: Limits,
}

/// What all threads of a broker share.
struct Shared {
    device: Device,
    /// The layout of each program's BAR.
    layout: BarLayout,
    routes: Routes,
    places: Arc<Places>,
    turns: Turns,
}

/// Serves programs until the device is gone.
///
/// # Errors
/// If the device offers too little, nobody can be listened to, or the device is gone: the reason.
pub fn serve(transport: Arc<dyn Transport>, options: &Options) -> anyhow::Result<()> {
    let device = Device::open(transport).context("cannot open the device")?;
    ensure!(
        device.features().contains(Features::PROCESS_BARS),
        "the device does not offer PROCESS_BARS, without which programs are not apart: it has a global doorbell, moves \
         doorbells' pages, or has no native fences"
    );
    let Limits { doorbells, fences, .. } = options.limits;
    let layout = BarLayout {
        doorbell_count: doorbells.min(device.config().doorbell_count),
        fence_count: fences.min(device.config().fence_count),
        local_memory: 0,
    };
    let listener = Listener::bind(&options.socket, options.mode)?;
    let places = Places::new(&options.limits);
    let routes = Routes::default();
    let turns = Turns::new(MAX_IN_FLIGHT);
    let shared = Arc::new(Shared { device, layout, routes, places, turns });
    let (for_events, ending) = (Arc::clone(&shared), listener.ender()?);
    let events = thread::Builder::new().name("events".into()).spawn(move || {
        let end = for_events.routes.deliver(&for_events.device);
        // No program can go on, and nobody new can come.
        for_events.routes.end_all();
        ending.end();
        end
    });
    let events = events.context("cannot start the thread of events")?;
    crate::output::note(format_args!("programs may connect to {}", options.socket.display()));
    let mut refused = 0u64;
    while let Some(connection) = listener.accept()? {
        let place = match shared.places.take(connection.peer()) {
            Ok(place) => place,
            Err(full) => {
                // The program hears that the connection ends. Who tries on and on fills no log.
                refused += 1;
                if refused.is_power_of_two() {
                    let peer = connection.peer();
                    crate::output::note(format_args!("{peer}: {full} (refused so far: {refused})"));
                }
                continue;
            }
        };
        let shared = Arc::clone(&shared);
        let started = thread::Builder::new()
            .name("client".into())
            .spawn(move || Client::serve(&shared, connection, place));
        if let Err(error) = started {
            crate::output::note(format_args!("cannot start a thread for a program: {error}"));
        }
    }
    let end = events.join().map_err(|_| anyhow::anyhow!("the thread of events ended"))?;
    Err(end).context("the device is gone")
}
