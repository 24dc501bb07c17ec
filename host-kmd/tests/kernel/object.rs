// SPDX-License-Identifier: MIT OR Apache-2.0

//! Processes, devices, contexts and queues: which objects a process may name, and which are destroyed together.

use crate::bench::{Bench, Client};
use bellhop_host_kmd::dxgkrnl::Limits;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::DestroyAllocation;
use bellhop_protocol::control::context::{CreateContext, DestroyContext};
use bellhop_protocol::control::device::{CreateDevice, DestroyDevice};
use bellhop_protocol::control::fence::DestroyNativeFence;
use bellhop_protocol::control::hw_queue::{CreateHwQueue, DestroyHwQueue, HwQueueFlags};
use bellhop_protocol::control::process::{CreateProcess, DestroyProcess};
use bellhop_protocol::status::Status;

#[test]
fn a_process_is_named_by_its_own_guest_only() {
    let mut bench = Bench::new(2);
    let (one, two) = (bench.guest(1), bench.guest(2));
    let process = bench.process(one);
    bench.process(two);
    let request = CreateDevice { reserved: 0 };
    assert!(bench.ask(one, process, &request).is_ok());
    let refused = (Status::INVALID_HANDLE, process.into());
    assert_eq!(bench.ask(two, process, &request).unwrap_err(), refused);
    assert_eq!(bench.ask(one, 0, &request).unwrap_err(), (Status::INVALID_HANDLE, 0));
}

#[test]
fn an_object_is_named_by_its_own_process_only() {
    let mut bench = Bench::new(2);
    let (one, two) = (bench.guest(1), bench.guest(2));
    let owner = bench.client(one);
    let request = CreateContext { device: owner.device, node: 0, engine_affinity: 0 };
    let refused = (Status::INVALID_HANDLE, owner.device.0);
    for stranger in [bench.client(one), bench.client(two)] {
        assert_ne!(stranger.device, owner.device);
        assert_eq!(bench.call(stranger, &request).unwrap_err(), refused);
    }
    let device = owner.queue;
    assert_eq!(
        bench.call(owner, &CreateContext { device, ..request }).unwrap_err(),
        (Status::OBJECT_TYPE_MISMATCH, device.0)
    );
    let device = Handle(0);
    assert_eq!(
        bench.call(owner, &CreateContext { device, ..request }).unwrap_err(),
        (Status::INVALID_HANDLE, 0)
    );
}

#[test]
fn a_context_is_for_a_node_that_exists() {
    let (mut bench, client) = Bench::with_client(2);
    let request = CreateContext { device: client.device, node: 7, engine_affinity: 0 };
    assert_eq!(bench.call(client, &request).unwrap_err(), (Status::INVALID_PARAMETER, 7));
}

/// `EngineAffinity` is a mask of the node's engines, and each node has one.
#[test]
fn a_context_is_for_the_one_engine_that_its_node_has() {
    let (mut bench, client) = Bench::with_client(2);
    let request = CreateContext { device: client.device, node: 0, engine_affinity: 0 };
    for engine_affinity in [0, 1] {
        bench.call(client, &CreateContext { engine_affinity, ..request }).unwrap();
    }
    for engine_affinity in [2, 3, 1 << 31] {
        let refused = (Status::INVALID_PARAMETER, engine_affinity.into());
        let request = CreateContext { engine_affinity, ..request };
        assert_eq!(bench.call(client, &request).unwrap_err(), refused);
    }
}

#[test]
fn a_queue_refuses_unknown_flags() {
    let (mut bench, client) = Bench::with_client(2);
    let request = CreateHwQueue { context: client.context, flags: 10, reserved: 0 };
    assert_eq!(bench.call(client, &request).unwrap_err(), (Status::INVALID_PARAMETER, 10));
}

/// Whether a handle still names an object: asks to destroy it as an object of another type.
fn is_there(bench: &mut Bench, client: Client, handle: Handle) -> bool {
    // In these tests only `client.fence` is a fence's handle, and that fence is never destroyed.
    let refused = bench.call(client, &DestroyNativeFence { fence: handle }).unwrap_err().0;
    match refused {
        Status::INVALID_HANDLE => false,
        Status::OBJECT_TYPE_MISMATCH | Status::DEVICE_BUSY => true,
        status => panic!("{status}"),
    }
}

#[test]
fn a_queue_takes_its_doorbell_and_its_fence_with_it_but_not_its_ring() {
    let (mut bench, client) = Bench::with_client(2);
    let ring = bench.ring(client);
    let doorbell = bench.doorbell_on(client, ring).unwrap().doorbell;
    bench.connect(client).unwrap();
    bench.call(client, &DestroyHwQueue { hw_queue: client.queue }).unwrap();
    for gone in [client.queue, client.fence, doorbell] {
        assert!(!is_there(&mut bench, client, gone));
    }
    for left in [client.context, client.device, ring.0, ring.1] {
        assert!(is_there(&mut bench, client, left));
    }
    bench.call(client, &DestroyAllocation { allocation: ring.0 }).unwrap();
    bench.call(client, &DestroyAllocation { allocation: ring.1 }).unwrap();
    assert!(bench.model.state().queues.is_empty());
    assert!(bench.model.state().watches.is_empty());
}

