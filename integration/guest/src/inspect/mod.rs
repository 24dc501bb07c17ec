// SPDX-License-Identifier: MIT OR Apache-2.0

//! The objects of guests, collected from lists and shown.

mod rates;
mod render;
mod tree;

use crate::output::{put, put_line};
use anyhow::Context;
use bellhop_guest_umd::{Adapter, Error};
use bellhop_protocol::control::escape::{Escape, ObjectList};
use bellhop_protocol::snapshot::{
    self, Device, ListRequest, Listed, Name, SNAPSHOT_VERSION, SegmentUse, Snapshot,
};
use bellhop_protocol::status::Status;
use clap::Args;
pub use rates::Rate;
use rates::rates;
pub use render::render;
use serde::de::DeserializeOwned;
use std::io::IsTerminal;
use std::num::NonZeroU32;
use std::thread;
use std::time::{Duration, Instant};

/// A source of lists.
pub trait Source {
    /// A page of a list, and what to ask for next; `None` when the list's owner does not exist.
    ///
    /// # Errors
    /// When the list cannot be read; the error says what to do.
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
                let objects = objects.context("cannot parse the device's list of objects")?;
                Ok(Some((page.next, objects)))
            }
            Err(Error::Refused { status: Status::INVALID_HANDLE, .. }) => Ok(None),
            Err(Error::Refused { status: Status::INVALID_DEVICE_REQUEST, .. }) => {
                anyhow::bail!(
                    "the device lists no objects: its daemon is older than this program; run the \
                     bellhopd that came with it"
                )
            }
            Err(error) => Err(error).context("cannot list the device's objects"),
        }
    }
}

/// All of a list.
fn all<T: DeserializeOwned>(
    source: &mut impl Source,
    list: ObjectList,
    (adapter, guest, process, parent): (u32, u64, u32, Name),
) -> anyhow::Result<Vec<T>> {
    let mut all = Vec::new();
    let mut after = Name(0);
    loop {
        let (version, list) = (SNAPSHOT_VERSION, list.0);
        let request = ListRequest { version, list, adapter, guest, process, parent, after };
        // The object may be gone since it was listed.
        let Some((next, objects)) = source.list(&request)? else { return Ok(all) };
        all.extend(objects);
        // Objects are listed in order, so this ends.
        if next <= after.0 {
            return Ok(all);
        }
        after = Name(next);
    }
}

/// Selects what snapshots show; by default, everything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Args)]
#[group(skip)]
pub struct Selection {
    /// Only this adapter, by its number
    #[arg(long, value_name = "NUMBER")]
    pub adapter: Option<u32>,
    /// Only this guest, by its id
    #[arg(long, value_name = "ID")]
    pub guest: Option<u64>,
}

/// The snapshots of the selected adapters and guests, one for each adapter. Objects may come and go
/// meanwhile.
///
/// # Errors
/// When a list cannot be read, or there is no such adapter or guest.
pub fn snapshots(source: &mut impl Source, only: Selection) -> anyhow::Result<Vec<Snapshot>> {
    let mut adapters: Vec<snapshot::Adapter> =
        all(source, ObjectList::ADAPTER, (0, 0, 0, Name(0)))?;
    if let Some(number) = only.adapter {
        adapters.retain(|adapter| adapter.ordinal == number);
        let advice = "leave --adapter out to see every adapter";
        anyhow::ensure!(!adapters.is_empty(), "there is no adapter {number}; {advice}");
    }
    let mut snapshots = Vec::new();
    for adapter in adapters {
        snapshots.push(snapshot_of(source, adapter, only.guest)?);
    }
    if let Some(id) = only.guest {
        snapshots.retain(|snapshot| !snapshot.guests.is_empty());
        let advice = "leave --guest out to see every guest";
        anyhow::ensure!(!snapshots.is_empty(), "there is no guest {id}; {advice}");
    }
    Ok(snapshots)
}

/// The snapshot of the source's first adapter. A guest has no other.
///
/// # Errors
/// When a list cannot be read.
pub fn snapshot(source: &mut impl Source) -> anyhow::Result<Snapshot> {
    let first = Selection { adapter: Some(0), guest: None };
    let snapshots = snapshots(source, first)?;
    snapshots.into_iter().next().context("the device describes no adapter")
}

fn snapshot_of(
    source: &mut impl Source,
    adapter: snapshot::Adapter,
    only: Option<u64>,
) -> anyhow::Result<Snapshot> {
    let ordinal = adapter.ordinal;
    let nodes = all(source, ObjectList::NODES, (ordinal, 0, 0, Name(0)))?;
    let mut workers: Vec<snapshot::Worker> =
        all(source, ObjectList::WORKERS, (ordinal, 0, 0, Name(0)))?;
    workers.retain(|worker| only.is_none() || worker.guest == only);
    let mut guests: Vec<snapshot::Guest> =
        all(source, ObjectList::GUESTS, (ordinal, 0, 0, Name(0)))?;
    guests.retain(|guest| only.is_none_or(|id| guest.id == id));
    for guest in &mut guests {
        let of_guest = (ordinal, guest.id, 0, Name(0));
        guest.displays = all(source, ObjectList::DISPLAYS, of_guest)?;
        guest.processes = all(source, ObjectList::PROCESSES, of_guest)?;
        for process in &mut guest.processes {
            let of_process = (ordinal, guest.id, process.id, Name(0));
            process.devices = all(source, ObjectList::DEVICES, of_process)?;
            process.kernels = all(source, ObjectList::KERNELS, of_process)?;
            for device in &mut process.devices {
                fill(source, (ordinal, guest.id, process.id, device.handle), device)?;
            }
        }
        sum_up_memory(guest);
    }
    let mut snapshot = Snapshot { version: SNAPSHOT_VERSION, adapter, nodes, workers, guests };
    fill_run_lists(&mut snapshot);
    Ok(snapshot)
}

