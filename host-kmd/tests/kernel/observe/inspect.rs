// SPDX-License-Identifier: MIT OR Apache-2.0

//! The lists of objects that tools ask for.

use crate::bench::{Bench, Client, FEATURES};
use crate::display::{begin_commit, commit, flip, path, primary, vsync, world};
use bellhop_host_kmd::hardware::{
    AddressSpaceId, GuestId, KernelNumber, KernelOutcome, WorkerDescription,
};
use bellhop_host_kmd::port::ListObjects;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::{AllocationKind, CreateAllocation};
use bellhop_protocol::control::context::{CreateContext, SuspendContext};
use bellhop_protocol::control::device::CreateDevice;
use bellhop_protocol::control::display::{Rotation, VidPnPath};
use bellhop_protocol::control::escape::{Escape, ObjectList};
use bellhop_protocol::control::fence::{
    CreateNativeFence, DestroyNativeFence, FenceFlags, OpenNativeFence, ShareNativeFence,
};
use bellhop_protocol::control::hw_queue::CreateHwQueue;
use bellhop_protocol::control::kernel::padded;
use bellhop_protocol::control::process::{DescribeProcess, SetObjectName, SetProcessShare};
use bellhop_protocol::features::Features;
use bellhop_protocol::snapshot::{
    Adapter, Context, Display, DisplayPath, Fence, Guest, Kernel, Node, Process, Program, Worker,
};
use bellhop_protocol::status::Status;

fn wanted(list: ObjectList, guest: GuestId, process: u32, parent: Handle) -> ListObjects {
    ListObjects { list, guest, process, parent, after: 0 }
}

#[test]
fn the_operator_of_the_host_sees_all_guests_and_a_guest_sees_itself() {
    let mut bench = Bench::new(2);
    let [first, second] = [bench.guest(1), bench.guest(2)];
    let processes = [bench.process(first), bench.process(second)];
    let guests = wanted(ObjectList::GUESTS, GuestId(0), 0, Handle(0));
    let page = bench.list(guests, 1 << 16).unwrap();
    let guests: Vec<Guest> = serde_json::from_slice(&page.objects).unwrap();
    assert_eq!(guests.iter().map(|guest| guest.id).collect::<Vec<_>>(), [first.0, second.0]);

    let mut escape = Escape { list: ObjectList::GUESTS, process: 0, parent: Handle(0), after: 0 };
    let reply = bench.ask(second, 0, &escape).unwrap();
    let guests: Vec<Guest> = serde_json::from_slice(&reply.data[..reply.length as usize]).unwrap();
    assert_eq!(guests.iter().map(|guest| guest.id).collect::<Vec<_>>(), [second.0]);
    escape.list = ObjectList::PROCESSES;
    let reply = bench.ask(second, 0, &escape).unwrap();
    let listed: Vec<Process> =
        serde_json::from_slice(&reply.data[..reply.length as usize]).unwrap();
    assert_eq!(listed.iter().map(|process| process.id).collect::<Vec<_>>(), [processes[1]]);
    // A guest does not get another guest's process.
    let escape = Escape { list: ObjectList::DEVICES, process: processes[0], ..escape };
    let refused = bench.ask(second, 0, &escape).unwrap_err();
    assert_eq!(refused, (Status::INVALID_HANDLE, processes[0].into()));
}

/// A guest's first process, as tools see it.
fn shown(bench: &Bench, guest: GuestId) -> Process {
    let page = bench.list(wanted(ObjectList::PROCESSES, guest, 0, Handle(0)), 1 << 16).unwrap();
    let mut processes: Vec<Process> = serde_json::from_slice(&page.objects).unwrap();
    processes.remove(0)
}

#[test]
fn a_process_is_shown_with_the_program_that_its_guest_names() {
    let mut bench = Bench::new(1);
    let guest = bench.guest(1);
    let process = bench.process(guest);
    assert_eq!(shown(&bench, guest).program, None);
    for (command, printable) in
        [(*b"cat\0rest ignored", "cat"), (*b"\x1b[31m\xff sixteen!!", "?[31m? sixteen!!")]
    {
        bench.ask(guest, process, &DescribeProcess { user: 1000, pid: 42, command }).unwrap();
        let program = Program { user: 1000, pid: 42, command: printable.into() };
        assert_eq!(shown(&bench, guest).program, Some(program));
    }
}

