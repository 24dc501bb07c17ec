// SPDX-License-Identifier: MIT OR Apache-2.0

//! Submits null command buffers, so that `cargo xtask cost` can count the instructions of driver and engine.
//!
//! Driver and engine are the product's, and take turns on one thread: the driver submits a batch, then the
//! engine executes it. Neither waits for the other, so counts do not vary between runs. Kernel, daemon, fake guest
//! and the guest's broker serve the set-up, on threads that are not counted.
//!
//! All is counted twice: for a guest that is one program, and for a program behind a guest's broker.

mod section;

use anyhow::{Context as _, anyhow, bail};
use bellhop_device::gpu::SteppedEngine;
use bellhop_device::service::config::Config;
use bellhop_device::service::{Endpoint, Service};
use bellhop_guest::broker::{Limits, Options, Server};
use bellhop_guest::fake_guest::{FakeGuest, GuestOptions};
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::transport::broker::Broker;
use bellhop_guest_umd::transport::vhost_user::{self, VhostUser};
use bellhop_guest_umd::{
    Adapter, CommandBuffer, Error, PlacementPolicy, Placements, UserModeQueue,
};
use section::{BATCHES, count, end_section};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Room for the smallest command buffer.
const COMMANDS: usize = 64;
/// Bytes of the ring, which holds several batches.
const RING: u64 = 64 << 10;
/// Submissions in the largest batch.
const DEEPEST: usize = 64;
/// Longer than the period in which a busy engine looks at all of its doorbells: it then does so after each
/// batch, not after some batches that depend on the machine's speed.
const PAUSE: Duration = Duration::from_millis(1);
/// How long the first submissions may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How a batch is submitted.
#[derive(Debug, Clone, Copy)]
enum Rings {
    /// One ring after the last submission.
    Once,
    /// A ring for each submission.
    Each,
}

/// Batches of one kind.
struct Load {
    name: &'static str,
    depth: usize,
    rings: Rings,
}

const LOADS: [Load; 3] = [
    Load { name: "depth-1", depth: 1, rings: Rings::Each },
    Load { name: "depth-64-rung-once", depth: DEEPEST, rings: Rings::Once },
    Load { name: "depth-64-rung-each", depth: DEEPEST, rings: Rings::Each },
];

/// A queue and the command buffers for it.
struct Client {
    queue: UserModeQueue,
    batch: Vec<CommandBuffer>,
}

/// Where the counted program is.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// It is its guest's only program.
    Alone,
    /// It is behind the guest's broker.
    BehindBroker,
}

impl Place {
    /// The name of a load there.
    fn name(self, load: &str) -> String {
        match self {
            Self::Alone => load.to_owned(),
            Self::BehindBroker => format!("broker-{load}"),
        }
    }
}

fn main() -> anyhow::Result<()> {
    for place in [Place::Alone, Place::BehindBroker] {
        count_all(place)?;
    }
    Ok(())
}

/// Counts all loads of a program.
fn count_all(place: Place) -> anyhow::Result<()> {
    let (service, mut engine) = Service::start_stepped(&Config::default())?;
    let (front_end, device_end) = UnixStream::pair()?;
    service.serve(Endpoint::connected(device_end)?)?;
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("broker.sock");
    let mut client = beside(&mut engine, || Client::start(transport(place, front_end, &socket)?))??;
    for _ in 0..BATCHES {
        count(|| run(&mut engine));
    }
    end_section("engine", &place.name("nothing"), 0);
    for Load { name, depth, rings } in LOADS {
        let name = place.name(name);
        for _ in 0..BATCHES {
            client.submit(depth, rings)?;
            thread::sleep(PAUSE);
            count(|| run(&mut engine));
            client.check()?;
        }
        end_section("engine", &name, depth);
        for _ in 0..BATCHES {
            count(|| client.submit(depth, rings))?;
            run(&mut engine);
            client.check()?;
        }
        end_section("driver", &name, depth);
    }
    beside(&mut engine, move || drop((client, service)))
}

/// A program's way to the device.
fn transport(
    place: Place,
    front_end: UnixStream,
    socket: &Path,
) -> anyhow::Result<Arc<dyn Transport>> {
    match place {
        Place::Alone => Ok(FakeGuest::over(front_end, GuestOptions::default())?),
        Place::BehindBroker => {
            let device = VhostUser::over(front_end, vhost_user::Options::default())?;
            let options = Options {
                socket: socket.to_owned(),
                mode: 0o600,
                limits: Limits::default(),
                is_confined: false,
            };
            let server = Server::listen(device, &options)?;
            // It ends with its device.
            thread::spawn(move || server.serve());
            Ok(Broker::connect(socket)?)
        }
    }
}

/// Executes everything that was rung for.
#[inline(never)]
fn run(engine: &mut SteppedEngine) {
    engine.run_until_idle();
}

/// Calls `act` on another thread, while the engine executes its submissions.
fn beside<T: Send>(
    engine: &mut SteppedEngine,
    act: impl FnOnce() -> T + Send,
) -> anyhow::Result<T> {
    thread::scope(|scope| {
        let thread = scope.spawn(act);
        while !thread.is_finished() {
            run(engine);
            thread::yield_now();
        }
        thread.join().map_err(|_| anyhow!("what the engine executed for had panicked"))
    })
}

impl Client {
    /// A client that has submitted before, so its doorbell is connected.
    fn start(transport: Arc<dyn Transport>) -> anyhow::Result<Self> {
        let adapter = Adapter::open_with(transport, PlacementPolicy::Fixed(Placements::BAR))?;
        let context = adapter.create_device()?.create_context(0)?;
        let queue = context.create_user_mode_queue(RING)?;
        let mut batch = CommandBuffer::many(context.device(), COMMANDS, DEEPEST)?;
        for commands in &mut batch {
            commands.nop()?;
        }
        let mut client = Self { queue, batch };
        for Load { depth, rings, .. } in LOADS {
            client.submit(depth, rings)?;
            client.queue.progress_fence().poll(client.queue.last_value(), TIMEOUT)?;
        }
        Ok(client)
    }

    #[inline(never)]
    fn submit(&mut self, depth: usize, rings: Rings) -> Result<(), Error> {
        let Self { queue, batch } = self;
        let batch = batch.iter_mut().take(depth);
        match rings {
            Rings::Once => {
                for commands in batch {
                    queue.queue(commands)?;
                }
                queue.ring()
            }
            Rings::Each => {
                for commands in batch {
                    queue.submit(commands)?;
                }
                Ok(())
            }
        }
    }

    /// Checks that all submissions are done.
    fn check(&self) -> anyhow::Result<()> {
        let done = self.queue.progress_fence().current_value().context("there is no fence")?;
        let last = self.queue.last_value();
        if done != last {
            bail!("the engine stopped at submission {done} of {last}");
        }
        Ok(())
    }
}