fn fill(
    source: &mut impl Source,
    of_device: (u32, u64, u32, Name),
    device: &mut Device,
) -> anyhow::Result<()> {
    device.contexts = all(source, ObjectList::CONTEXTS, of_device)?;
    for context in &mut device.contexts {
        let (adapter, guest, process, _) = of_device;
        let of_context = (adapter, guest, process, context.handle);
        context.hw_queues = all(source, ObjectList::HW_QUEUES, of_context)?;
    }
    device.allocations = all(source, ObjectList::ALLOCATIONS, of_device)?;
    device.fences = all(source, ObjectList::FENCES, of_device)?;
    Ok(())
}

/// Sums allocations by segment. The kernel knows the use of a segment that it gives out; for others, such as
/// system memory, the sum of the allocations counts.
fn sum_up_memory(guest: &mut snapshot::Guest) {
    let devices = guest.processes.iter().flat_map(|process| &process.devices);
    for allocation in devices.flat_map(|device| &device.allocations) {
        let (name, gpu) = (&allocation.segment, allocation.gpu);
        let is_it = |segment: &SegmentUse| segment.segment == *name && segment.gpu == gpu;
        let index = guest.memory.iter().position(is_it);
        let index = index.unwrap_or_else(|| {
            let segment = SegmentUse { segment: name.clone(), gpu, ..SegmentUse::default() };
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
                    busy_time: queue.busy_time,
                }));
            }
        }
    }
}

/// How objects are shown.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct ViewArguments {
    /// Print one JSON object for each adapter: see docs/inspect.md
    #[arg(long)]
    json: bool,
    /// Print again every second, or every SECONDS, until interrupted
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true,
          default_missing_value = "1")]
    watch: Option<NonZeroU32>,
}

/// Clears a terminal and goes to its first line.
const CLEAR: &str = "\x1b[H\x1b[2J\x1b[3J";

/// Rows of a terminal that does not report its size.
const ROWS: usize = 24;

/// Rows of the terminal.
fn rows() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    size.map_or(ROWS, |size| size.ws_row.into())
}

/// The first lines of a text that fit into the rows. The last row says how many more lines there are.
fn first_rows(text: &str, rows: usize) -> String {
    let lines = text.lines().count();
    // The cursor needs a row beneath the last line.
    let room = rows.saturating_sub(1);
    if lines <= room {
        return text.to_owned();
    }
    let shown = room.saturating_sub(1);
    let first: String = text.split_inclusive('\n').take(shown).collect();
    format!("{first}... and {} more lines; run without --watch to see all\n", lines - shown)
}

/// Shows the snapshots, once or repeatedly. Repeated snapshots have rates, and a terminal shows as much as fits.
///
/// # Errors
/// When the lists cannot be read, or the text cannot be written.
pub fn show(
    source: &mut impl Source,
    only: Selection,
    arguments: &ViewArguments,
) -> anyhow::Result<()> {
    let is_terminal = std::io::stdout().is_terminal();
    let colour = is_terminal && std::env::var_os("NO_COLOR").is_none();
    let mut before: Option<(Vec<Snapshot>, Instant)> = None;
    loop {
        let (snapshots, now) = (snapshots(source, only)?, Instant::now());
        if arguments.json {
            for snapshot in &snapshots {
                put_line(serde_json::to_string(snapshot)?)?;
            }
        } else {
            let rates = |snapshot: &Snapshot| {
                let (earlier, then) = before.as_ref()?;
                let ordinal = snapshot.adapter.ordinal;
                let same = earlier.iter().find(|earlier| earlier.adapter.ordinal == ordinal)?;
                Some(rates(same, snapshot, now - *then))
            };
            let show = |snapshot| render(snapshot, &rates(snapshot).unwrap_or_default(), colour);
            let text = snapshots.iter().map(show).collect::<Vec<_>>().join("\n");
            if is_terminal && arguments.watch.is_some() {
                put(format_args!("{CLEAR}{}", first_rows(&text, rows())))?
            } else {
                put(text)?
            }
        }
        let Some(seconds) = arguments.watch else { return Ok(()) };
        before = Some((snapshots, now));
        thread::sleep(Duration::from_secs(seconds.get().into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_longer_than_the_terminal_keeps_its_beginning() {
        let text = "adapter\npower\nnode 0\nnode 1\nguest\n";
        assert_eq!(first_rows(text, 6), text);
        let shown =
            "adapter\npower\nnode 0\n... and 2 more lines; run without --watch to see all\n";
        assert_eq!(first_rows(text, 5), shown);
        assert_eq!(first_rows(text, 0).lines().count(), 1);
    }
}
