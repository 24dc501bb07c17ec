// SPDX-License-Identifier: MIT OR Apache-2.0

//! The worker's side: serves requests. Standard input is the socket to its owner.
//!
//! The main thread obeys requests for memory, from a socket of their own: it maps and takes back memory at any time,
//! even while a kernel runs. Another thread receives and obeys all other requests, as its role does: `executor` compiles
//! and runs kernels and executes streams of commands, `tasks` does the tasks of the other roles. Threads wait for memory in `faults`.

mod commands;
mod essential;
mod executor;
mod faults;
mod imports;
mod lane;
mod lanes;
mod memory;
pub mod processors;
mod progress;
mod recorded;
mod roles;
pub mod sandbox;
mod shared;
mod tasks;
mod window;
mod work;

use crate::messages::{
    MAX_REQUEST, Malformed, Map, NO_SLOT, Ready, Refused, Request, Role, SLOTS, Start, Text, Unmap,
    Unmapped,
};
use crate::socket::{receive, send};
use anyhow::{Context, bail, ensure};
use executor::Abilities;
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::RecvFlags;
use rustix::stdio::stdin;
use sandbox::{Confined, Limits};
use shared::Shared;
use std::ffi::OsStr;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, PoisonError};
use window::Window;

/// Serves the owner until it closes its end of the socket.
///
/// # Errors
/// When the owner sends something that is no request, or a system call fails.
pub fn serve(loader: &OsStr) -> anyhow::Result<()> {
    sandbox::close_others();
    let mut buffer = vec![0; MAX_REQUEST];
    let Some(first) = receive(stdin(), &mut buffer, RecvFlags::empty())? else { return Ok(()) };
    let Request::Start(start) = Request::read(first.bytes)? else {
        bail!("the first request is not Start");
    };
    let memory = first.descriptor()?;
    let role = Role::of_number(start.role).ok_or(Malformed::Field("role"))?;
    match Worker::prepare(role, loader, &start) {
        Ok((mut worker, go)) => {
            let Abilities { pointers, resident } = worker.abilities;
            let (pointers, resident) = (u32::from(pointers), u32::from(resident));
            send(stdin(), Ready { pointers, resident }, None)?;
            go.send(())?;
            worker.obey(&memory, &mut buffer)
        }
        Err(error) => {
            let why = Text::new(&format!("{error:#}"));
            Ok(send(stdin(), Refused { why }, None)?)
        }
    }
}

/// What the thread for memory has.
struct Worker {
    window: Window,
    abilities: Abilities,
    shared: Arc<Shared>,
}

impl Worker {
    /// Prepares window, device and sandbox. The other thread begins when it is told to go.
    fn prepare(role: Role, loader: &OsStr, start: &Start) -> anyhow::Result<(Self, Sender<()>)> {
        let Start { start, length, memory, device, processors, first_processor, samples, .. } =
            *start;
        // Reserved first, before libraries and threads can occupy these addresses.
        let mut window = Window::reserve(start, length)?;
        // Threads inherit this.
        processors::limit(processors, first_processor).context("cannot limit its processors")?;
        processors::be_nice().context("cannot lower its priority")?;
        let (sender, ready) = channel();
        let (go, told) = channel();
        let shared = Arc::new(Shared::default());
        let (loader, range) = (loader.to_owned(), start..start + length);
        let theirs = Arc::clone(&shared);
        essential::spawn(role.name(), move || match role {
            Role::Kernels => executor::run(&loader, device, range, &theirs, &sender, &told),
            Role::Video => {
                // A codec waits for its threads without end.
                essential::make_all_essential();
                let prepare = || roles::video::prepare(processors, samples);
                tasks::run(prepare, range, &theirs, &sender, &told)
            }
        })?;
        let abilities = ready.recv().context("the driver ended the thread")??;
        faults::watch(start, start + length).context("cannot watch for faults")?;
        // By now the role has loaded its libraries and started its threads. What nothing is mapped at counts for no limit.
        window.clear()?;
        let confined = match role {
            Role::Kernels if abilities.resident => Confined::Gpu,
            Role::Kernels => Confined::Kernels,
            Role::Video => Confined::Video,
        };
        sandbox::enter(confined, &Limits::with_window(memory))?;
        Ok((Self { window, abilities, shared }, go))
    }

    /// Obeys requests for memory.
    fn obey(&mut self, memory: &OwnedFd, buffer: &mut [u8]) -> anyhow::Result<()> {
        while let Some(received) = receive(memory, buffer, RecvFlags::empty())? {
            match Request::read(received.bytes)? {
                Request::Map(Map { slot, writable, address, length, offset }) => {
                    ensure!(writable <= 1, Malformed::Field("access"));
                    let known = slot == NO_SLOT || (slot as usize) < SLOTS;
                    ensure!(known, Malformed::Field("slot"));
                    let file = received.descriptor()?;
                    // The owner need not know: whoever touches it asks again.
                    if !self.abilities.resident && self.window.is_full(length) {
                        self.window.clear()?;
                    }
                    self.window.map(address, length, (file.as_fd(), offset), writable == 1)?;
                    self.shared.memory.advance();
                    faults::answered(slot);
                }
                Request::Unmap(Unmap { address, length }) => {
                    received.alone()?;
                    if self.abilities.resident {
                        // The device may use the pages that it imported for a batch until that is done.
                        let in_use = self.shared.in_use.lock();
                        let _in_use = in_use.unwrap_or_else(PoisonError::into_inner);
                        self.window.unmap(address, length)?;
                        // Behind it: whoever reads the new number touches what is there now.
                        self.shared.taken_back.fetch_add(1, Ordering::AcqRel);
                    } else {
                        self.window.unmap(address, length)?;
                    }
                    self.shared.memory.advance();
                    send(stdin(), Unmapped { address, length }, None)?;
                }
                _ => bail!("a request that is none for memory"),
            }
        }
        Ok(())
    }
}
