// SPDX-License-Identifier: MIT OR Apache-2.0

//! Events, to the programs whose processes they name.

use super::device::Device;
use bellhop_guest_umd::transport::TransportError;
use bellhop_protocol::event::Event;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{Errno, write};
use rustix::net::{Shutdown, shutdown};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zerocopy::IntoBytes;

/// Bytes of a program's pipe, if Linux allows it: so many events may be unread.
const UNREAD: usize = 1 << 20;

/// What a program is connected by: the pipe that its events go into, and sockets on which it sends requests.
pub(super) struct Connections(Mutex<Option<Open>>);

struct Open {
    events: OwnedFd,
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

impl Connections {
    pub(super) fn new(events: OwnedFd, requests: Vec<OwnedFd>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Some(Open { events, requests }))))
    }

    /// No code panics while it holds the lock, so poisoned connections are whole.
    fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a socket, unless the program has `most` already or is disconnected.
    pub(super) fn add(&self, socket: OwnedFd, most: usize) -> bool {
        match &mut *self.lock() {
            Some(Open { requests, .. }) if requests.len() < most => {
                requests.push(socket);
                true
            }
            _ => false,
        }
    }

    /// Disconnects the program.
    pub(super) fn end(&self) {
        let open = self.lock().take();
        for socket in open.iter().flat_map(|open| &open.requests) {
            // It fails only if the program has gone.
            let _ = shutdown(socket, Shutdown::Both);
        }
    }

    /// Sends an event. A program that takes none, or is gone, is disconnected: it must not lose one and go on.
    fn send(&self, event: &Event) {
        let sent = match &*self.lock() {
            // A pipe takes so few bytes at once, or not at all.
            Some(open) => write(&open.events, event.as_bytes()),
            None => return,
        };
        if sent.is_err() {
            self.end();
        }
    }
}

/// Which program has which process.
#[derive(Default)]
pub(super) struct Routes(Mutex<HashMap<u32, Arc<Connections>>>);

impl Routes {
    /// No code panics while it holds the lock, so a poisoned table is whole.
    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Arc<Connections>>> {
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

    /// Passes events on until the device is gone. One that names no process is for all.
    pub(super) fn deliver(&self, device: &Device) -> TransportError {
        loop {
            match device.next_event() {
                Ok(Some(event)) if event.process == 0 => {
                    self.lock().values().for_each(|connections| connections.send(&event));
                }
                Ok(Some(event)) => {
                    let connections = self.lock().get(&event.process).cloned();
                    connections.iter().for_each(|connections| connections.send(&event));
                }
                // The event that says why comes, too.
                Ok(None) => {}
                Err(error) => return error,
            }
        }
    }
}
