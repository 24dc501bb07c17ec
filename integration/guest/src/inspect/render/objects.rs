// SPDX-License-Identifier: MIT OR Apache-2.0

//! A process's objects.

use super::cells::{progress, state};
use crate::inspect::tree::{Branch, Cell, Tone};
use crate::units::{bytes, counted, grouped};
use bellhop_protocol::snapshot::{
    Allocation, Context, Device, Doorbell, Fence, HwQueue, Kernel, Name, Node, Process, Program,
};

pub(super) fn process(process: &Process, nodes: &[Node]) -> Branch {
    let id = process.id.to_string().into();
    let program = process.program.as_ref().map(|Program { user, pid, command }| {
        Cell::from(format!("{command} (process {pid} of user {user})"))
    });
    // Those of a daemon that is older have none.
    let weight = (process.weight > 0).then(|| Cell::from(format!("weight {}", process.weight)));
    let mappings = counted(process.mappings, "GPU mapping").into();
    let head = [id].into_iter().chain(program).chain(weight).chain([mappings]).collect();
    Branch::new("process", head)
        .with(process.kernels.iter().map(kernel))
        .with(process.devices.iter().map(|device| self::device(device, nodes)))
}

pub(super) fn kernel(kernel: &Kernel) -> Branch {
    let Kernel { number, entry_point, state: compiled, spirv } = kernel;
    Branch::new(
        "kernel",
        vec![
            Cell::right(number.to_string()),
            entry_point.as_str().into(),
            state(compiled),
            format!("from {}", bytes(*spirv)).into(),
        ],
    )
}

/// An object's handle, and what its process calls it: what could do something to a terminal is written out.
fn called(handle: Name, name: Option<&str>) -> Cell {
    match name {
        Some(name) => format!("{handle} {name:?}").into(),
        None => handle.to_string().into(),
    }
}

pub(super) fn device(device: &Device, nodes: &[Node]) -> Branch {
    let mut head = vec![called(device.handle, device.name.as_deref())];
    head.extend(device.in_error.then(|| state("in error")));
    Branch::new("device", head)
        .with(device.contexts.iter().map(|context| self::context(context, nodes)))
        .with(device.allocations.iter().map(allocation))
        .with(device.fences.iter().map(fence))
}

pub(super) fn context(context: &Context, nodes: &[Node]) -> Branch {
    let node = nodes.iter().find(|node| node.ordinal == context.node);
    let node = node.map_or("unknown", |node| node.name.as_str());
    let node = match context.gpu {
        0 => node.to_owned(),
        gpu => format!("{node} of GPU {gpu}"),
    };
    let by = match context.suspended_by.as_slice() {
        [] => String::new(),
        by => format!("by {}", by.join(", ")),
    };
    let model = context.model.as_deref();
    let head = vec![
        called(context.handle, context.name.as_deref()),
        format!("node {} ({node})", context.node).into(),
        format!("priority {}", context.priority).into(),
        state(&context.state),
        model.map_or_else(String::new, |model| format!("{model} model")).into(),
        by.into(),
    ];
    Branch::new("context", head).with(context.hw_queues.iter().map(hw_queue))
}

pub(super) fn hw_queue(queue: &HwQueue) -> Branch {
    let head = vec![
        called(queue.handle, queue.name.as_deref()),
        queue.submission.as_str().into(),
        state(&queue.state),
        progress(queue.completed, queue.queued),
        logged(queue.logged, queue.log_entries_lost).into(),
    ];
    Branch::new("hw queue", head).with(queue.doorbell.iter().map(doorbell))
}

/// The entries of the queue's logs that were read and lost.
pub(super) fn logged(read: u64, lost: u64) -> String {
    match (read, lost) {
        (0, 0) => String::new(),
        (read, 0) => format!("{} logged", grouped(read)),
        (read, lost) => format!("{} logged, {} lost", grouped(read), grouped(lost)),
    }
}

pub(super) fn doorbell(doorbell: &Doorbell) -> Branch {
    let physical = doorbell.physical.map(|physical| format!("physical doorbell {physical}"));
    Branch::new(
        "doorbell",
        vec![
            doorbell.handle.to_string().into(),
            state(&doorbell.state),
            doorbell.status.as_str().into(),
            physical.unwrap_or_else(|| "no physical doorbell".into()).into(),
            format!("ring of {}", bytes(doorbell.ring_size)).into(),
        ],
    )
}

pub(super) fn allocation(allocation: &Allocation) -> Branch {
    let residency = if allocation.resident {
        Cell::from("resident")
    } else {
        Cell::new("evicted", Tone::Waiting)
    };
    let used = match (allocation.doorbells, allocation.processes) {
        (0, 0) => String::new(),
        (0, processes) => format!("shared, {}", counted(processes, "handle")),
        (count, _) => format!("ring of {}", counted(count.into(), "doorbell")),
    };
    Branch::new(
        "allocation",
        vec![
            called(allocation.handle, allocation.name.as_deref()),
            Cell::right(bytes(allocation.size)),
            allocation.segment.as_str().into(),
            residency,
            counted(allocation.extents, "extent").into(),
            counted(allocation.mappings, "mapping").into(),
            used.into(),
        ],
    )
}

pub(super) fn fence(fence: &Fence) -> Branch {
    let monitored = match fence.monitored {
        Some(value) => Cell::new(
            format!("interrupts above {value}, {}", counted(fence.waits, "wait")),
            Tone::Waiting,
        ),
        None => "".into(),
    };
    Branch::new(
        "fence",
        vec![
            called(fence.handle, fence.name.as_deref()),
            Cell::right(fence.value.to_string()),
            monitored,
        ],
    )
}
