// SPDX-License-Identifier: MIT OR Apache-2.0

//! Events, to the programs whose processes they name.

use super::device::Device;
use bellhop_guest_umd::transport::TransportError;
use bellhop_protocol::event::Event;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{Errno, write};
use rustix::net::{Shutdown, shutdown};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zerocopy::IntoBytes;

/// Bytes of a program's pipe, if Linux allows it: so many events may be unread.
const UNREAD: usize = 1 << 20;

/// What a program is connected by: the pipe that its events go into, and sockets on which it sends requests.
pub(super) struct Connections(Mutex<Open>);

struct Open {
    /// `None` once the program is disconnected.
    events: Option<OwnedFd>,
    /// They stay until the program's own threads drop them, which may take long.
    requests: Vec<OwnedFd>,
}

/// A pipe for events, which never makes the broker wait, and the program's end of it.
pub(super) fn event_pipe() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (its, own) = pipe_with(PipeFlags::CLOEXEC)?;
    fcntl_setfl(&own, OFlags::NONBLOCK)?;
    // Linux may grant a user without privileges less.
    let _ = fcntl_setpipe_size(&own, UNREAD);
    Ok((own, its))
}

/// What is readable for a moment when the device has interrupted the guest. A program that has it can be woken by an interrupt, and
/// can take none from the broker: there is nothing to read.
pub(super) fn watch(interrupt: Option<BorrowedFd<'_>>) -> Result<OwnedFd, Errno> {
    let watch = epoll::create(CreateFlags::CLOEXEC)?;
    if let Some(interrupt) = interrupt {
        let each = EventFlags::IN | EventFlags::ET;
        // Where Linux has no room for it, the program has the pipe alone.
        let _ = epoll::add(&watch, interrupt, EventData::new_u64(0), each);
    }
    Ok(watch)
}

impl Connections {
    pub(super) fn new(events: OwnedFd, requests: Vec<OwnedFd>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Open { events: Some(events), requests })))
    }

    /// No code panics while it holds the lock, so poisoned connections are whole.
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a socket, unless the program has `most` already or is disconnected.
    pub(super) fn add(&self, socket: OwnedFd, most: usize) -> bool {
        let mut open = self.lock();
        let may = open.events.is_some() && open.requests.len() < most;
        if may {
            open.requests.push(socket);
        }
        may
    }

    /// Disconnects the program.
    pub(super) fn end(&self) {
        let mut open = self.lock();
        open.events = None;
        for socket in &open.requests {
            // It fails only if the program has gone.
            let _ = shutdown(socket, Shutdown::Both);
        }
    }

    /// Sends an event. A program that takes none, or is gone, is disconnected: it must not lose one and go on.
    fn send(&self, event: &Event) {
        // A pipe takes so few bytes at once, or not at all.
        let sent = self.lock().events.as_ref().map(|pipe| write(pipe, event.as_bytes()));
        if let Some(Err(_)) = sent {
            self.end();
        }
    }
}

/// Which program has which process.
#[derive(Default)]
pub(super) struct Routes(Mutex<BTreeMap<u32, Arc<Connections>>>);

impl Routes {
    /// No code panics while it holds the lock, so a poisoned table is whole.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Arc<Connections>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on, events of this process go there.
    pub(super) fn add(&self, process: u32, connections: &Arc<Connections>) {
        self.lock().insert(process, Arc::clone(connections));
    }

    /// The process has ended.
    pub(super) fn remove(&self, process: u32) {
        self.lock().remove(&process);
    }

    /// Disconnects every program that has a process.
    pub(super) fn end_all(&self) {
        self.lock().values().for_each(|connections| connections.end());
    }

    /// Passes an event on. One that names no process is for all.
    ///
    /// The lock is held meanwhile, and nothing here waits: so the program's own threads drop its sockets, which may take long.
    pub(super) fn pass_on(&self, event: &Event) {
        let all = self.lock();
        match event.process {
            0 => {
                // A program with several processes hears it once.
                let mut told: Vec<&Arc<Connections>> = Vec::new();
                for connections in all.values() {
                    if !told.iter().any(|other| Arc::ptr_eq(other, connections)) {
                        connections.send(event);
                        told.push(connections);
                    }
                }
            }
            process => {
                all.get(&process).into_iter().for_each(|connections| connections.send(event))
            }
        }
    }

    /// Passes events on until the device is gone.
    pub(super) fn deliver(&self, device: &Device) -> TransportError {
        loop {
            match device.next_event() {
                Ok(Some(event)) => self.pass_on(&event),
                // The event that says why comes, too.
                Ok(None) => {}
                Err(error) => return error,
            }
        }
    }
}