#[test]
fn a_process_has_the_share_that_its_guest_sets_and_so_have_queues_from_then_on() {
    let mut bench = Bench::new(2);
    let guest = bench.guest(1);
    let process = bench.process(guest);
    let share = |bench: &Bench| {
        let Process { weight, group, .. } = shown(bench, guest);
        (weight, group)
    };
    assert_eq!(share(&bench), (100, 0));
    let device = bench.ask(guest, process, &CreateDevice { reserved: 0 }).unwrap();
    let request = CreateContext { device, node: 1, engine_affinity: 0 };
    let context = bench.ask(guest, process, &request).unwrap();
    let queue = CreateHwQueue { context, flags: 0, reserved: 0 };
    bench.ask(guest, process, &queue).unwrap();
    bench.ask(guest, process, &SetProcessShare { weight: 7, group: 9 }).unwrap();
    bench.ask(guest, process, &queue).unwrap();
    let refused = bench.ask(guest, process, &SetProcessShare { weight: 10_001, group: 9 });
    assert_eq!(refused.unwrap_err(), (Status::INVALID_PARAMETER, 10_001));
    assert_eq!(share(&bench), (7, 9));
    let state = bench.model.state();
    let shares: Vec<_> =
        state.queues.values().map(|of| (of.share.weight, of.share.group)).collect();
    assert_eq!(shares, [(100, 0), (7, 9)]);
}

#[test]
fn objects_are_shown_with_the_names_that_their_process_gives_them_until_they_end() {
    let (mut bench, client, doorbell) = Bench::with_connected(1);
    let Client { guest, process, device, context, queue, .. } = client;
    let fence = bench.call(client, &CreateNativeFence::new(device, 0)).unwrap().fence;
    let request = CreateAllocation::fixed(device, AllocationKind::LOCAL, 4096, 0);
    let allocation = bench.call(client, &request).unwrap().allocation;
    let objects = [
        (device, ObjectList::DEVICES, Handle(0)),
        (context, ObjectList::CONTEXTS, device),
        (queue, ObjectList::HW_QUEUES, context),
        (allocation, ObjectList::ALLOCATIONS, device),
        (fence, ObjectList::FENCES, device),
    ];
    let name = |bench: &Bench, (object, list, parent): (Handle, ObjectList, Handle)| {
        let page = bench.list(wanted(list, guest, process, parent), 1 << 16).unwrap();
        let listed: Vec<serde_json::Value> = serde_json::from_slice(&page.objects).unwrap();
        let found = listed.into_iter().find(|found| found["handle"] == object.to_string());
        found.map(|mut found| found["name"].take())
    };
    for object in objects {
        assert_eq!(name(&bench, object), Some(serde_json::Value::Null));
        for text in ["first", "größe", ""] {
            bench.call(client, &SetObjectName::new(object.0, text)).unwrap();
            let expected = Some(text).filter(|text| !text.is_empty());
            assert_eq!(name(&bench, object), Some(expected.into()));
        }
        bench.call(client, &SetObjectName::new(object.0, "last")).unwrap();
    }
    // What tools do not list by a handle has no name, and another process has nothing of these.
    let refused = bench.call(client, &SetObjectName::new(doorbell, "d")).unwrap_err();
    assert_eq!(refused, (Status::OBJECT_TYPE_MISMATCH, doorbell.0));
    let other = bench.process(guest);
    let refused = bench.ask(guest, other, &SetObjectName::new(fence, "mine")).unwrap_err();
    assert_eq!(refused, (Status::INVALID_HANDLE, fence.0));
    let rude = SetObjectName { name: padded("\x1b[2J"), ..SetObjectName::new(fence, "") };
    assert_eq!(bench.call(client, &rude).unwrap_err(), (Status::INVALID_PARAMETER, 0x1b));
    assert_eq!(name(&bench, objects[4]), Some("last".into()));
    // The next object has no name, wherever the kernel keeps it.
    bench.call(client, &DestroyNativeFence { fence }).unwrap();
    let fence = bench.call(client, &CreateNativeFence::new(device, 0)).unwrap().fence;
    let (_, list, parent) = objects[4];
    assert_eq!(name(&bench, (fence, list, parent)), Some(serde_json::Value::Null));
}

