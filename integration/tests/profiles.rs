//! Guests that get less: no shared memory, or a driver that does not ask for doorbells.

mod support;

use bellhop_guest::fake_guest::{FakeGuest, GuestOptions, QEMU, VmmProfile, WITHOUT_SHARED_MEMORY};
use bellhop_guest_umd::{Adapter, CommandBuffer, Error};
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::features::Features;
use bellhop_protocol::status::Status;
use std::time::Duration;
use support::Daemon;

/// Asserts that user-mode submission is refused and that kernel-mode submission works, with waits
/// that block.
fn only_the_kernel_mode_path_works(profile: &'static VmmProfile, features: Features) {
    let daemon = Daemon::start(1);
    let options = GuestOptions { profile, features, ..GuestOptions::default() };
    let guest = FakeGuest::connect(&daemon.socket(0), options).unwrap();
    let adapter = Adapter::open(guest).unwrap();
    assert_eq!(adapter.features(), Features::empty());
    assert!(adapter.nodes().unwrap().iter().all(|node| node.flags == 0));
    let device = adapter.create_device().unwrap();
    let context = device.create_context(0).unwrap();
    let refused = context.create_user_mode_queue(4096).err();
    let expected = matches!(
        refused,
        Some(Error::Refused { status: Status::NOT_SUPPORTED, .. } | Error::NotAvailable(_))
    );
    assert!(expected, "{refused:?}");

    let memory = device.create_allocation(AllocationKind::SYSTEM, 8192).unwrap();
    let mapping = memory.map(Protection::WRITE).unwrap();
    let mut queue = context.create_kernel_mode_queue().unwrap();
    let mut commands = CommandBuffer::new(&device, 256).unwrap();
    for round in 1..=20 {
        commands.reset();
        commands.fill(mapping.gpu_va(), 8192, round).unwrap();
        let value = queue.submit(&mut commands).unwrap();
        queue.progress_fence().wait(value, Duration::from_secs(30)).unwrap();
        let mut word = [0; 4];
        memory.read(8188, &mut word).unwrap();
        assert_eq!(u32::from_le_bytes(word), round);
    }
}

#[test]
fn without_shared_memory_the_kernel_mode_path_works() {
    only_the_kernel_mode_path_works(&WITHOUT_SHARED_MEMORY, Features::all());
}

#[test]
fn a_driver_that_does_not_negotiate_user_mode_submission_has_the_kernel_mode_path() {
    only_the_kernel_mode_path_works(&QEMU, Features::empty());
}
