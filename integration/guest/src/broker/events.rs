// SPDX-License-Identifier: MIT OR Apache-2.0

//! Events, to the programs whose processes they name.

use super::device::Device;
use bellhop_guest_umd::transport::TransportError;
use bellhop_protocol::event::Event;
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zerocopy::IntoBytes;

/// The sockets of a program: its events go to the first, and it is disconnected at all of them.
pub(super) struct Sockets {
    events: OwnedFd,
    requests: Vec<OwnedFd>,
}

impl Sockets {
    pub(super) fn new(events: OwnedFd, requests: Vec<OwnedFd>) -> Arc<Self> {
        Arc::new(Self { events, requests })
    }

    /// Disconnects the program.
    pub(super) fn end(&self) {
        for socket in std::iter::once(&self.events).chain(&self.requests) {
            // It fails only if the program has gone.
            let _ = shutdown(socket, Shutdown::Both);
        }
    }

    /// Sends an event. A program that takes none, or is gone, is disconnected: it must not lose one and go on.
    fn send(&self, event: &Event) {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        if send(&self.events, event.as_bytes(), flags).is_err() {
            self.end();
        }
    }
}

/// Which program has which process.
#[derive(Default)]
pub(super) struct Routes(Mutex<BTreeMap<u32, Arc<Sockets>>>);

impl Routes {
    /// No code panics while it holds the lock, so a poisoned table is whole.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Arc<Sockets>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on, events of this process go to these sockets.
    pub(super) fn add(&self, process: u32, sockets: &Arc<Sockets>) {
        self.lock().insert(process, Arc::clone(sockets));
    }

    /// The process has ended.
    pub(super) fn remove(&self, process: u32) {
        self.lock().remove(&process);
    }

    /// Disconnects every program that has a process.
    pub(super) fn end_all(&self) {
        self.lock().values().for_each(|sockets| sockets.end());
    }

    /// Passes an event on. One that names no process is for all.
    ///
    /// The lock is held meanwhile, and nothing here waits: so the program's own threads drop its sockets, which may take long.
    pub(super) fn pass_on(&self, event: &Event) {
        let all = self.lock();
        match event.process {
            0 => {
                // A program with several processes hears it once.
                let mut told: Vec<&Arc<Sockets>> = Vec::new();
                for sockets in all.values() {
                    if !told.iter().any(|other| Arc::ptr_eq(other, sockets)) {
                        sockets.send(event);
                        told.push(sockets);
                    }
                }
            }
            process => all.get(&process).into_iter().for_each(|sockets| sockets.send(event)),
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