#[test]
fn a_shared_fence_has_a_name_in_each_process() {
    let mut bench = Bench::new(1);
    let guest = bench.guest(1);
    let [first, second] = [(); 2].map(|()| {
        let process = bench.process(guest);
        (process, bench.ask(guest, process, &CreateDevice { reserved: 0 }).unwrap())
    });
    let shared = CreateNativeFence {
        flags: FenceFlags::SHARED.bits(),
        ..CreateNativeFence::new(first.1, 0)
    };
    let fence = bench.ask(guest, first.0, &shared).unwrap().fence;
    let nt_handle = bench.ask(guest, first.0, &ShareNativeFence { fence }).unwrap();
    let request = OpenNativeFence { device: second.1, nt_handle };
    let opened = bench.ask(guest, second.0, &request).unwrap().fence;
    bench.ask(guest, first.0, &SetObjectName::new(fence, "ready")).unwrap();
    bench.ask(guest, second.0, &SetObjectName::new(opened, "theirs")).unwrap();
    let names = [first, second].map(|(process, device)| {
        let wanted = wanted(ObjectList::FENCES, guest, process, device);
        let page = bench.list(wanted, 1 << 16).unwrap();
        let mut fences: Vec<Fence> = serde_json::from_slice(&page.objects).unwrap();
        fences.remove(0).name
    });
    assert_eq!(names, [Some("ready".into()), Some("theirs".into())]);
}

#[test]
fn a_guest_that_did_not_negotiate_names_has_none() {
    let mut bench = Bench::new(1);
    let guest = bench.attach(1);
    bench.open_with(guest, FEATURES - Features::OBJECT_NAMES).unwrap();
    let process = bench.process(guest);
    let device = bench.ask(guest, process, &CreateDevice { reserved: 0 }).unwrap();
    let refused = bench.ask(guest, process, &SetObjectName::new(device, "mine")).unwrap_err();
    assert_eq!(refused, (Status::NOT_SUPPORTED, 0));
}

#[test]
fn a_context_is_shown_with_what_suspends_it() {
    let mut bench = Bench::new(2);
    let guest = bench.guest(1);
    let process = bench.process(guest);
    let device = bench.ask(guest, process, &CreateDevice { reserved: 0 }).unwrap();
    let request = CreateContext { device, node: 1, engine_affinity: 0 };
    let context = bench.ask(guest, process, &request).unwrap();
    let list = |bench: &Bench| {
        let wanted = wanted(ObjectList::CONTEXTS, guest, process, device);
        let page = bench.list(wanted, 1 << 16).unwrap();
        serde_json::from_slice::<Vec<Context>>(&page.objects).unwrap()
    };
    let shown = list(&bench);
    assert_eq!((shown[0].handle, shown[0].node), (context.into(), 1));
    assert_eq!((shown[0].state.as_str(), shown[0].suspended_by.len()), ("running", 0));
    bench.ask(guest, process, &SuspendContext { context }).unwrap();
    let shown = list(&bench);
    assert_eq!(
        (shown[0].state.as_str(), shown[0].suspended_by.join(" ")),
        ("suspended", "owner".into())
    );
}

#[test]
fn the_adapters_lists_need_no_guest_and_others_do() {
    let bench = Bench::new(2);
    let list = |list| bench.list(wanted(list, GuestId(9), 0, Handle(0)), 1 << 16);
    let nodes: Vec<Node> =
        serde_json::from_slice(&list(ObjectList::NODES).unwrap().objects).unwrap();
    assert_eq!(nodes.iter().map(|node| node.ordinal).collect::<Vec<_>>(), [0, 1]);
    assert!(nodes.iter().all(|node| node.power == "F0"));
    assert!(list(ObjectList::PROCESSES).unwrap_err().gone);
    assert!(!list(ObjectList(99)).unwrap_err().gone);
}

