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
pub mod config;
mod device;
mod events;
mod limits;
mod places;
mod sandbox;
mod stepped;

pub use limits::{Limits, UserLimits};
pub use stepped::{Said, SteppedBroker, SteppedProgram};

use crate::complaints::Complaints;
use crate::listener::{Knock, Listener, descriptors};
use anyhow::{Context, ensure};
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::transport::control_queue::MAX_IN_FLIGHT;
use bellhop_protocol::bar::BarLayout;
use bellhop_protocol::config::ConfigSpace;
use bellhop_protocol::features::Features;
use client::Client;
use device::Device;
use events::Routes;
use places::Places;
use rustix::net::SocketType;
use sd_notify::NotifyState;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// How long the broker waits for descriptors and memory, unless a program goes before: others of the system may free some.
const SCARCE: Duration = Duration::from_millis(100);

/// How a broker serves.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where it listens.
    pub socket: PathBuf,
    /// The socket's mode: who may connect.
    pub mode: u32,
    /// What programs may have.
    pub limits: Limits,
    /// Whether the process, which then does nothing else, gives up what serving does not take.
    pub is_confined: bool,
}

/// What all threads of a broker share.
struct Shared {
    device: Device,
    routes: Routes,
    places: Arc<Places>,
    /// Programs that had no place, and such as could not be served.
    refused: Complaints,
    unserved: Complaints,
}

impl Shared {
    fn new(device: Device, limits: &Limits) -> anyhow::Result<Self> {
        ensure!(
            device.features().contains(Features::PROCESS_BARS),
            "the device does not offer PROCESS_BARS, without which programs are not apart: it has a global doorbell, moves \
             doorbells' pages, or has no native fences"
        );
        let (refused, unserved) = (Complaints::default(), Complaints::default());
        let (routes, places) = (Routes::default(), Places::new(limits, MAX_IN_FLIGHT));
        Ok(Self { device, routes, places, refused, unserved })
    }

    /// The layout of a program's BAR.
    fn layout(&self, limits: &UserLimits) -> BarLayout {
        let ConfigSpace { doorbell_count, fence_count, .. } = self.device.config();
        BarLayout {
            doorbell_count: limits.doorbells.min(doorbell_count),
            fence_count: limits.fences.min(fence_count),
            local_memory: 0,
        }
    }
}

/// A broker that listens. Who connects waits for [`Self::serve`].
pub struct Server {
    shared: Arc<Shared>,
    listener: Listener,
}

impl Server {
    /// Opens the device, listens, and gives up what the options say.
    ///
    /// # Errors
    /// If the device offers too little, or nobody can be listened to.
    pub fn listen(transport: Arc<dyn Transport>, options: &Options) -> anyhow::Result<Self> {
        let device = Device::open(transport).context("cannot open the device")?;
        let shared = Arc::new(Shared::new(device, &options.limits)?);
        let listener =
            Listener::bind(&options.socket, options.mode, "broker", SocketType::SEQPACKET)?;
        // Programs that connect from here on are served, and from here on the service manager's socket may be out of reach.
        if let Err(error) = sd_notify::notify(&[NotifyState::Ready]) {
            crate::output::note(format_args!("cannot notify the service manager: {error}"));
        }
        if options.is_confined {
            sandbox::enter(&options.socket, &options.limits)?;
        }
        crate::output::note(format_args!("programs may connect to {}", options.socket.display()));
        Ok(Self { shared, listener })
    }

    /// Serves programs until the device is gone.
    ///
    /// # Errors
    /// The reason why the device is gone, or nobody can be served.
    pub fn serve(self) -> anyhow::Result<()> {
        let Self { shared, listener } = self;
        let (for_events, ending) = (Arc::clone(&shared), listener.ender()?);
        let events = thread::Builder::new().name("events".into()).spawn(move || {
            let end = for_events.routes.deliver(&for_events.device);
            // No program can go on, and nobody new can come.
            for_events.routes.end_all();
            ending.end();
            end
        });
        let events = events.context("cannot start the thread of events")?;
        loop {
            let connection = match listener.accept()? {
                Knock::Program(connection) => connection,
                Knock::Scarce(error) => {
                    shared.unserved.note(format_args!("a program waits: {error}"));
                    shared.places.await_one_that_goes(SCARCE);
                    continue;
                }
                Knock::End => break,
            };
            let peer = connection.peer;
            let place = match shared.places.take(peer) {
                Ok(place) => place,
                Err(full) => {
                    // The program hears that the connection ends.
                    shared.refused.note(format_args!("{peer}: {full}"));
                    if let Err(error) = descriptors::throw_away(connection.socket) {
                        let text = "the end of its connection may have taken long";
                        shared.unserved.note(format_args!("{peer}: {text}: {error}"));
                    }
                    continue;
                }
            };
            let other = Arc::clone(&shared);
            let started = thread::Builder::new()
                .name("client".into())
                .spawn(move || Client::serve(&other, connection, place));
            if let Err(error) = started {
                shared.unserved.note(format_args!("{peer}: cannot start a thread for it: {error}"));
            }
        }
        let end = events.join().map_err(|_| anyhow::anyhow!("the thread of events ended"))?;
        Err(end).context("the device is gone")
    }
}
