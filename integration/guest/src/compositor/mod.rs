// SPDX-License-Identifier: MIT OR Apache-2.0

//! A compositor: it has the guest's monitors, and shows the windows of other programs on them.
//!
//! ```text
//!  program ── its picture is drawn ──> reader, a thread for each ──> screen, a thread for each monitor
//!          <── it is shown ────────────────────────────────────────┘   copies windows, or flips to the one that covers all
//! ```
//! A picture is a primary that the program shares. A window that covers its monitor is shown without a copy: the compositor flips to
//! the program's picture (DirectFlip), or lends the program the source, which then flips without it (IndependentFlip).
//!
//! A program is as hostile as a guest. Its reader waits for it alone; a screen waits for no program.
//!
//! Source: Windows KMD overview, "Flip/Present".

mod reader;
mod screen;
mod seats;
mod window;

use crate::complaints::Complaints;
use crate::listener::{Connection, Knock, Listener, descriptors};
use anyhow::{Context as _, ensure};
use bellhop_guest_umd::display::{Display, Path, Surface, Topology};
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::{Adapter, Device, PlacementPolicy};
use reader::{Monitor, Reader};
use rustix::net::SocketType;
use screen::Screen;
use seats::Seats;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// How long programs wait for descriptors and memory, unless a window goes before: others of the system may free some.
const SCARCE: Duration = Duration::from_millis(100);
/// How long one look for what the guest's agent wants lasts.
const LOOK: Duration = Duration::from_secs(3600);

/// How a window that covers its monitor may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flips {
    /// By a copy, as every other.
    Composed,
    /// By flips of the compositor's.
    Direct,
    /// By flips of the program's own.
    Independent,
}

/// How a compositor serves.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where it listens.
    pub socket: PathBuf,
    /// The socket's mode: who may connect.
    pub mode: u32,
    /// How windows that cover a monitor may be shown.
    pub flips: Flips,
    /// The colour where no window is, as `0x00RRGGBB`.
    pub ground: u32,
}

/// Shows windows on all monitors until the device or the monitors are gone.
///
/// # Errors
/// When the guest has no monitors, or another program shows something on them; the reason why they are gone.
pub fn serve(
    transport: Arc<dyn Transport>,
    placement: PlacementPolicy,
    options: &Options,
) -> anyhow::Result<()> {
    let adapter = Adapter::open_with(transport, placement).context("cannot open the adapter")?;
    let display = adapter.display()?;
    let device = adapter.create_device()?;
    let topology = all_monitors(&display)?;
    display.commit(&topology)?;
    // Whichever screen ends first says why.
    let (end, ended) = channel();
    let mut monitors = Vec::new();
    for path in topology.paths() {
        let (events, received) = channel();
        let (connector, source) = (path.get().target, path.get().source);
        let surface = Surface::from(path.get().source_mode);
        let screen = Screen::new(&display, &device, source, surface, options)?;
        let end = end.clone();
        let thread = thread::Builder::new().name(format!("screen {connector}"));
        thread.spawn(move || end.send(screen.run(&received)))?;
        monitors.push(Monitor { connector, surface, events });
    }
    let listener = Listener::bind(&options.socket, options.mode, "compositor", SocketType::STREAM)?;
    let asked = display.clone();
    thread::Builder::new().name("consents".into()).spawn(move || refuse_all(&asked))?;
    crate::output::note(format_args!("windows may connect to {}", options.socket.display()));
    let server = Server { listener, device, monitors: Arc::new(monitors) };
    thread::Builder::new().name("listener".into()).spawn(move || end.send(server.serve()))?;
    ended.recv().context("no screen is left")?
}

/// Lets programs open windows.
struct Server {
    listener: Listener,
    device: Device,
    monitors: Arc<Vec<Monitor>>,
}

impl Server {
    /// Serves until nobody can be listened to.
    fn serve(self) -> anyhow::Result<()> {
        let (seats, complaints) = (Arc::<Seats>::default(), Arc::<Complaints>::default());
        for number in 0.. {
            let Connection { socket, peer } = match self.listener.accept()? {
                Knock::Program(connection) => connection,
                Knock::Scarce(error) => {
                    complaints.note(format_args!("a program waits: {error}"));
                    seats.await_one_that_goes(SCARCE);
                    continue;
                }
                Knock::End => break,
            };
            let Some(seat) = Seats::take(&seats, peer) else {
                complaints.note(format_args!("{peer}: it or all have as many windows as may be"));
                // The program hears that the connection ends.
                if let Err(error) = descriptors::throw_away(socket) {
                    complaints.note(format_args!("{peer}: its end may have taken long: {error}"));
                }
                continue;
            };
            let (device, monitors) = (self.device.clone(), Arc::clone(&self.monitors));
            let (program, complaints) = (UnixStream::from(socket), Arc::clone(&complaints));
            let reader = Reader { number, program, peer, device, monitors, complaints };
            let thread = thread::Builder::new().name("reader".into());
            // Without a thread the program hears that the connection ends.
            let _ = thread.spawn(move || {
                reader.run();
                drop(seat);
            });
        }
        Ok(())
    }
}

/// A topology with a source for each monitor.
fn all_monitors(display: &Display) -> anyhow::Result<Topology> {
    let mut topology = Topology::new();
    for child in 0..display.children().len() as u32 {
        if display.child_status(child)?.connected != 0 {
            // The source of this number is on the connector's GPU.
            topology = topology.path(Path::new(child, child));
        }
    }
    ensure!(!topology.paths().is_empty(), "no monitor is plugged in");
    Ok(display.complete(&topology)?)
}

/// Answers the guest's agent, which asks before it changes what monitors show, until the device is gone.
fn refuse_all(display: &Display) {
    while let Ok(asked) = display.next_topology_wanted(LOOK) {
        if let Some(asked) = asked {
            // It may be too late.
            let _ = display.refuse(asked.request, "a compositor shows windows of programs");
        }
    }
}