#[test]
fn a_process_s_kernels_are_listed_from_when_they_are_being_compiled_on() {
    let mut bench = Bench::new(2);
    let guest = bench.guest(1);
    let client = bench.client(guest);
    let spirv = bench.spirv(client);
    let list = |bench: &Bench, after| {
        let wanted = wanted(ObjectList::KERNELS, guest, client.process, Handle(0));
        let page = bench.list(ListObjects { after, ..wanted }, 1 << 16).unwrap();
        serde_json::from_slice::<Vec<Kernel>>(&page.objects).unwrap()
    };
    assert_eq!(list(&bench, 0), []);
    bench.begin_kernel(client, spirv);
    bench.begin_kernel(client, spirv);
    let [first, second] = bench.model.compiling()[..] else { panic!("two kernels") };
    bench.model.end_compiling(first, KernelOutcome::Compiled);
    bench.interrupt();
    let kernel = |(_, number): (AddressSpaceId, KernelNumber), state: &str| Kernel {
        number: number.0,
        entry_point: "main".into(),
        state: state.into(),
        spirv: bench.model.state().kernels[&second].source.length.into(),
    };
    let expected = [kernel(first, "compiled"), kernel(second, "compiling")];
    assert_eq!(list(&bench, 0), expected);
    assert_eq!(list(&bench, first.1.0.into()), expected[1..]);
}

#[test]
fn the_operator_sees_all_workers_and_a_guest_its_own_without_their_process_ids() {
    let mut bench = Bench::new(2);
    let guest = bench.guest(1);
    let client = bench.client(guest);
    let space = bench.model.state().queues[&client.id].address_space;
    let worker = |pid, guest, space| WorkerDescription {
        pid,
        role: "kernels",
        state: "idle",
        guest,
        space,
        node: Some(1),
        memory: Some(1 << 20),
        shared: None,
    };
    bench.model.state().workers = vec![
        worker(70, None, None),
        worker(71, Some(guest), Some(space)),
        worker(72, Some(GuestId(9)), Some(AddressSpaceId(99))),
    ];
    let all = |after| {
        let wanted = wanted(ObjectList::WORKERS, GuestId(0), 0, Handle(0));
        let page = bench.list(ListObjects { after, ..wanted }, 1 << 16).unwrap();
        serde_json::from_slice::<Vec<Worker>>(&page.objects).unwrap()
    };
    let own = Worker {
        pid: Some(71),
        role: "kernels".into(),
        state: "idle".into(),
        guest: Some(guest.0),
        process: Some(client.process),
        node: Some(1),
        memory: Some(1 << 20),
        shared: None,
    };
    assert_eq!(all(0).iter().map(|worker| worker.pid).collect::<Vec<_>>(), [70, 71, 72].map(Some));
    assert_eq!(all(70)[0], own);
    assert_eq!(all(71)[0].process, None);
    let escape = Escape { list: ObjectList::WORKERS, process: 0, parent: Handle(0), after: 0 };
    let reply = bench.ask(guest, 0, &escape).unwrap();
    let seen: Vec<Worker> = serde_json::from_slice(&reply.data[..reply.length as usize]).unwrap();
    assert_eq!(seen, [Worker { pid: None, ..own }]);
}

#[test]
fn the_operator_sees_the_cgroups_of_workers_and_a_guest_sees_none() {
    let mut bench = Bench::new(2);
    let guest = bench.guest(1);
    let shown = |bench: &Bench, list| {
        bench.list(wanted(list, GuestId(0), 0, Handle(0)), 1 << 16).unwrap().objects
    };
    let adapters: Vec<Adapter> =
        serde_json::from_slice(&shown(&bench, ObjectList::ADAPTER)).unwrap();
    let controllers = adapters[0].cgroups.as_ref().map(|cgroups| &cgroups.controllers);
    assert_eq!(controllers, Some(&vec!["memory".to_owned()]));
    let guests: Vec<Guest> = serde_json::from_slice(&shown(&bench, ObjectList::GUESTS)).unwrap();
    let paths = guests[0].cgroups.iter().map(|cgroup| cgroup.path.clone());
    assert_eq!(paths.collect::<Vec<_>>(), [format!("/workers-{}", guest.0)]);

    let mut own = |list| {
        let escape = Escape { list, process: 0, parent: Handle(0), after: 0 };
        let reply = bench.ask(guest, 0, &escape).unwrap();
        reply.data[..reply.length as usize].to_vec()
    };
    let adapters: Vec<Adapter> = serde_json::from_slice(&own(ObjectList::ADAPTER)).unwrap();
    let guests: Vec<Guest> = serde_json::from_slice(&own(ObjectList::GUESTS)).unwrap();
    assert!(adapters[0].cgroups.is_none() && guests[0].cgroups.is_empty());
}

