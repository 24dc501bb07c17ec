// SPDX-License-Identifier: MIT OR Apache-2.0

//! A server for VNC viewers.
//!
//! One thread takes frames from the daemon, as fast as they come, and keeps the latest. Each viewer has two threads:
//! one reads what the viewer sends, one compares the latest frame with what the viewer has and sends what differs. So a
//! viewer that is slow gets fewer frames, and neither the guest nor another viewer waits for it. A connection is no viewer
//! before it has logged in: it costs a thread for a while, and the daemon nothing (see [`door`]).

mod connection;
mod door;

use super::view::Sender;
use super::{Event, View};
use anyhow::{Context, bail};
use bellhop_device::service::bind_privately;
use bellhop_guest::output::note;
use bellhop_protocol::rect::Rect;
use bellhop_protocol::screen::{Connector, Held, Input, Viewed};
use bellhop_rfb::{
    Encoder, Hello, Message, Password, Picture, Rectangle, RfbError, Wanted, read_message,
    shake_hands,
};
use connection::{Connection, Ends, Patient};
use door::{Door, Place};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Most viewers at once.
const MAX_VIEWERS: usize = 16;
/// How long a connection may be at the door: a person types the password meanwhile.
const LOGIN: Duration = Duration::from_secs(60);
/// How long a viewer may take to take an update.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long no connection is accepted, when there was no descriptor for one and none of this process has ended.
const PAUSE: Duration = Duration::from_secs(1);
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
    began: Instant,
}

#[derive(Default)]
struct State {
    picture: Arc<Picture>,
    /// Grows with each frame.
    generation: u64,
    /// Who has not logged in.
    door: Door<Box<dyn Ends>>,
    viewers: BTreeMap<u64, Viewer>,
    /// The number of the last connection.
    last: u64,
    /// The daemon has ended.
    is_over: bool,
}

/// A viewer, as its two threads share it.
#[derive(Default)]
struct Viewer {
    wanted: Wanted,
    /// What has changed since its last update was begun.
    changed: Rect,
    is_gone: bool,
}

