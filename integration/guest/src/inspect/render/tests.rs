// SPDX-License-Identifier: MIT OR Apache-2.0

//! Snapshots and their texts.

use super::objects::logged;
use super::*;
use crate::output::WIDTH;
use bellhop_protocol::snapshot::{
    Allocation, Cgroup, Context, Counts, Device, Display, DisplayPath, Doorbell, Fence, Guest,
    HwQueue, Kernel, Listed, Name, Process, Program, Quota, SNAPSHOT_VERSION, SegmentUse,
};

fn example() -> Snapshot {
    let queue = |handle, state: &str, doorbell| HwQueue {
        handle: Name(handle),
        name: None,
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
        name: Some("weights".into()),
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
        name: Some("\x1b[2J".into()),
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
            cgroups: Some(Cgroups {
                controllers: ["memory", "pids", "cpu"].map(Into::into).into(),
                missing: None,
            }),
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
            connection: Some(2),
            pid: Some(4711),
            command: Some("qemu-system-x86".into()),
            state: "open".into(),
            bar_mapped: true,
            features: "USER_MODE_SUBMISSION".into(),
            weight: 100,
            cgroups: vec![Cgroup {
                path: "/sys/fs/cgroup/bellhopd.service/workers-0".into(),
                memory: Some(61 << 20),
                memory_limit: Some(2 << 30),
                threads: Some(35),
                threads_limit: Some(256),
                weight: Some(100),
                killed: Some(2),
            }],
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
                program: Some(Program { user: 1000, pid: 42, command: "cat".into() }),
                id: 1,
                weight: 300,
                group: 1001,
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
cgroups    one for each guest's workers: memory, pids, cpu

node  name  type     power  to F1  queues listed
   0  3D    THREE_D  F0         1              1

worker  role     state    guest  process  node  memory  shared
  4712  kernels  spare
  4713  kernels  running      1        1     0  52 MiB   9 MiB

run list  of node 0 (3D)
└─ hw queue  0x31  guest 1  process 1  context 0x100000002  idle at 12

guest  1  open  BAR mapped  weight 100
├─ front end  qemu-system-x86 (PID 4711)  socket /run/vm0.sock#2
├─ cgroup  /sys/fs/cgroup/bellhopd.service/workers-0  61 MiB of 2 GiB
│       35 of 256 threads  weight 100  2 KILLED
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
└─ process  1  cat (process 42 of user 1000)  weight 300  2 GPU mappings
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
      ├─ allocation  0x50 \"weights\"  1.5 MiB  local  resident  1 extent
      │       2 mappings  ring of 1 doorbell
      └─ fence  0x60 \"\\u{1b}[2J\"  7  interrupts above 8, 1 wait
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
fn workers_without_cgroups_are_shown_with_the_reason() {
    let shown = |cgroups| {
        let adapter = Adapter { cgroups, ..Adapter::default() };
        render(&Snapshot { adapter, ..Snapshot::default() }, &[], false)
    };
    let missing = Some("other processes are in /a".to_owned());
    let text = shown(Some(Cgroups { missing, ..Cgroups::default() }));
    assert!(text.contains("cgroups    none: other processes are in /a\n"), "{text}");
    // Without workers, and within a guest.
    assert!(!shown(None).contains("cgroups"));
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
