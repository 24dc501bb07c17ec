// SPDX-License-Identifier: MIT OR Apache-2.0

//! A guest: its front end, quotas, memory and agent.

use super::cells::{change, state};
use super::display::display;
use super::objects::process;
use crate::inspect::tree::{Branch, Cell, Tone};
use crate::units::{bytes, counted, grouped};
use bellhop_protocol::snapshot::{Agent, Cgroup, Counts, Guest, Quota, SegmentUse, Snapshot};

pub(super) fn guest(guest: &Guest, snapshot: &Snapshot) -> Branch {
    let (nodes, now) = (&snapshot.nodes, snapshot.adapter.time);
    let bar = if guest.bar_mapped { "BAR mapped" } else { "no BAR" };
    let weight = format!("weight {}", guest.weight);
    let mut head =
        vec![guest.id.to_string().into(), state(&guest.state), bar.into(), weight.into()];
    head.extend(guest.suspended.then(|| Cell::new("SUSPENDED".to_owned(), Tone::Bad)));
    let has_gpu = ["", "started"].contains(&guest.gpu.as_str());
    head.extend((!has_gpu).then(|| Cell::new(format!("GPU {}", guest.gpu), Tone::Bad)));
    let gone = guest.gpus_removed.iter();
    head.extend(gone.map(|gpu| Cell::new(format!("GPU {gpu} removed"), Tone::Bad)));
    Branch::new("guest", head)
        .with(front_end(guest))
        .with(guest.cgroups.iter().map(cgroup))
        .with(guest.changes.iter().map(|of| change(of, now)))
        .with(agent(&guest.agent))
        .with((!guest.features.is_empty()).then(|| {
            Branch::new("features", guest.features.split(" | ").map(Cell::from).collect())
        }))
        .with([counts(&guest.statistics)])
        .with([Branch::new("memory", Vec::new()).with(guest.memory.iter().map(segment))])
        .with([Branch::new("quotas", Vec::new()).with(guest.quotas.iter().map(quota))])
        .with(guest.displays.iter().map(display))
        .with(guest.processes.iter().map(|process| self::process(process, nodes)))
}

/// The guest's agent, where there is one or was asked for.
pub(super) fn agent(agent: &Agent) -> Option<Branch> {
    let Agent { process, power_policy, pending, asked, answered, refused } = agent;
    if process.is_none() && asked | refused == 0 {
        return None;
    }
    let process = process.map_or("none".to_owned(), |process| format!("process {process}"));
    let cells = [
        process,
        format!("power policy {power_policy}"),
        format!("{answered} of {asked} answered, {pending} pending"),
        format!("{refused} refused"),
    ];
    Some(Branch::new("agent", cells.map(Cell::from).into()))
}

/// The program that connected the guest, if it is known.
pub(super) fn front_end(guest: &Guest) -> Option<Branch> {
    let connection = guest.connection.map_or_else(String::new, |number| format!("#{number}"));
    let socket = guest.socket.as_ref().map(|socket| format!("socket {socket}{connection}"));
    let process = guest.pid.map(|pid| match &guest.command {
        Some(command) => format!("{command} (PID {pid})"),
        None => format!("PID {pid}"),
    });
    let cells: Vec<_> = process.into_iter().chain(socket).map(Cell::from).collect();
    (!cells.is_empty()).then(|| Branch::new("front end", cells))
}

/// The cgroup of its workers.
pub(super) fn cgroup(group: &Cgroup) -> Branch {
    let of = |used: Option<u64>, limit: Option<u64>, text: fn(u64) -> String| {
        let limit = limit.map_or_else(String::new, |limit| format!(" of {}", text(limit)));
        used.map(|used| format!("{}{limit}", text(used)))
    };
    let memory = of(group.memory, group.memory_limit, bytes);
    let threads = of(group.threads, group.threads_limit, grouped);
    let cells = [
        Some(group.path.clone()),
        memory,
        threads.map(|threads| format!("{threads} threads")),
        group.weight.map(|weight| format!("weight {weight}")),
    ];
    let mut cells: Vec<_> = cells.into_iter().flatten().map(Cell::from).collect();
    let killed = group.killed.filter(|killed| *killed > 0);
    cells.extend(killed.map(|killed| Cell::new(format!("{killed} KILLED"), Tone::Bad)));
    Branch::new("cgroup", cells)
}

pub(super) fn counts(counts: &Counts) -> Branch {
    let Counts { packets, bytes, doorbells, interrupts, .. } = *counts;
    let Counts { control_messages, notifies, victims, engine_time, .. } = *counts;
    let counted = [
        (packets, "packets"),
        (bytes, "bytes"),
        (doorbells, "rings"),
        (interrupts, "interrupts"),
        (control_messages, "requests"),
        (notifies, "notifies"),
        (victims, "victims"),
        (engine_time / 1_000_000, "ms of engines"),
    ];
    let text = counted.map(|(count, what)| format!("{} {what}", grouped(count)).into());
    Branch::new("counted", text.into())
}

pub(super) fn segment(segment: &SegmentUse) -> Branch {
    let SegmentUse { segment, gpu, size, used, allocations } = segment;
    let segment = match gpu {
        Some(gpu) => format!("{segment} of GPU {gpu}"),
        None => segment.clone(),
    };
    let of = size.map_or_else(String::new, |size| format!("of {}", bytes(size)));
    Branch::new(
        "segment",
        vec![
            segment.into(),
            Cell::right(bytes(*used)),
            of.into(),
            counted(*allocations, "allocation").into(),
        ],
    )
}

pub(super) fn quota(quota: &Quota) -> Branch {
    let limit = format!("of {}", grouped(quota.limit));
    Branch::new(
        "quota",
        vec![quota.what.as_str().into(), Cell::right(grouped(quota.used)), limit.into()],
    )
}
