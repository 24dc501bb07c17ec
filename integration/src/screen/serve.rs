// SPDX-License-Identifier: MIT OR Apache-2.0

//! A server for VNC viewers.
//!
//! One thread takes frames from the daemon, as fast as they come, and keeps the latest. Each viewer has two threads:
//! one reads what the viewer sends, one compares the latest frame with what the viewer has and sends what differs. So a
//! viewer that is slow gets fewer frames, and neither the guest nor another viewer waits for it.

use super::view::Sender;
use super::{Event, View};
use anyhow::{Context, bail};
use bellhop_device::service::bind_privately;
use bellhop_protocol::screen::{Connector, Input, Viewed};
use bellhop_rfb::{
    Encoder, Hello, Message, Password, Picture, RfbError, Wanted, read_message, shake_hands,
};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Most viewers at once.
const MAX_VIEWERS: usize = 16;
/// How long a viewer may take to say hello, and to take an update.
const PATIENCE: Duration = Duration::from_secs(30);
/// Without viewers the daemon need not copy frames, nor look for changes. Told with the state locked, so that a viewer who
/// comes meanwhile is told of after it.
const LOOK_AWAY: Viewed = Viewed::Watch(false);
/// The size of the screen before anything was shown.
const UNKNOWN: (u32, u32) = (640, 480);

/// Where viewers connect.
#[derive(Debug, Clone)]
pub enum Listen {
    /// A Unix socket, for this user.
    Unix(PathBuf),
    /// A port of this machine.
    Tcp(SocketAddr),
}

/// What all threads share.
struct Shared {
    state: Mutex<State>,
    /// The state has changed.
    changed: Condvar,
    name: String,
    password: Option<Password>,
}

#[derive(Default)]
struct State {
    picture: Arc<Picture>,
    /// Grows with each frame.
    generation: u64,
    viewers: BTreeMap<u64, Viewer>,
    last_viewer: u64,
    /// The daemon has ended.
    is_over: bool,
}

/// A viewer, as its two threads share it.
#[derive(Default)]
struct Viewer {
    wanted: Wanted,
    is_gone: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

/// A viewer's connection.
trait Connection: Read + Write + Send + Sized + 'static {
    fn duplicate(&self) -> io::Result<Self>;
    fn be_patient(&self, reading: Option<Duration>, writing: Duration) -> io::Result<()>;
    fn end(&self);
}

macro_rules! connection {
    ($($stream:ty)*) => {$(
        impl Connection for $stream {
            fn duplicate(&self) -> io::Result<Self> {
                self.try_clone()
            }

            fn be_patient(&self, reading: Option<Duration>, writing: Duration) -> io::Result<()> {
                self.set_read_timeout(reading)?;
                self.set_write_timeout(Some(writing))
            }

            fn end(&self) {
                // It may have ended by itself.
                let _ = self.shutdown(Shutdown::Both);
            }
        }
    )*};
}

connection!(TcpStream UnixStream);

/// Serves a connector to viewers, until the daemon ends. `ready` is called with a description of the place when viewers
/// can connect.
///
/// # Errors
/// If no daemon answers, or nobody could connect.
pub fn serve(
    socket: &Path,
    connector: &Connector,
    listen: &Listen,
    password: Option<Password>,
    ready: impl FnOnce(&str),
) -> anyhow::Result<()> {
    let view = View::open(socket, connector)?;
    let name =
        if connector.name.is_empty() { "bellhop".to_owned() } else { connector.name.clone() };
    let picture = Arc::new(Picture::black(UNKNOWN.0, UNKNOWN.1));
    let state = Mutex::new(State { picture, ..State::default() });
    let shared = Arc::new(Shared { state, changed: Condvar::new(), name, password });
    match listen {
        Listen::Unix(path) => {
            let listener = bind_privately(path)
                .with_context(|| format!("cannot listen at {}", path.display()))?;
            ready(&path.display().to_string());
            let accepting = Arc::clone(&shared);
            let sender = view.sender()?;
            thread::spawn(move || {
                accept(&accepting, listener.incoming(), &Arc::new(Mutex::new(sender)))
            });
            let result = take_frames(&shared, view);
            // It was this server's.
            let _ = fs::remove_file(path);
            result
        }
        Listen::Tcp(address) => {
            if !address.ip().is_loopback() {
                bail!(
                    "{address} is not of this machine alone; use 127.0.0.1, and ssh or a proxy from elsewhere"
                );
            }
            if shared.password.is_none() {
                bail!(
                    "a port is open to every user of this machine: set a password with --password-file"
                );
            }
            let listener = TcpListener::bind(address);
            let listener = listener.with_context(|| format!("cannot listen at {address}"))?;
            ready(&listener.local_addr()?.to_string());
            let accepting = Arc::clone(&shared);
            let sender = view.sender()?;
            thread::spawn(move || {
                accept(&accepting, listener.incoming(), &Arc::new(Mutex::new(sender)))
            });
            take_frames(&shared, view)
        }
    }
}

/// Takes frames until the daemon ends.
fn take_frames(shared: &Shared, mut view: View) -> anyhow::Result<()> {
    let mut took = || -> anyhow::Result<()> {
        loop {
            match view.next(None)? {
                Some(Event::Frame(frame)) => {
                    let picture = Arc::new(view.picture(frame.buffer)?);
                    let mut state = shared.lock();
                    (state.picture, state.generation) = (picture, state.generation + 1);
                    shared.changed.notify_all();
                    if state.viewers.is_empty() {
                        view.send(LOOK_AWAY)?;
                    }
                    drop(state);
                    view.give_back(frame.buffer)?;
                }
                Some(Event::NoSignal) => {
                    let mut state = shared.lock();
                    let Picture { width, height, .. } = *state.picture;
                    (state.picture, state.generation) =
                        (Arc::new(Picture::black(width, height)), state.generation + 1);
                    shared.changed.notify_all();
                }
                Some(Event::Size(..)) | None => {}
            }
        }
    };
    let result = took();
    shared.lock().is_over = true;
    shared.changed.notify_all();
    result
}