#[test]
fn connectors_are_listed_with_what_they_show_and_what_waits() {
    let (mut bench, client) = world();
    let guest = client.guest;
    let list = |bench: &Bench, after| {
        let wanted = wanted(ObjectList::DISPLAYS, guest, 0, Handle(0));
        let page = bench.list(ListObjects { after, ..wanted }, 1 << 16).unwrap();
        serde_json::from_slice::<Vec<Display>>(&page.objects).unwrap()
    };
    bench.model.plug(guest, 1, None);
    bench.interrupt();
    let connector = |connector: u32, plugged, plugs| Display {
        connector,
        name: Some(format!("connector {connector}")),
        kind: "virtual".into(),
        plugged,
        plugs,
        viewers: Some(connector.into()),
        ..Display::default()
    };
    assert_eq!(list(&bench, 0), [connector(0, true, 1), connector(1, false, 2)]);
    assert_eq!(list(&bench, 1), [connector(1, false, 2)]);

    let turned = VidPnPath { rotation: Rotation::ROTATE_180, ..path(0, 0) };
    assert_eq!(commit(&mut bench, client, &[turned]), Ok(()));
    let [first, second] = [(); 2].map(|()| primary(&mut bench, client));
    flip(&mut bench, client, first, 71).unwrap();
    vsync(&mut bench, guest, 0);
    flip(&mut bench, client, second, 72).unwrap();
    for _ in 0..3 {
        // The second VSYNC shows nothing new; nobody waits for it.
        vsync(&mut bench, guest, 0);
    }
    flip(&mut bench, client, first, 73).unwrap();
    vsync(&mut bench, guest, 0);
    for number in [74, 75] {
        flip(&mut bench, client, second, number).unwrap();
    }
    let shown = list(&bench, 0)[0].path.clone().unwrap();
    let expected = DisplayPath {
        process: client.process,
        lent_to: None,
        source: 0,
        width: 64,
        height: 32,
        format: "X8R8G8B8".into(),
        monitor_width: 64,
        monitor_height: 32,
        refresh_numerator: 60,
        refresh_denominator: 1,
        scaling: "identity".into(),
        rotation: 180,
        visible: true,
        flip: 73,
        pending: vec![74, 75],
        vsyncs: 5,
        shown: 3,
        missed: 2,
        dropped: 0,
        lost: 0,
    };
    assert_eq!(shown, expected);

    // A guest is not told what people do with its connectors.
    let escape = Escape { list: ObjectList::DISPLAYS, process: 0, parent: Handle(0), after: 0 };
    let reply = bench.ask(guest, 0, &escape).unwrap();
    let own: Vec<Display> = serde_json::from_slice(&reply.data[..reply.length as usize]).unwrap();
    assert_eq!(
        (&own[0].name, own[0].viewers, own[0].path.as_ref()),
        (&None, None, Some(&expected))
    );

    begin_commit(&mut bench, client, &[]);
    bench.interrupt();
    assert_eq!(list(&bench, 0)[0].path, None);
    // What became of earlier flips is not forgotten.
    assert_eq!(commit(&mut bench, client, &[path(0, 0)]), Ok(()));
    let shown = list(&bench, 0)[0].path.clone().unwrap();
    assert_eq!((shown.flip, shown.shown, shown.lost, shown.pending.len()), (0, 3, 2, 0));
}
