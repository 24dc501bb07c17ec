//! Guests of every VMM, with everything in every place, and guests that ask for less.

mod support;

use bellhop_guest::fake_guest::{CLOUD_HYPERVISOR, FakeGuest, GuestOptions, QEMU, VMMS};
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::{
    Adapter, CommandBuffer, Error, Placement, PlacementPolicy, Placements, UserModeQueue,
};
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::features::Features;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use support::{Daemon, bellhop};

const TIMEOUT: Duration = Duration::from_secs(30);

/// Every VMM with every placement: the conformance suite, from inside the guest.
#[test]
fn every_behaviour_is_seen_under_every_vmm_wherever_things_are() {
    for vmm in VMMS {
        for placement in ["measured", "bar", "guest-memory", "around-slow-bar"] {
            let output = bellhop()
                .args(["selftest", "--json", "--vmm", vmm.name, "--placement", placement])
                .output()
                .unwrap();
            let report: Value = serde_json::from_slice(&output.stdout).unwrap();
            let checks = report["checks"].as_array().unwrap();
            let failed: Vec<_> = checks.iter().filter(|c| c["outcome"] != "passed").collect();
            assert!(failed.is_empty(), "{} {placement}: {failed:#?}", vmm.name);
        }
    }
}

/// Guests that ask for less than user-mode submission takes.
#[test]
fn without_user_mode_submission_the_kernel_mode_path_works() {
    for (profile, features) in [
        (&QEMU, Features::empty()),
        (&QEMU, Features::DONATED_AREAS),
        (&CLOUD_HYPERVISOR, Features::empty()),
        (&CLOUD_HYPERVISOR, Features::USER_MODE_SUBMISSION),
    ] {
        let daemon = Daemon::start(1);
        let options = GuestOptions { profile, features, ..GuestOptions::default() };
        let guest = FakeGuest::connect(&daemon.socket(0), options).unwrap();
        let adapter = Adapter::open(guest).unwrap();
        assert!(!adapter.features().contains(Features::USER_MODE_SUBMISSION));
        assert!(adapter.nodes().unwrap().iter().all(|node| node.flags == 0));
        let device = adapter.create_device().unwrap();
        let context = device.create_context(0).unwrap();
        let refused = context.create_user_mode_queue(4096).err();
        assert!(matches!(refused, Some(Error::NotAvailable(_))), "{refused:?}");

        let memory = device.create_allocation(AllocationKind::SYSTEM, 8192).unwrap();
        let mapping = memory.map(Protection::WRITE).unwrap();
        let mut queue = context.create_kernel_mode_queue().unwrap();
        let mut commands = CommandBuffer::new(&device, 256).unwrap();
        for round in 1..=20 {
            commands.reset();
            commands.fill(mapping.gpu_va(), 8192, round).unwrap();
            let value = queue.submit(&mut commands).unwrap();
            queue.progress_fence().wait(value, TIMEOUT).unwrap();
            let mut word = [0; 4];
            memory.read(8188, &mut word).unwrap();
            assert_eq!(u32::from_le_bytes(word), round);
        }
    }
}

/// Submits once and waits.
fn submit(queue: &mut UserModeQueue, commands: &mut CommandBuffer) {
    let value = queue.submit(commands.nop().unwrap()).unwrap();
    queue.progress_fence().poll(value, TIMEOUT).unwrap();
    commands.reset();
}

