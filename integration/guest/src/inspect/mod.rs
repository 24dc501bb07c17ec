//! What there is, put together from lists and shown.

mod render;
mod tree;

use anyhow::Context;
use bellhop_guest_umd::{Adapter, Error};
use bellhop_protocol::control::escape::{Escape, ObjectList};
use bellhop_protocol::snapshot::{
    self, Device, ListRequest, Listed, Name, SNAPSHOT_VERSION, SegmentUse, Snapshot,
};
use bellhop_protocol::status::Status;
use clap::Args;
pub use render::render;
use serde::de::DeserializeOwned;
use std::io::{IsTerminal, Write};
use std::num::NonZeroU32;
use std::thread;
use std::time::Duration;

/// Where lists come from.
pub trait Source {
    /// Some objects of a list, and what to ask for next; `None` when that whose objects they were
    /// is not there.
    ///
    /// # Errors
    /// When the list cannot be had; says what to do.
    fn list<T: DeserializeOwned>(
        &mut self,
        request: &ListRequest,
    ) -> anyhow::Result<Option<(u64, Vec<T>)>>;
}

/// The device's own lists, seen from a guest.
impl Source for &Adapter {
    fn list<T: DeserializeOwned>(
        &mut self,
        request: &ListRequest,
    ) -> anyhow::Result<Option<(u64, Vec<T>)>> {
        let ListRequest { process, parent, after, .. } = *request;
        let escape =
            Escape { list: request.list(), process, parent: parent.into(), after: after.0 };
        match self.escape(&escape) {
            Ok(page) => {
                let objects = serde_json::from_slice(&page.objects);
                let objects = objects.context("the device lists what this program cannot read")?;
                Ok(Some((page.next, objects)))
            }
            Err(Error::Refused { status: Status::INVALID_HANDLE, .. }) => Ok(None),
            Err(Error::Refused { status: Status::INVALID_DEVICE_REQUEST, .. }) => {
                anyhow::bail!(
                    "the device lists no objects: its daemon is older than this program; run the \
                     bellhopd that came with it"
                )
            }
            Err(error) => Err(error).context("the device does not list its objects"),
        }
    }
}

/// All of a list.
fn all<T: DeserializeOwned>(
    source: &mut impl Source,
    list: ObjectList,
    (guest, process, parent): (u64, u32, Name),
) -> anyhow::Result<Vec<T>> {
    let mut all = Vec::new();
    let mut after = Name(0);
    loop {
        let (version, list) = (SNAPSHOT_VERSION, list.0);
        let request = ListRequest { version, list, guest, process, parent, after };
        // It may have gone since it was listed.
        let Some((next, objects)) = source.list(&request)? else { return Ok(all) };
        all.extend(objects);
        // Objects are listed in order, so that this ends.
        if next <= after.0 {
            return Ok(all);
        }
        after = Name(next);
    }
}

/// Everything that the source shows, or of the guests only this one. Objects come and go
/// meanwhile.
///
/// # Errors
/// When the lists cannot be had, or there is no such guest.
pub fn snapshot(source: &mut impl Source, only: Option<u64>) -> anyhow::Result<Snapshot> {
    let nobody = (0, 0, Name(0));
    let adapter = all(source, ObjectList::ADAPTER, nobody)?;
    let adapter = adapter.into_iter().next().context("the device describes no adapter")?;
    let nodes = all(source, ObjectList::NODES, nobody)?;
    let mut guests: Vec<snapshot::Guest> = all(source, ObjectList::GUESTS, nobody)?;
    if let Some(id) = only {
        guests.retain(|guest| guest.id == id);
        anyhow::ensure!(!guests.is_empty(), "there is no guest {id}; leave --guest out to see all");
    }
    for guest in &mut guests {
        let of_guest = (guest.id, 0, Name(0));
        guest.processes = all(source, ObjectList::PROCESSES, of_guest)?;
        for process in &mut guest.processes {
            let of_process = (guest.id, process.id, Name(0));
            process.devices = all(source, ObjectList::DEVICES, of_process)?;
            for device in &mut process.devices {
                fill(source, (guest.id, process.id, device.handle), device)?;
            }
        }
        sum_up_memory(guest);
    }
    let mut snapshot = Snapshot { version: SNAPSHOT_VERSION, adapter, nodes, guests };
    fill_run_lists(&mut snapshot);
    Ok(snapshot)
}