/// Accepts viewers.
fn accept<C: Connection>(
    shared: &Arc<Shared>,
    incoming: impl Iterator<Item = io::Result<C>>,
    sender: &Arc<Mutex<Sender>>,
) {
    for connection in incoming {
        let Ok(connection) = connection else {
            // No descriptor is free until a viewer leaves.
            let state = shared.lock();
            drop(shared.wait(state));
            continue;
        };
        let viewer = {
            let mut state = shared.lock();
            if state.viewers.len() >= MAX_VIEWERS {
                continue;
            }
            state.last_viewer += 1;
            let viewer = state.last_viewer;
            state.viewers.insert(viewer, Viewer::default());
            viewer
        };
        shared.changed.notify_all();
        tell(sender, Viewed::Watch(true));
        let (shared, sender) = (Arc::clone(shared), Arc::clone(sender));
        thread::spawn(move || {
            if let Err(error) = converse(&shared, viewer, connection, &sender) {
                eprintln!("bellhop: a viewer {error}");
            }
            let mut state = shared.lock();
            state.viewers.remove(&viewer);
            if state.viewers.is_empty() {
                tell(&sender, LOOK_AWAY);
            }
            drop(state);
            shared.changed.notify_all();
        });
    }
}

/// Tells the daemon something. If it has ended, whoever takes frames notices.
fn tell(sender: &Mutex<Sender>, viewed: Viewed) {
    let _ = sender.lock().unwrap_or_else(PoisonError::into_inner).send(viewed);
}

/// Serves a viewer until it goes: reads on this thread, sends on another.
fn converse<C: Connection>(
    shared: &Arc<Shared>,
    viewer: u64,
    mut connection: C,
    sender: &Mutex<Sender>,
) -> Result<(), RfbError> {
    connection.be_patient(Some(PATIENCE), PATIENCE)?;
    let mut size = (0, 0);
    shake_hands(&mut connection, shared.password.as_ref(), || {
        let picture = Arc::clone(&shared.lock().picture);
        let side = |side| u16::try_from(side).unwrap_or(u16::MAX);
        size = (side(picture.width), side(picture.height));
        Hello { width: size.0, height: size.1, name: shared.name.clone() }
    })?;
    // A person may look at a screen for hours.
    connection.be_patient(None, PATIENCE)?;
    let (sending, mut writer) = (Arc::clone(shared), connection.duplicate()?);
    let sent = thread::spawn(move || {
        let result = send(&sending, viewer, &mut writer, Encoder::new(size.0, size.1));
        // Ends the other thread's read.
        writer.end();
        result
    });
    let mut reader = BufReader::new(connection.duplicate()?);
    let read = receive(shared, viewer, &mut reader, sender);
    if let Some(viewer) = shared.lock().viewers.get_mut(&viewer) {
        viewer.is_gone = true;
    }
    shared.changed.notify_all();
    connection.end();
    let sent = sent.join().unwrap_or(Ok(()));
    match (read, sent) {
        // It just left.
        (Err(RfbError::Io(_)), Ok(())) => Ok(()),
        (Err(RfbError::Io(_)), sent) => sent,
        (read, _) => read,
    }
}

fn receive(
    shared: &Shared,
    viewer: u64,
    reader: &mut impl Read,
    sender: &Mutex<Sender>,
) -> Result<(), RfbError> {
    loop {
        let message = read_message(reader)?;
        let done = {
            let mut state = shared.lock();
            let Some(viewer) = state.viewers.get_mut(&viewer) else { return Ok(()) };
            viewer.wanted.add(message)
        };
        let viewed = match done {
            Some(Message::Key { down, keysym }) => Viewed::Input(Input::Key { keysym, down }),
            Some(Message::Pointer { buttons, x, y }) => {
                Viewed::Input(Input::Pointer { x: x.into(), y: y.into(), buttons: buttons.into() })
            }
            Some(_) => continue,
            None => {
                shared.changed.notify_all();
                continue;
            }
        };
        tell(sender, viewed);
    }
}

fn send(
    shared: &Shared,
    viewer: u64,
    writer: &mut impl Write,
    mut encoder: Encoder,
) -> Result<(), RfbError> {
    let mut seen = None;
    loop {
        let (picture, (part, incremental)) = {
            let mut state = shared.lock();
            loop {
                let (generation, is_over) = (state.generation, state.is_over);
                let picture = Arc::clone(&state.picture);
                let Some(viewer) = state.viewers.get_mut(&viewer) else { return Ok(()) };
                if viewer.is_gone || is_over {
                    return Ok(());
                }
                let is_changed = seen != Some(generation);
                if let Some(request) = viewer.wanted.take(&mut encoder, is_changed) {
                    seen = Some(generation);
                    break (picture, request);
                }
                state = shared.wait(state);
            }
        };
        match encoder.update(&picture, part, incremental)? {
            Some(update) => writer.write_all(&update)?,
            // It waits for a change.
            None if incremental => {
                if let Some(viewer) = shared.lock().viewers.get_mut(&viewer) {
                    viewer.wanted.keep(part);
                }
            }
            None => {}
        }
    }
}
