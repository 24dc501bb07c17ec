// SPDX-License-Identifier: MIT OR Apache-2.0

//! A snapshot as text.

mod cells;
mod display;
mod guest;
mod objects;
#[cfg(test)]
mod tests;

use crate::inspect::rates::Rate;
use crate::inspect::tree::{Branch, Cell, Tone, put_table};
use crate::units::{self, bytes};
use bellhop_protocol::snapshot::{Adapter, Cgroups, Node, Snapshot, Worker};
use cells::{change, name, progress, state, times, tone};

/// The adapter, its engines, and each guest's objects as a tree.
#[must_use]
pub fn render(snapshot: &Snapshot, rates: &[Rate], colour: bool) -> String {
    let mut out = String::new();
    put_table(&mut out, &adapter(&snapshot.adapter), colour);
    for of in &snapshot.adapter.changes {
        change(of, snapshot.adapter.time).put(&mut out, colour);
    }
    out.push('\n');
    put_table(&mut out, &nodes(&snapshot.nodes), colour);
    if !snapshot.workers.is_empty() {
        out.push('\n');
        put_table(&mut out, &workers(&snapshot.workers), colour);
    }
    if !rates.is_empty() {
        out.push('\n');
        put_table(&mut out, &self::rates(rates), colour);
    }
    if snapshot.guests.is_empty() {
        out.push_str("\nno guest is attached\n");
    }
    for node in &snapshot.nodes {
        if !node.run_list.is_empty() {
            out.push('\n');
            run_list(node).put(&mut out, colour);
        }
    }
    for guest in &snapshot.guests {
        out.push('\n');
        guest::guest(guest, snapshot).put(&mut out, colour);
    }
    out
}

fn adapter(adapter: &Adapter) -> Vec<Vec<Cell>> {
    let Adapter { protocol, doorbell_model, power, power_transitions, .. } = adapter;
    let doorbells = match doorbell_model.as_str() {
        "global" => "global, one for each guest".to_owned(),
        model => match (adapter.physical_doorbells_used, adapter.physical_doorbells) {
            (Some(used), all) => format!("{model}, {used} of {all} physical ones in use"),
            (None, all) => format!("{model}, {all} physical ones that all guests share"),
        },
    };
    let which = match (adapter.ordinal, adapter.name.as_str()) {
        (0, "") => String::new(),
        (ordinal, name) => format!("{ordinal}, {name}: "),
    };
    let in_d3 = times(*power_transitions, "in D3");
    let power_cell = Cell::new(format!("{power}, {in_d3}"), tone(power));
    let mut rows = vec![
        vec![name("adapter"), format!("{which}Bellhop GPU, protocol {protocol}").into()],
        vec![name("power"), power_cell],
    ];
    rows.extend(adapter.gpus.iter().map(|gpu| {
        let in_d3 = times(gpu.power_transitions, "in D3");
        let seconds = gpu.powered_time as f64 / 1e9;
        let policy = if gpu.when_needed { ", when needed" } else { "" };
        let power = format!("{}, {in_d3}, {seconds:.1} s in D0{policy}", gpu.power);
        vec![name(&format!("gpu {}", gpu.ordinal)), Cell::new(power, tone(&gpu.power))]
    }));
    rows.push(vec![name("doorbells"), doorbells.into()]);
    rows.extend(adapter.cgroups.as_ref().map(|all| vec![name("cgroups"), cgroups(all).into()]));
    rows
}

/// Whether guests' workers have cgroups, in words.
fn cgroups(Cgroups { controllers, missing }: &Cgroups) -> String {
    match (controllers.as_slice(), missing) {
        ([], Some(why)) => format!("none: {why}"),
        ([], None) => "none".into(),
        (all, _) => format!("one for each guest's workers: {}", all.join(", ")),
    }
}

fn nodes(nodes: &[Node]) -> Vec<Vec<Cell>> {
    let mut header = ["node", "name", "type", "power", "to F1", "queues listed"].map(name).to_vec();
    let is_pinned = nodes.iter().any(|node| node.processor.is_some());
    header.extend(is_pinned.then(|| name("processor")));
    let is_chain = nodes.iter().any(|node| node.gpu > 0);
    header.extend(is_chain.then(|| name("GPU")));
    let rows = nodes.iter().map(|node| {
        let mut row = vec![
            Cell::right(node.ordinal.to_string()),
            node.name.as_str().into(),
            node.engine_type.as_str().into(),
            state(&node.power),
            Cell::right(node.power_transitions.to_string()),
            Cell::right(node.run_list.len().to_string()),
        ];
        let processor = node.processor.map(|processor| processor.to_string());
        row.extend(is_pinned.then(|| Cell::right(processor.unwrap_or_default())));
        row.extend(is_chain.then(|| Cell::right(node.gpu.to_string())));
        row
    });
    std::iter::once(header).chain(rows).collect()
}

/// The processes that work for engines.
fn workers(workers: &[Worker]) -> Vec<Vec<Cell>> {
    let header = ["worker", "role", "state", "guest", "process", "node", "memory", "shared"];
    let number = |number: Option<u64>| {
        Cell::right(number.map_or_else(String::new, |number| number.to_string()))
    };
    let memory = |size: Option<u64>| Cell::right(size.map_or_else(String::new, bytes));
    let rows = workers.iter().map(|worker| {
        vec![
            number(worker.pid.map(u64::from)),
            Cell::new(&worker.role, Tone::Plain),
            state(&worker.state),
            number(worker.guest),
            number(worker.process.map(u64::from)),
            number(worker.node.map(u64::from)),
            memory(worker.memory),
            memory(worker.shared),
        ]
    });
    std::iter::once(header.map(name).to_vec()).chain(rows).collect()
}

/// The rates of guests' activity.
fn rates(rates: &[Rate]) -> Vec<Vec<Cell>> {
    let header = ["guest", "packets", "bytes", "rings", "requests", "notifies", "engines"];
    let rows = rates.iter().map(|rate| {
        let mut row =
            vec![Cell::right(rate.guest.to_string()), Cell::right(units::rate(rate.packets))];
        row.push(Cell::right(units::byte_rate(rate.bytes)));
        let others = [rate.rings, rate.requests, rate.notifies].map(units::rate);
        row.extend(others.map(Cell::right));
        row.push(Cell::right(format!("{:.0} %", 100.0 * rate.engines)));
        row
    });
    std::iter::once(header.map(name).to_vec()).chain(rows).collect()
}

fn run_list(node: &Node) -> Branch {
    let entries = node.run_list.iter().map(|entry| {
        Branch::new(
            "hw queue",
            vec![
                entry.hw_queue.to_string().into(),
                format!("guest {}", entry.guest).into(),
                format!("process {}", entry.process).into(),
                format!("context {}", entry.context).into(),
                progress(entry.completed, entry.queued),
            ],
        )
    });
    Branch::new("run list", vec![format!("of node {} ({})", node.ordinal, node.name).into()])
        .with(entries)
}