fn fill(
    source: &mut impl Source,
    of_device: (u64, u32, Name),
    device: &mut Device,
) -> anyhow::Result<()> {
    device.contexts = all(source, ObjectList::CONTEXTS, of_device)?;
    for context in &mut device.contexts {
        let of_context = (of_device.0, of_device.1, context.handle);
        context.hw_queues = all(source, ObjectList::HW_QUEUES, of_context)?;
    }
    device.allocations = all(source, ObjectList::ALLOCATIONS, of_device)?;
    device.fences = all(source, ObjectList::FENCES, of_device)?;
    Ok(())
}

/// Counts allocations by segment. How much of a segment is used the kernel knows where it gives the
/// segment out; where it does not, as of system memory, that is what the allocations take.
fn sum_up_memory(guest: &mut snapshot::Guest) {
    let devices = guest.processes.iter().flat_map(|process| &process.devices);
    for allocation in devices.flat_map(|device| &device.allocations) {
        let name = &allocation.segment;
        let index = guest.memory.iter().position(|segment| segment.segment == *name);
        let index = index.unwrap_or_else(|| {
            let segment = SegmentUse { segment: name.clone(), ..SegmentUse::default() };
            guest.memory.push(segment);
            guest.memory.len() - 1
        });
        let Some(segment) = guest.memory.get_mut(index) else { continue };
        segment.allocations += 1;
        if segment.size.is_none() {
            segment.used = segment.used.saturating_add(allocation.size);
        }
    }
}

fn fill_run_lists(snapshot: &mut Snapshot) {
    let Snapshot { nodes, guests, .. } = snapshot;
    for guest in guests {
        for process in &guest.processes {
            for context in process.devices.iter().flat_map(|device| &device.contexts) {
                let listed = context.hw_queues.iter().filter(|queue| queue.state == "listed");
                let Some(node) = nodes.iter_mut().find(|node| node.ordinal == context.node) else {
                    continue;
                };
                node.run_list.extend(listed.map(|queue| Listed {
                    guest: guest.id,
                    process: process.id,
                    context: context.handle,
                    hw_queue: queue.handle,
                    queued: queue.queued,
                    completed: queue.completed,
                }));
            }
        }
    }
}

/// How objects are shown.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct ViewArguments {
    /// Print one JSON object: see docs/inspect.md
    #[arg(long)]
    json: bool,
    /// Print it again every second, or every so many, until interrupted
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true,
          default_missing_value = "1")]
    watch: Option<NonZeroU32>,
}

/// Clears a terminal and goes to its first line.
const CLEAR: &str = "\x1b[H\x1b[2J\x1b[3J";

/// Shows what there is, once or again and again.
///
/// # Errors
/// When it cannot be had. Not when nobody reads on.
pub fn show(
    source: &mut impl Source,
    only: Option<u64>,
    arguments: &ViewArguments,
) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    let is_terminal = out.is_terminal();
    loop {
        let snapshot = snapshot(source, only)?;
        let text = match arguments.json {
            true => serde_json::to_string(&snapshot)? + "\n",
            false => {
                let clear = is_terminal && arguments.watch.is_some();
                let colour = is_terminal && std::env::var_os("NO_COLOR").is_none();
                String::from(if clear { CLEAR } else { "" }) + &render(&snapshot, colour)
            }
        };
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        match (written, arguments.watch) {
            (Err(error), _) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
            (Err(error), _) => return Err(error).context("cannot print what there is"),
            (Ok(()), None) => return Ok(()),
            (Ok(()), Some(seconds)) => thread::sleep(Duration::from_secs(seconds.get().into())),
        }
    }
}