impl State {
    /// There is another picture, which differs from the one before in this part.
    fn change(&mut self, part: Rect) {
        self.generation += 1;
        self.viewers.values_mut().for_each(|viewer| viewer.changed = viewer.changed.with(part));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time of the door.
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Says what a connection that has not logged in did, unless many such lines were written lately.
    fn say(&self, what: &str) {
        let line = self.lock().door.line(self.now());
        match line {
            Some(0) => note(format_args!("bellhop: {what}")),
            Some(left_out) => {
                let before = format!("{left_out} lines like this were left out before");
                note(format_args!("bellhop: {what}; {before}"));
            }
            None => {}
        }
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

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
    let shared =
        Arc::new(Shared { state, changed: Condvar::new(), name, password, began: Instant::now() });
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
    // The picture before the latest, if no viewer is being sent it, becomes the next one: only what changed is copied.
    let (mut spare, mut stale) = (Arc::new(Picture::default()), Rect::NONE);
    let mut took = || -> anyhow::Result<()> {
        loop {
            match view.next(None)? {
                Some(Event::Frame(frame)) => {
                    let (buffer, mut changed) = (frame.buffer, frame.changed);
                    let is_copied = match Arc::get_mut(&mut spare) {
                        Some(picture) => view.copy(buffer, stale.with(changed), picture)?,
                        None => false,
                    };
                    if !is_copied {
                        spare = Arc::new(view.picture(buffer)?);
                    }
                    let mut state = shared.lock();
                    let is_resized =
                        (state.picture.width, state.picture.height) != (spare.width, spare.height);
                    if is_resized {
                        changed = Rect::whole(spare.width, spare.height);
                    }
                    std::mem::swap(&mut state.picture, &mut spare);
                    stale = changed;
                    state.change(changed);
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
                    state.picture = Arc::new(Picture::black(width, height));
                    (spare, stale) = (Arc::new(Picture::default()), Rect::NONE);
                    state.change(Rect::whole(width, height));
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
            // No descriptor is free until a connection ends, of this process or another.
            let _ = shared.changed.wait_timeout(shared.lock(), PAUSE);
            continue;
        };
        let Ok((place, end)) =
            connection.place().and_then(|place| Ok((place, Box::new(connection.duplicate()?))))
        else {
            // It has gone already, or no descriptor is free for it.
            continue;
        };
        let (number, arrived) = {
            let mut state = shared.lock();
            state.last += 1;
            let number = state.last;
            (number, state.door.arrive(number, place, end, shared.now()))
        };
        match arrived {
            Ok(Some(expelled)) => expelled.end(),
            Ok(None) => {}
            Err(wait) => {
                let seconds = wait.as_secs() + 1;
                let so = format!("{place} is turned away for {seconds} s: wrong passwords");
                shared.say(&so);
                continue;
            }
        }
        let (shared, sender) = (Arc::clone(shared), Arc::clone(sender));
        thread::spawn(move || serve_one(&shared, (number, place), connection, &sender));
    }
}

/// Lets a connection log in, and serves it until it goes.
fn serve_one<C: Connection>(
    shared: &Arc<Shared>,
    (number, place): (u64, Place),
    mut connection: C,
    sender: &Arc<Mutex<Sender>>,
) {
    let said = log_in(shared, number, &mut connection);
    let was_there = {
        let mut state = shared.lock();
        match said {
            Err(RfbError::Password) => state.door.wrong_password(place, shared.now()),
            Ok(_) if shared.password.is_some() => state.door.right_password(place),
            _ => {}
        }
        state.door.leave(number)
    };
    shared.changed.notify_all();
    let size = match said {
        Ok(Some(size)) => size,
        // It just left, or made room for another, and was told so by the end of its connection.
        Ok(None) | Err(RfbError::Io(_)) => return,
        Err(_) if !was_there => return,
        Err(error) => return shared.say(&format!("a connection of {place} {error}")),
    };
    {
        let mut state = shared.lock();
        if state.viewers.len() >= MAX_VIEWERS {
            drop(state);
            return shared.say(&format!("{place} has to wait: there are {MAX_VIEWERS} viewers"));
        }
        state.viewers.insert(number, Viewer::default());
        // Under the lock, as `LOOK_AWAY`.
        tell(sender, Viewed::Watch(true));
    }
    if let Err(error) = converse(shared, number, connection, size, sender) {
        note(format_args!("bellhop: a viewer {error}"));
    }
    let mut state = shared.lock();
    state.viewers.remove(&number);
    if state.viewers.is_empty() {
        tell(sender, LOOK_AWAY);
    }
    drop(state);
    shared.changed.notify_all();
}

/// Shakes hands. Returns the size that the viewer was told; `None` if it made room for another meanwhile. Who is told the
/// size is no longer at the door.
fn log_in<C: Connection>(
    shared: &Shared,
    number: u64,
    connection: &mut C,
) -> Result<Option<(u16, u16)>, RfbError> {
    let mut size = None;
    let spoken = || shared.lock().door.has_spoken(number);
    let mut patient = Patient::new(connection, Instant::now() + LOGIN, spoken);
    shake_hands(&mut patient, shared.password.as_ref(), || {
        let mut state = shared.lock();
        let side = |side| u16::try_from(side).unwrap_or(u16::MAX);
        let (width, height) = (side(state.picture.width), side(state.picture.height));
        size = state.door.leave(number).then_some((width, height));
        Hello { width, height, name: shared.name.clone() }
    })?;
    Ok(size)
}

/// Tells the daemon something. If it has ended, whoever takes frames notices.
fn tell(sender: &Mutex<Sender>, viewed: Viewed) {
    let _ = sender.lock().unwrap_or_else(PoisonError::into_inner).send(viewed);
}

/// Serves a viewer until it goes: reads on this thread, sends on another.
fn converse<C: Connection>(
    shared: &Arc<Shared>,
    viewer: u64,
    connection: C,
    size: (u16, u16),
    sender: &Mutex<Sender>,
) -> Result<(), RfbError> {
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
    let mut held = Held::default();
    let read = receive(shared, viewer, &mut reader, &mut held, sender);
    // Nobody else can let go of what it held.
    held.let_go().into_iter().for_each(|input| tell(sender, Viewed::Input(input)));
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
    held: &mut Held,
    sender: &Mutex<Sender>,
) -> Result<(), RfbError> {
    loop {
        let message = read_message(reader)?;
        let done = {
            let mut state = shared.lock();
            let Some(viewer) = state.viewers.get_mut(&viewer) else { return Ok(()) };
            viewer.wanted.add(message)
        };
        let input = match done {
            Some(Message::Key { down, keysym }) => Input::Key { keysym, down },
            Some(Message::Pointer { buttons, x, y }) => {
                Input::Pointer { x: x.into(), y: y.into(), buttons: buttons.into() }
            }
            Some(_) => continue,
            None => {
                shared.changed.notify_all();
                continue;
            }
        };
        if held.follow(input) {
            tell(sender, Viewed::Input(input));
        }
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
        let (picture, changed, (part, incremental)) = {
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
                    break (picture, std::mem::take(&mut viewer.changed), request);
                }
                state = shared.wait(state);
            }
        };
        match encoder.update(&picture, rectangle(changed), part, incremental)? {
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

/// A part, as RFB has it.
fn rectangle(part: Rect) -> Rectangle {
    let side = |pixels: u32| u16::try_from(pixels).unwrap_or(u16::MAX);
    let (x, y) = (side(part.left), side(part.top));
    Rectangle { x, y, width: side(part.width()), height: side(part.height()) }
}
