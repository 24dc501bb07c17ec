// SPDX-License-Identifier: MIT OR Apache-2.0

//! The program's side: it does what the suite asks, one thing after another.

mod bar;
mod fences;
mod local;
mod memory;
mod queues;
mod screens;

use super::wire::{
    Ask, Command, CreateKernel, Failure, Introduce, Introduction, Leave, OpenFile, Send,
    TakeEvents, Told,
};
use crate::client::{Client, Shape};
use crate::conformance::scene::MEMORY;
use crate::output::put_line;
use anyhow::Context as _;
use bellhop_guest_umd::display::{Display, Primary};
use bellhop_guest_umd::transport::broker::Broker;
use bellhop_guest_umd::transport::{SystemMemory, Transport};
use bellhop_guest_umd::{Adapter, Error, Fence, Kernel};
use bellhop_protocol::control::MAX_REPLY_SIZE;
use local::Local;
use queues::Lane;
use rustix::process::{Signal, geteuid, set_parent_process_death_signal};
use std::io::BufRead;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Adds one to each word.
const KERNEL: &str = "
    @group(0) @binding(0) var<storage, read_write> words: array<u32>;
    @compute @workgroup_size(64)
    fn increment(@builtin(global_invocation_id) id: vec3u) {
        if id.x < arrayLength(&words) { words[id.x] += 1; }
    }";

/// Does one kind of thing.
pub(super) trait Perform: Command {
    fn perform(self, performer: &mut Performer) -> Result<Self::Answer, Failure>;
}

/// A program of the guest's, with all that it was asked to have.
pub(super) struct Performer {
    // Dropped in this order: what executes before what it executes on.
    lanes: Vec<Lane>,
    kernels: Vec<Kernel>,
    fences: Vec<Option<Fence>>,
    locals: Vec<Option<Local>>,
    primaries: Vec<Option<Primary>>,
    display: Option<Display>,
    pages: Vec<Box<dyn SystemMemory>>,
    client: Option<Client>,
    transport: Arc<Broker>,
    leaves: bool,
}

/// Serves the suite as a program behind this broker: reads what to do from standard input, and answers on standard output.
/// Ends with its input.
///
/// # Errors
/// When no broker serves the socket, or the suite is gone.
pub fn perform(broker: &Path) -> anyhow::Result<()> {
    // A program that is stopped does not see the end of its input.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let transport = Broker::connect(broker).context("cannot connect to the broker")?;
    let mut performer = Performer {
        lanes: Vec::new(),
        kernels: Vec::new(),
        fences: Vec::new(),
        locals: Vec::new(),
        primaries: Vec::new(),
        display: None,
        pages: Vec::new(),
        client: None,
        transport,
        leaves: false,
    };
    // The suite knows from this that there is a place for it.
    put_line("ready")?;
    for line in std::io::stdin().lock().lines() {
        let ask: Ask = serde_json::from_str(&line?).context("the suite asks for nothing known")?;
        let answer = ask.perform(&mut performer);
        put_line(serde_json::to_string(&answer)?)?;
        if performer.leaves {
            break;
        }
    }
    Ok(())
}

impl Performer {
    /// Its process on the device, with a queue on the first node.
    fn client(&mut self) -> Result<&mut Client, Error> {
        if self.client.is_none() {
            let transport = Arc::clone(&self.transport) as Arc<dyn Transport>;
            let shape = Shape { memory: MEMORY, ..Shape::default() };
            self.client = Some(Client::new(Adapter::open(transport)?, shape)?);
        }
        self.client.as_mut().ok_or(Error::NotAvailable("the device"))
    }
}

/// The thing of this number.
fn nth<T>(things: &[Option<T>], number: usize) -> Result<&T, Failure> {
    let thing = things.get(number).and_then(Option::as_ref);
    thing.ok_or_else(|| Failure::Other(format!("there is no number {number}")))
}

/// Keeps a thing; returns its number.
fn keep<T>(things: &mut Vec<Option<T>>, thing: T) -> usize {
    things.push(Some(thing));
    things.len() - 1
}

impl Perform for Introduce {
    fn perform(self, performer: &mut Performer) -> Result<Introduction, Failure> {
        let client = performer.client()?;
        let process = client.process.process();
        let handles = [
            client.device.handle().0,
            client.context.handle().0,
            client.queue.handle().0,
            client.memory.allocation().handle().0,
        ];
        let memory = client.va(0);
        let bar = performer.transport.bar().ok_or(Error::NotAvailable("a BAR"))?;
        let file = bar.region.file_offset().ok_or(Error::NotAvailable("a file of its own"))?;
        let file = file.file().metadata().map_err(|error| Failure::Other(error.to_string()))?;
        Ok(Introduction {
            user: geteuid().as_raw(),
            capabilities: capabilities(),
            os_process: std::process::id(),
            process,
            handles,
            memory,
            file: (file.dev(), file.ino()),
        })
    }
}

/// The effective capabilities of this process.
fn capabilities() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(u64::MAX)
}

impl Perform for Send {
    fn perform(self, performer: &mut Performer) -> Result<Vec<u8>, Failure> {
        let mut reply = vec![0; MAX_REPLY_SIZE];
        let length = performer.transport.request(&self.request, &mut reply)?;
        reply.truncate(length);
        Ok(reply)
    }
}

impl Perform for TakeEvents {
    fn perform(self, performer: &mut Performer) -> Result<Vec<Told>, Failure> {
        let deadline = Instant::now() + Duration::from_millis(self.milliseconds);
        let mut told = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match performer.transport.next_event(Some(left))? {
                Some(event) => {
                    let (kind, process) = (event.kind.0, event.process);
                    told.push(Told { kind, process, object: event.object, cookie: event.cookie });
                    if kind == self.until {
                        return Ok(told);
                    }
                }
                None if left.is_zero() => return Ok(told),
                None => {}
            }
        }
    }
}

impl Perform for OpenFile {
    fn perform(self, _: &mut Performer) -> Result<bool, Failure> {
        Ok(std::fs::File::open(self.path).is_ok())
    }
}

impl Perform for CreateKernel {
    fn perform(self, performer: &mut Performer) -> Result<u64, Failure> {
        let kernel = Kernel::from_wgsl(&performer.client()?.device, KERNEL).create()?;
        let handle = kernel.handle().0;
        performer.kernels.push(kernel);
        Ok(handle)
    }
}

impl Perform for Leave {
    fn perform(self, performer: &mut Performer) -> Result<(), Failure> {
        performer.leaves = true;
        Ok(())
    }
}
