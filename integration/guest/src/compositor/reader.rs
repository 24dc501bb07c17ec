// SPDX-License-Identifier: MIT OR Apache-2.0

//! The thread of a program's connection, which reads what the program tells, checks it, and opens its pictures.

use super::window::{Event, Picture, Window};
use crate::complaints::Complaints;
use crate::listener::Peer;
use anyhow::{Context as _, bail, ensure};
use bellhop_guest_umd::Device;
use bellhop_guest_umd::display::{PixelFormat, Primary, Surface};
use bellhop_protocol::compositor::{
    FromProgram, MOST_PICTURES, Told, WINDOW_MAGIC, Window as Wanted,
};
use bellhop_protocol::control::fence::NtHandle;
use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use zerocopy::{FromZeros, IntoBytes};

/// How long a program may take to say what it wants to show.
const GREETING: Duration = Duration::from_secs(10);

/// A monitor, and how its screen hears.
pub(super) struct Monitor {
    pub(super) connector: u32,
    pub(super) surface: Surface,
    pub(super) events: Sender<Event>,
}

/// What a reader has.
pub(super) struct Reader {
    /// Names the window.
    pub(super) number: u64,
    pub(super) program: UnixStream,
    pub(super) peer: Peer,
    pub(super) device: Device,
    pub(super) monitors: Arc<Vec<Monitor>>,
    /// Of all programs.
    pub(super) complaints: Arc<Complaints>,
}

impl Reader {
    /// Reads until the program or its window ends.
    pub(super) fn run(mut self) {
        if let Err(error) = self.read() {
            self.complaints.note(format_args!("the window of {} ends: {error:#}", self.peer));
        }
    }

    fn read(&mut self) -> anyhow::Result<()> {
        self.program.set_read_timeout(Some(GREETING))?;
        let mut wanted = Wanted::new_zeroed();
        self.program.read_exact(wanted.as_mut_bytes()).context("it said nothing")?;
        let Wanted { magic, process, connector, width, height } = wanted;
        ensure!(magic == WINDOW_MAGIC, "it is no program of this version");
        let monitors = Arc::clone(&self.monitors);
        let monitor = monitors.iter().find(|monitor| monitor.connector == connector);
        let monitor = monitor.with_context(|| format!("connector {connector} shows nothing"))?;
        let most = monitor.surface;
        let fits = (1..=most.width).contains(&width) && (1..=most.height).contains(&height);
        ensure!(fits, "{width}x{height} pixels on a monitor of {}x{}", most.width, most.height);
        let surface = Surface { width, height, format: PixelFormat::X8R8G8B8 };
        self.program.set_read_timeout(None)?;
        let (number, program) = (self.number, self.program.try_clone()?);
        // The screen hears of one picture at a time, so that a program that tells of many fills nothing.
        let (take, taken) = channel();
        let window = Window::new(number, self.peer, (program, take), process, surface);
        let events = &monitor.events;
        events.send(Event::Opened(window))?;
        let read = self.read_pictures(surface, events, &taken);
        events.send(Event::Closed(number))?;
        read
    }

    fn read_pictures(
        &mut self,
        surface: Surface,
        events: &Sender<Event>,
        taken: &Receiver<()>,
    ) -> anyhow::Result<()> {
        let mut opened: BTreeMap<u32, (NtHandle, Arc<Primary>)> = BTreeMap::new();
        loop {
            let mut told = Told::new_zeroed();
            if self.program.read_exact(told.as_mut_bytes()).is_err() {
                // The program has gone, or its window was closed because it took no answers.
                return Ok(());
            }
            let Told { kind, picture, name } = told;
            ensure!(picture < MOST_PICTURES, "picture {picture}");
            let primary = match opened.get(&picture) {
                Some((same, primary)) if *same == name => Arc::clone(primary),
                Some(_) => bail!("picture {picture} has another name than before"),
                None => {
                    let primary = Arc::new(self.device.open_shared_primary(name, surface)?);
                    opened.insert(picture, (name, Arc::clone(&primary)));
                    primary
                }
            };
            let is_shown = match kind {
                FromProgram::SHOW => false,
                FromProgram::FLIPPED => true,
                other => bail!("it tells {other}"),
            };
            let picture = Picture { number: picture, primary };
            events.send(Event::Drawn { window: self.number, picture, is_shown })?;
            taken.recv()?;
        }
    }
}