#[test]
fn a_context_takes_its_queues_with_it() {
    let (mut bench, client, doorbell) = Bench::with_connected(2);
    let second = bench.queue(client, HwQueueFlags::empty());
    bench.call(client, &DestroyContext { context: client.context }).unwrap();
    for gone in [client.context, client.queue, second.queue, second.fence, doorbell] {
        assert!(!is_there(&mut bench, client, gone));
    }
    assert!(is_there(&mut bench, client, client.device));
    assert!(bench.model.state().queues.is_empty());
}

#[test]
fn a_device_takes_everything_with_it_even_the_rings_that_doorbells_refer_to() {
    let (mut bench, client) = Bench::with_client(2);
    let ring = bench.ring(client);
    bench.doorbell_on(client, ring).unwrap();
    bench.connect(client).unwrap();
    bench.call(client, &DestroyDevice { device: client.device }).unwrap();
    for gone in [client.device, client.context, client.queue, ring.0, ring.1] {
        assert!(!is_there(&mut bench, client, gone));
    }
    // All local memory is free again.
    let device = bench.call(client, &CreateDevice { reserved: 0 }).unwrap();
    let client = Client { device, ..client };
    bench.local(client, crate::bench::BAR.local_memory).unwrap();
}

#[test]
fn a_process_takes_everything_with_it() {
    let (mut bench, client, _) = Bench::with_connected(2);
    bench.call(client, &DestroyProcess { flags: 0 }).unwrap();
    assert!(bench.model.is_empty());
    let refused = (Status::INVALID_HANDLE, client.process.into());
    assert_eq!(bench.call(client, &CreateDevice { reserved: 0 }).unwrap_err(), refused);
}

#[test]
fn destruction_is_answered_when_engines_have_forgotten() {
    let (mut bench, client, _) = Bench::with_connected(2);
    let other = bench.client(client.guest);
    bench.model.state().prompt = false;
    let queue = bench.begin(client, &DestroyHwQueue { hw_queue: client.queue });
    let device = bench.begin(client, &DestroyDevice { device: client.device });
    let process = bench.begin(client, &DestroyProcess { flags: 0 });
    for token in [queue, device, process] {
        assert_eq!(bench.outcome(client, token), None);
    }
    // Other requests are served in the meantime, and the page tables still exist.
    bench.call(other, &CreateDevice { reserved: 0 }).unwrap();
    // The third address space is that of the guest's system context.
    assert_eq!(bench.model.state().spaces.len(), 3);
    // They are destroyed when engines have left the queues, and forgotten afterwards.
    bench.pass_tickets();
    for token in [queue, device, process] {
        assert_eq!(bench.outcome(client, token), None);
    }
    bench.pass_tickets();
    for token in [queue, device, process] {
        assert_eq!(bench.outcome(client, token), Some(Status::SUCCESS));
    }
    assert_eq!(bench.model.state().spaces.len(), 2);
}

#[test]
fn quotas_belong_to_the_guest_and_are_refunded() {
    let limits = Limits { processes: 2, handles: 3, ..Limits::default() };
    let mut bench = Bench::with_limits(2, limits);
    let (one, two) = (bench.guest(1), bench.guest(2));
    let process = bench.process(one);
    bench.process(one);
    let create = CreateProcess { reserved: 0 };
    assert_eq!(bench.ask(one, 0, &create).unwrap_err(), (Status::QUOTA_EXCEEDED, 2));
    bench.process(two);
    bench.ask(one, process, &DestroyProcess { flags: 0 }).unwrap();
    let process = bench.process(one);

    let create = CreateDevice { reserved: 0 };
    let device = bench.ask(one, process, &create).unwrap();
    let context = CreateContext { device, node: 0, engine_affinity: 0 };
    let context = bench.ask(one, process, &context).unwrap();
    // A queue needs two handles, one of them for its progress fence. When the second one is refused, the first is
    // freed.
    let queue = CreateHwQueue { context, flags: 0, reserved: 0 };
    assert_eq!(bench.ask(one, process, &queue).unwrap_err(), (Status::QUOTA_EXCEEDED, 3));
    assert!(bench.model.state().queues.is_empty());
    assert!(bench.model.state().opened.is_empty());
    bench.ask(one, process, &create).unwrap();
    assert_eq!(bench.ask(one, process, &create).unwrap_err(), (Status::QUOTA_EXCEEDED, 3));
}

#[test]
fn fence_slots_run_out_and_come_back() {
    let (mut bench, client) = Bench::with_client(2);
    let count = u64::from(crate::bench::BAR.fence_count);
    let mut queues: Vec<_> =
        (1..count).map(|_| bench.queue(client, HwQueueFlags::empty())).collect();
    let request = CreateHwQueue { context: client.context, flags: 0, reserved: 0 };
    assert_eq!(bench.call(client, &request).unwrap_err(), (Status::QUOTA_EXCEEDED, count));
    let freed = queues.remove(3);
    bench.call(client, &DestroyHwQueue { hw_queue: freed.queue }).unwrap();
    assert_eq!(bench.call(client, &request).unwrap().progress_fence.slot, freed.fence_slot);
}
