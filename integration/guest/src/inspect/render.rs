// SPDX-License-Identifier: MIT OR Apache-2.0

//! A snapshot as text.

use super::rates::Rate;
use super::tree::{Branch, Cell, Tone, put_table};
use crate::units::{self, bytes, counted, grouped};
use bellhop_protocol::snapshot::{
    Adapter, Agent, Allocation, Change, Context, Counts, Device, Display, DisplayPath, Doorbell,
    Fence, Guest, HwQueue, Kernel, Node, Process, Quota, SegmentUse, Snapshot, Worker,
};
use std::time::Duration;

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
        self::guest(guest, snapshot).put(&mut out, colour);
    }
    out
}

fn name(text: &str) -> Cell {
    Cell::new(text, Tone::Name)
}

/// A state, in the colour of its meaning.
fn state(text: &str) -> Cell {
    Cell::new(text, tone(text))
}

fn tone(state: &str) -> Tone {
    match state {
        "running" | "listed" | "connected" | "open" | "compiled" | "plugged" | "D0" | "F0" => {
            Tone::Good
        }
        "lost" | "error" | "aborted" | "in error" => Tone::Bad,
        _ => Tone::Waiting,
    }
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
    rows
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

/// The progress of a queue.
fn progress(completed: u64, queued: u64) -> Cell {
    if completed >= queued {
        Cell::new(format!("idle at {completed}"), Tone::Plain)
    } else {
        Cell::new(format!("{completed} of {queued}"), Tone::Waiting)
    }
}

fn guest(guest: &Guest, snapshot: &Snapshot) -> Branch {
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
        .with(guest.changes.iter().map(|of| change(of, now)))
        .with(agent(&guest.agent))
        .with(
            (!guest.features.is_empty())
                .then(|| Branch::new("features", vec![guest.features.as_str().into()])),
        )
        .with([counts(&guest.statistics)])
        .with([Branch::new("memory", Vec::new()).with(guest.memory.iter().map(segment))])
        .with([Branch::new("quotas", Vec::new()).with(guest.quotas.iter().map(quota))])
        .with(guest.displays.iter().map(display))
        .with(guest.processes.iter().map(|process| self::process(process, nodes)))
}

/// A connector, and the path to it.
fn display(display: &Display) -> Branch {
    let Display { connector, name, kind, plugged, plugs, viewers, resets, path } = display;
    let mut head = vec![connector.to_string().into()];
    head.extend(name.as_deref().map(Cell::from));
    head.push(kind.as_str().into());
    head.push(state(if *plugged { "plugged" } else { "unplugged" }));
    head.push(counted((*plugs).into(), "plug").into());
    head.extend(viewers.map(|viewers| Cell::from(counted(viewers, "viewer"))));
    head.extend((*resets > 0).then(|| Cell::new(times(*resets, "reset"), Tone::Bad)));
    let Some(path) = path else {
        head.push(Cell::new("shows nothing", Tone::Waiting));
        return Branch::new("display", head);
    };
    Branch::new("display", head).with([shown(path), flips(path)])
}

/// What a path shows, and how.
fn shown(path: &DisplayPath) -> Branch {
    let rate = f64::from(path.refresh_numerator) / f64::from(path.refresh_denominator.max(1));
    let turned = (path.rotation != 0).then(|| format!("turned by {} degrees", path.rotation));
    let scaled = Some(path.scaling.as_str()).filter(|scaling| *scaling != "identity");
    let lent = path.lent_to.map(|process| format!("lent to process {process}"));
    let mut cells = vec![
        format!("process {}", path.process).into(),
        format!("source {}", path.source).into(),
        format!("{}x{} {}", path.width, path.height, path.format).into(),
        format!("on {}x{} at {rate:.2} Hz", path.monitor_width, path.monitor_height).into(),
    ];
    cells.extend(scaled.map(Cell::from));
    cells.extend(turned.map(Cell::from));
    cells.extend((!path.visible).then(|| Cell::new("blanked", Tone::Waiting)));
    cells.extend(lent.map(Cell::from));
    Branch::new("path", cells)
}

fn flips(path: &DisplayPath) -> Branch {
    let now = match path.flip {
        0 => Cell::new("black", Tone::Waiting),
        flip => format!("flip {flip} is shown").into(),
    };
    let waiting = path.pending.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let waiting = (!waiting.is_empty()).then(|| format!("{waiting} waiting"));
    let bad = |count: u64, what: &str| {
        let tone = if count == 0 { Tone::Plain } else { Tone::Bad };
        Cell::new(format!("{} {what}", grouped(count)), tone)
    };
    let shown = format!("{} shown", grouped(path.shown));
    let dropped = format!("{} dropped", grouped(path.dropped));
    let missed = format!("{} missed", grouped(path.missed));
    let counts = vec![shown.into(), missed.into(), dropped.into(), bad(path.lost, "lost")];
    let waiting = waiting.map(|waiting| Cell::new(waiting, Tone::Waiting));
    Branch::new("flips", std::iter::once(now).chain(waiting).chain(counts).collect())
}

/// The guest's agent, where there is one or was asked for.
fn agent(agent: &Agent) -> Option<Branch> {
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

/// What the operator has changed, and how long ago: `now` is the adapter's time.
fn change(change: &Change, now: u64) -> Branch {
    let Change { what, now: value, uid, pid, command, time } = change;
    let ago = Duration::from_nanos(now.saturating_sub(*time));
    Branch::new(
        "operator",
        vec![
            format!("{what}: {value}").into(),
            format!("by uid {uid} ({command}, PID {pid})").into(),
            format!("{:.0} s ago", ago.as_secs_f64()).into(),
        ],
    )
}

/// The program that connected the guest, if it is known.
fn front_end(guest: &Guest) -> Option<Branch> {
    let socket = guest.socket.as_ref().map(|socket| format!("socket {socket}"));
    let process = guest.pid.map(|pid| match &guest.command {
        Some(command) => format!("{command} (PID {pid})"),
        None => format!("PID {pid}"),
    });
    let cells: Vec<_> = process.into_iter().chain(socket).map(Cell::from).collect();
    (!cells.is_empty()).then(|| Branch::new("front end", cells))
}

fn counts(counts: &Counts) -> Branch {
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

fn segment(segment: &SegmentUse) -> Branch {
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

fn quota(quota: &Quota) -> Branch {
    let limit = format!("of {}", grouped(quota.limit));
    Branch::new(
        "quota",
        vec![quota.what.as_str().into(), Cell::right(grouped(quota.used)), limit.into()],
    )
}

fn process(process: &Process, nodes: &[Node]) -> Branch {
    let head = vec![process.id.to_string().into(), counted(process.mappings, "GPU mapping").into()];
    Branch::new("process", head)
        .with(process.kernels.iter().map(kernel))
        .with(process.devices.iter().map(|device| self::device(device, nodes)))
}

fn kernel(kernel: &Kernel) -> Branch {
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

fn device(device: &Device, nodes: &[Node]) -> Branch {
    let mut head = vec![device.handle.to_string().into()];
    head.extend(device.in_error.then(|| state("in error")));
    Branch::new("device", head)
        .with(device.contexts.iter().map(|context| self::context(context, nodes)))
        .with(device.allocations.iter().map(allocation))
        .with(device.fences.iter().map(fence))
}

fn context(context: &Context, nodes: &[Node]) -> Branch {
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
        context.handle.to_string().into(),
        format!("node {} ({node})", context.node).into(),
        format!("priority {}", context.priority).into(),
        state(&context.state),
        model.map_or_else(String::new, |model| format!("{model} model")).into(),
        by.into(),
    ];
    Branch::new("context", head).with(context.hw_queues.iter().map(hw_queue))
}

fn hw_queue(queue: &HwQueue) -> Branch {
    let head = vec![
        queue.handle.to_string().into(),
        queue.submission.as_str().into(),
        state(&queue.state),
        progress(queue.completed, queue.queued),
        logged(queue.logged, queue.log_entries_lost).into(),
    ];
    Branch::new("hw queue", head).with(queue.doorbell.iter().map(doorbell))
}

/// The entries of the queue's logs that were read and lost.
fn logged(read: u64, lost: u64) -> String {
    match (read, lost) {
        (0, 0) => String::new(),
        (read, 0) => format!("{} logged", grouped(read)),
        (read, lost) => format!("{} logged, {} lost", grouped(read), grouped(lost)),
    }
}

fn doorbell(doorbell: &Doorbell) -> Branch {
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

fn allocation(allocation: &Allocation) -> Branch {
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
            allocation.handle.to_string().into(),
            Cell::right(bytes(allocation.size)),
            allocation.segment.as_str().into(),
            residency,
            counted(allocation.extents, "extent").into(),
            counted(allocation.mappings, "mapping").into(),
            used.into(),
        ],
    )
}

fn fence(fence: &Fence) -> Branch {
    let monitored = match fence.monitored {
        Some(value) => Cell::new(
            format!("interrupts above {value}, {}", counted(fence.waits, "wait")),
            Tone::Waiting,
        ),
        None => "".into(),
    };
    Branch::new(
        "fence",
        vec![fence.handle.to_string().into(), Cell::right(fence.value.to_string()), monitored],
    )
}

fn times(count: u64, what: &str) -> String {
    match count {
        0 => format!("never {what}"),
        1 => format!("once {what}"),
        count => format!("{} times {what}", grouped(count)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::WIDTH;
    use bellhop_protocol::snapshot::{Listed, Name, SNAPSHOT_VERSION};

    fn example() -> Snapshot {
        let queue = |handle, state: &str, doorbell| HwQueue {
            handle: Name(handle),
            submission: "user-mode".into(),
            state: state.into(),
            progress_fence: Name(1),
            queued: 12,
            completed: handle % 2 * 12,
            logged: handle % 2 * 1200,
            log_entries_lost: 0,
            busy_time: 0,
            doorbell,
        };
        let doorbell = |handle, state: &str, physical| Doorbell {
            handle: Name(handle),
            state: state.into(),
            status: "CONNECTED".into(),
            physical,
            ring_size: 65_536,
        };
        let contexts = vec![
            Context {
                handle: Name(0x1_0000_0002),
                state: "running".into(),
                hw_queues: vec![
                    queue(0x31, "listed", Some(doorbell(0x32, "connected", Some(3)))),
                    queue(0x1_0000_0034, "error", Some(doorbell(0x35, "aborted", None))),
                ],
                ..Context::default()
            },
            Context {
                handle: Name(0x40),
                state: "suspended".into(),
                suspended_by: vec!["owner".into(), "power".into()],
                ..Context::default()
            },
        ];
        let allocation = Allocation {
            handle: Name(0x50),
            size: 3 << 19,
            segment: "local".into(),
            gpu: None,
            resident: true,
            extents: 1,
            mappings: 2,
            doorbells: 1,
            processes: 0,
        };
        let fence = Fence {
            handle: Name(0x60),
            value: 7,
            monitored: Some(8),
            waits: 1,
            cross_adapter: false,
        };
        let device = Device {
            handle: Name(0x1_0000_0001),
            contexts,
            allocations: vec![allocation],
            fences: vec![fence],
            ..Device::default()
        };
        Snapshot {
            version: SNAPSHOT_VERSION,
            adapter: Adapter {
                ordinal: 0,
                name: String::new(),
                protocol: "4.0".into(),
                doorbell_model: "dedicated".into(),
                physical_doorbells: 64,
                physical_doorbells_used: Some(1),
                power: "D0".into(),
                power_transitions: 2,
                ..Adapter::default()
            },
            nodes: vec![Node {
                engine_type: "THREE_D".into(),
                name: "3D".into(),
                power: "F0".into(),
                power_transitions: 1,
                run_list: vec![Listed {
                    guest: 1,
                    process: 1,
                    context: Name(0x1_0000_0002),
                    hw_queue: Name(0x31),
                    queued: 12,
                    completed: 12,
                    ..Listed::default()
                }],
                ..Node::default()
            }],
            workers: vec![
                Worker {
                    pid: Some(4712),
                    role: "kernels".into(),
                    state: "spare".into(),
                    ..Worker::default()
                },
                Worker {
                    pid: Some(4713),
                    role: "kernels".into(),
                    state: "running".into(),
                    guest: Some(1),
                    process: Some(1),
                    node: Some(0),
                    memory: Some(52 << 20),
                    shared: Some(9 << 20),
                },
            ],
            guests: vec![Guest {
                id: 1,
                socket: Some("/run/vm0.sock".into()),
                pid: Some(4711),
                command: Some("qemu-system-x86".into()),
                state: "open".into(),
                bar_mapped: true,
                features: "USER_MODE_SUBMISSION".into(),
                weight: 100,
                statistics: Counts { packets: 1_234_567, ..Counts::default() },
                quotas: vec![Quota { what: "handles".into(), used: 9, limit: 65_536 }],
                memory: vec![SegmentUse {
                    segment: "local".into(),
                    gpu: None,
                    size: Some(64 << 20),
                    used: 3 << 19,
                    allocations: 1,
                }],
                displays: vec![
                    Display {
                        name: Some("left".into()),
                        kind: "hdmi".into(),
                        plugged: true,
                        plugs: 2,
                        viewers: Some(1),
                        path: Some(DisplayPath {
                            process: 1,
                            lent_to: Some(2),
                            width: 480,
                            height: 640,
                            format: "X8R8G8B8".into(),
                            monitor_width: 800,
                            monitor_height: 600,
                            refresh_numerator: 60_000,
                            refresh_denominator: 1001,
                            scaling: "centered".into(),
                            rotation: 90,
                            visible: true,
                            flip: 1200,
                            pending: vec![1201, 1202],
                            shown: 1199,
                            missed: 3,
                            lost: 1,
                            ..DisplayPath::default()
                        }),
                        ..Display::default()
                    },
                    Display {
                        connector: 1,
                        name: Some("projector".into()),
                        kind: "virtual".into(),
                        viewers: Some(0),
                        ..Display::default()
                    },
                ],
                processes: vec![Process {
                    id: 1,
                    mappings: 2,
                    devices: vec![device],
                    kernels: [("main", 7, "compiled"), ("blur", 12, "compiling")]
                        .map(|(entry_point, number, state)| Kernel {
                            number,
                            entry_point: entry_point.into(),
                            state: state.into(),
                            spirv: 1 << 10,
                        })
                        .into(),
                }],
                ..Guest::default()
            }],
        }
    }

    #[test]
    fn objects_are_a_tree_in_which_neighbours_share_columns() {
        let expected = "\
adapter    Bellhop GPU, protocol 4.0
power      D0, 2 times in D3
doorbells  dedicated, 1 of 64 physical ones in use

node  name  type     power  to F1  queues listed
   0  3D    THREE_D  F0         1              1

worker  role     state    guest  process  node  memory  shared
  4712  kernels  spare
  4713  kernels  running      1        1     0  52 MiB   9 MiB

run list  of node 0 (3D)
└─ hw queue  0x31  guest 1  process 1  context 0x100000002  idle at 12

guest  1  open  BAR mapped  weight 100
├─ front end  qemu-system-x86 (PID 4711)  socket /run/vm0.sock
├─ features  USER_MODE_SUBMISSION
├─ counted  1,234,567 packets  0 bytes  0 rings  0 interrupts  0 requests
│       0 notifies  0 victims  0 ms of engines
├─ memory
│  └─ segment  local  1.5 MiB  of 64 MiB  1 allocation
├─ quotas
│  └─ quota  handles  9  of 65,536
├─ display  0  left       hdmi     plugged    2 plugs  1 viewer
│  ├─ path  process 1  source 0  480x640 X8R8G8B8  on 800x600 at 59.94 Hz
│  │       centered  turned by 90 degrees  lent to process 2
│  └─ flips  flip 1200 is shown  1201, 1202 waiting  1,199 shown  3 missed
│          0 dropped  1 lost
├─ display  1  projector  virtual  unplugged  0 plugs  0 viewers  shows nothing
└─ process  1  2 GPU mappings
   ├─ kernel   7  main  compiled   from 1 KiB
   ├─ kernel  12  blur  compiling  from 1 KiB
   └─ device  0x100000001
      ├─ context  0x100000002  node 0 (3D)  priority 0  running
      │  ├─ hw queue  0x31         user-mode  listed  idle at 12  1,200 logged
      │  │  └─ doorbell  0x32  connected  CONNECTED  physical doorbell 3
      │  │          ring of 64 KiB
      │  └─ hw queue  0x100000034  user-mode  error   0 of 12
      │     └─ doorbell  0x35  aborted  CONNECTED  no physical doorbell
      │             ring of 64 KiB
      ├─ context  0x40         node 0 (3D)  priority 0  suspended
      │       by owner, power
      ├─ allocation  0x50  1.5 MiB  local  resident  1 extent  2 mappings
      │       ring of 1 doorbell
      └─ fence  0x60  7  interrupts above 8, 1 wait
";
        assert_eq!(render(&example(), &[], false), expected);
        assert!(expected.lines().all(|line| line.chars().count() <= WIDTH));
    }

    #[test]
    fn colours_change_nothing_but_colours() {
        let (plain, coloured) = (render(&example(), &[], false), render(&example(), &[], true));
        assert!(!plain.contains('\x1b') && coloured.contains("\x1b[31merror\x1b[0m"));
        let codes = ["\x1b[0m", "\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[33m"];
        let stripped = codes.iter().fold(coloured, |text, code| text.replace(code, ""));
        let trim = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        assert_eq!(trim(&stripped), trim(&plain));
    }

    #[test]
    fn rates_of_guests_are_a_table() {
        let rate = Rate {
            guest: 1,
            packets: 2.5e6,
            bytes: 4.41e10,
            rings: 950.0,
            requests: 12.0,
            notifies: 0.0,
            engines: 0.42,
        };
        let text = render(&example(), &[rate], false);
        let expected = "\
guest  packets   bytes      rings   requests  notifies  engines
    1  2.50 M/s  44.1 GB/s  950 /s   12.0 /s      0 /s     42 %
";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn an_adapter_without_guests_says_so() {
        let text = render(&Snapshot::default(), &[], false);
        assert!(text.ends_with("no guest is attached\n"), "{text}");
    }

    #[test]
    fn numbers_are_for_people() {
        assert_eq!([0, 1, 5].map(|count| times(count, "in D3"))[1], "once in D3");
        assert_eq!(
            [(0, 0), (5, 0), (1000, 7)].map(|(read, lost)| logged(read, lost)),
            ["", "5 logged", "1,000 logged, 7 lost",]
        );
    }
}