/// Memory is given out from its end: above the hole.
#[test]
fn memory_in_two_pieces_around_a_hole_is_memory() {
    for profile in VMMS {
        let daemon = Daemon::start(1);
        let ram = profile.low_memory + (256 << 20);
        let options = GuestOptions { profile, ram, ..GuestOptions::default() };
        let guest = FakeGuest::connect(&daemon.socket(0), options).unwrap();
        let adapter = Adapter::open(guest).unwrap();
        let device = adapter.create_device().unwrap();
        let context = device.create_context(0).unwrap();
        let mut queue = context.create_user_mode_queue_in(AllocationKind::SYSTEM, 4096).unwrap();
        let mut commands = CommandBuffer::new(&device, 256).unwrap();
        // The second one lies across the hole.
        for size in [1 << 20, 256 << 20] {
            let memory = device.create_allocation(AllocationKind::SYSTEM, size).unwrap();
            let mapping = memory.map(Protection::WRITE).unwrap();
            commands.fill(mapping.gpu_va(), size, 0x5a5a_1234).unwrap();
            submit(&mut queue, &mut commands);
            let mut word = [0; 4];
            for offset in [0, size as usize / 2, size as usize - 4] {
                memory.read(offset, &mut word).unwrap();
                assert_eq!(u32::from_le_bytes(word), 0x5a5a_1234, "{} {offset:#x}", profile.name);
            }
        }
    }
}

#[test]
fn a_daemon_may_keep_its_bar_to_itself() {
    let daemon = Daemon::start_with(1, "[guest]\nbar = false\n");
    let guest = support::guest(&daemon, 0);
    assert!(guest.bar().is_none());
    let adapter = Adapter::open(guest).unwrap();
    assert_eq!(adapter.placements(), Placements::GUEST_MEMORY);
    let device = adapter.create_device().unwrap();
    let context = device.create_context(0).unwrap();
    let mut queue = context.create_user_mode_queue(4096).unwrap();
    submit(&mut queue, &mut CommandBuffer::new(&device, 64).unwrap());
}

#[test]
fn a_queue_may_have_its_ring_in_memory_of_either_kind() {
    let daemon = Daemon::start(1);
    let guest = support::guest(&daemon, 0);
    let adapter = Adapter::open(guest).unwrap();
    let device = adapter.create_device().unwrap();
    let context = device.create_context(0).unwrap();
    let mut commands = CommandBuffer::new(&device, 64).unwrap();
    let kinds = [AllocationKind::LOCAL, AllocationKind::SYSTEM];
    let mut queues = kinds.map(|kind| context.create_user_mode_queue_in(kind, 4096).unwrap());
    for _ in 0..500 {
        for queue in &mut queues {
            submit(queue, &mut commands);
        }
    }
}

#[test]
fn donated_areas_last_until_the_device_is_reset() {
    let daemon = Daemon::start(1);
    let options = GuestOptions { profile: &CLOUD_HYPERVISOR, ..GuestOptions::default() };
    let guest = FakeGuest::connect(&daemon.socket(0), options).unwrap();
    let work = || {
        let transport = Arc::clone(&guest) as Arc<dyn Transport>;
        let adapter = Adapter::open(transport).unwrap();
        assert_eq!(adapter.placements(), Placements::GUEST_MEMORY);
        let device = adapter.create_device().unwrap();
        let context = device.create_context(0).unwrap();
        let mut queue = context.create_user_mode_queue(4096).unwrap();
        submit(&mut queue, &mut CommandBuffer::new(&device, 64).unwrap());
    };
    // The second driver finds what the first has donated; after a reset nothing is.
    for _ in 0..3 {
        work();
        work();
        guest.reset().unwrap();
    }
    assert!(guest.violations().is_empty());
}

#[test]
fn without_donated_areas_what_is_asked_to_be_in_guest_memory_is_an_error() {
    let daemon = Daemon::start(1);
    let features = Features::USER_MODE_SUBMISSION;
    let options = GuestOptions { features, ..GuestOptions::default() };
    let guest = FakeGuest::connect(&daemon.socket(0), options).unwrap();
    let transport = Arc::clone(&guest) as Arc<dyn Transport>;
    let fences = Placements { fences: Placement::GuestMemory, ..Placements::BAR };
    let error = Adapter::open_with(transport, PlacementPolicy::Fixed(fences)).err();
    assert!(matches!(error, Some(Error::NotAvailable(_))), "{error:?}");
    Adapter::open(guest).unwrap();
}
