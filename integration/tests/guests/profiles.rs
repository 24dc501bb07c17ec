// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests of every VMM with every placement, and guests that take fewer features.

use crate::support::{
    self, Daemon, NOT_OFFERED, TIMEOUT, adapter_of, assert_every_behaviour_is_seen, bellhop,
    conformance, guest_under, guest_with, submit_once,
};
use bellhop_guest::client::{Client, Shape};
use bellhop_guest::fake_guest::{
    CLOUD_HYPERVISOR, ConfigAccess, FakeGuest, GuestOptions, QEMU, Step, VMMS, VmmProfile,
};
use bellhop_guest_umd::transport::{Transport, TransportError};
use bellhop_guest_umd::{Adapter, CommandBuffer, Error, Placement, PlacementPolicy, Placements};
use bellhop_protocol::control::adapter::{NODE_USER_MODE_SUBMISSION_SUPPORTED, NodeMetadata};
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::features::Features;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;
use std::{hint, thread};
use zerocopy::IntoBytes;

/// Only a hang takes this long.
const HANG: Duration = Duration::from_secs(60);

/// Runs the conformance suite in a guest of every VMM with a placement.
fn assert_every_vmm_shows_every_behaviour(placement: &str) {
    let config = support::quick_configuration("", "");
    for vmm in VMMS {
        let options = ["--vmm", vmm.name, "--placement", placement, "--config"];
        let mut command = bellhop();
        command.args(["selftest", "--json"]).args(options).arg(config.path());
        eprintln!("{} {placement}", vmm.name);
        assert_every_behaviour_is_seen(&conformance(&mut command), NOT_OFFERED);
    }
}

#[test]
fn every_behaviour_is_seen_under_every_vmm_where_accesses_are_fast() {
    assert_every_vmm_shows_every_behaviour("measured");
}

#[test]
fn every_behaviour_is_seen_under_every_vmm_with_all_in_the_bar() {
    assert_every_vmm_shows_every_behaviour("bar");
}

#[test]
fn every_behaviour_is_seen_under_every_vmm_with_all_in_guest_memory() {
    assert_every_vmm_shows_every_behaviour("guest-memory");
}

#[test]
fn every_behaviour_is_seen_under_every_vmm_around_a_slow_bar() {
    assert_every_vmm_shows_every_behaviour("around-slow-bar");
}

/// Guests without the features for user-mode submission, on an engine that a guest with them uses at the same time.
#[test]
fn without_user_mode_submission_the_kernel_mode_path_works_beside_guests_that_have_it() {
    for (profile, features) in [
        (&QEMU, Features::empty()),
        (&QEMU, Features::DONATED_AREAS),
        (&CLOUD_HYPERVISOR, Features::empty()),
        (&CLOUD_HYPERVISOR, Features::USER_MODE_SUBMISSION),
    ] {
        let daemon = Daemon::start(2);
        let mut newer = support::client(&daemon, 1);
        let options = GuestOptions { profile, features, ..GuestOptions::default() };
        let adapter = adapter_of(&guest_with(&daemon, 0, options));
        assert!(!adapter.features().contains(Features::USER_MODE_SUBMISSION));
        let offers = |node: &NodeMetadata| node.flags & NODE_USER_MODE_SUBMISSION_SUPPORTED != 0;
        assert!(!adapter.nodes().unwrap().iter().any(offers));
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
            newer.commands.reset();
            newer.commands.nop().unwrap();
            let newer_value = newer.submit().unwrap();
            let value = queue.submit(&mut commands).unwrap();
            queue.progress_fence().wait(value, TIMEOUT).unwrap();
            newer.finish(newer_value).unwrap();
            let mut word = [0; 4];
            memory.read(8188, &mut word).unwrap();
            assert_eq!(u32::from_le_bytes(word), round);
        }
    }
}

fn client_of(guest: &Arc<FakeGuest>) -> Client {
    support::client_of(guest, Shape::default())
}

/// Opens the adapter and submits once each way.
fn work(guest: &Arc<FakeGuest>) {
    let mut client = client_of(guest);
    submit_once(&mut client);
    let mut queue = client.context.create_kernel_mode_queue().unwrap();
    let value = queue.submit(client.commands.nop().unwrap()).unwrap();
    queue.progress_fence().wait(value, TIMEOUT).unwrap();
}

#[test]
fn ten_resets_are_survived_under_every_vmm() {
    for profile in VMMS {
        let daemon = Daemon::start(1);
        let guest = guest_under(profile, &daemon, 0);
        for _ in 0..10 {
            work(&guest);
            guest.reset().unwrap();
        }
        // A driver that resets the device before any request.
        guest.reset().unwrap();
        work(&guest);
        assert_eq!(guest.violations(), [], "{}", profile.name);
    }
}

/// cloud-hypervisor ends its VM when an access is refused, and passes on any access of a driver: at most 4 KiB, the
/// size of a PCI transport's configuration.
#[test]
fn the_configuration_can_be_accessed_anywhere_in_any_size() {
    const ROOM: u32 = 4096;
    let daemon = Daemon::start(1);
    for profile in VMMS {
        let guest = guest_under(profile, &daemon, 0);
        let config = guest.config();
        let config = config.as_bytes();
        let beyond = if profile.config_access == ConfigAccess::AsItIs { 0 } else { 0xff };
        let offsets = (0..80).chain(ROOM - 16..ROOM);
        for (offset, length) in offsets.flat_map(|o| [1, 2, 3, 4, 8].map(|length| (o, length))) {
            if offset + length > ROOM {
                continue;
            }
            let mut bytes = vec![0x55; length as usize];
            guest.write_config(offset, &bytes).unwrap();
            guest.read_config(offset, &mut bytes).unwrap();
            let all = offset as usize..(offset + length) as usize;
            let is_within = all.end <= config.len();
            for (byte, at) in bytes.into_iter().zip(all) {
                let expected = config.get(at).copied().unwrap_or(beyond);
                // A VMM that checks bounds treats a read that begins within and ends beyond as beyond.
                let expected = if is_within || beyond == 0 { expected } else { beyond };
                assert_eq!(byte, expected, "{} {at} of {offset}+{length}", profile.name);
            }
        }
        work(&guest);
    }
}

/// This VMM, cut off after each of its first messages.
fn cut_short(profile: &'static VmmProfile) -> Vec<VmmProfile> {
    let connecting = (0..profile.connect.len()).map(|said| VmmProfile {
        connect: &profile.connect[..said],
        start: &[],
        ..*profile
    });
    let starting = (0..profile.start.len())
        .map(|said| VmmProfile { start: &profile.start[..said], ..*profile });
    let amid_queues = profile.start.iter().enumerate().flat_map(|(said, step)| {
        let Step::EachQueue(steps) = *step else { return Vec::new() };
        let amid = |length| {
            let start = [&profile.start[..said], &[Step::EachQueue(&steps[..length])]].concat();
            VmmProfile { start: start.leak(), ..*profile }
        };
        (1..steps.len()).map(amid).collect()
    });
    connecting.chain(starting).chain(amid_queues).collect()
}

#[test]
fn a_vmm_may_go_after_any_of_its_messages() {
    let daemon = Daemon::start(1);
    work(&guest_under(&QEMU, &daemon, 0));
    daemon.await_log("front end disconnected");
    let before = daemon.resources();
    for profile in VMMS {
        for cut in cut_short(profile) {
            // Without the last message the guest may fail to start: that also ends the connection.
            let options = GuestOptions { profile: Box::leak(Box::new(cut)), ..Default::default() };
            drop(FakeGuest::connect(&daemon.socket(0), options));
            daemon.await_log("front end disconnected");
            daemon.await_resources(before);
        }
        work(&guest_under(profile, &daemon, 0));
        daemon.await_log("front end disconnected");
    }
}

#[test]
fn a_paused_guest_continues_with_all_that_it_had() {
    let daemon = Daemon::start(1);
    let guest = guest_under(&CLOUD_HYPERVISOR, &daemon, 0);
    let mut client = client_of(&guest);
    for round in 0..200 {
        client.commands.reset();
        client.commands.nop().unwrap();
        let submitted = client.submit().unwrap();
        guest.pause().unwrap();
        // A request that is sent while the queues are disabled is answered afterwards.
        thread::scope(|threads| {
            let request = threads.spawn(|| client.process.statistics());
            // Resumes at another moment each time.
            (0..round * 100).for_each(|_| hint::spin_loop());
            guest.resume().unwrap();
            request.join().unwrap().unwrap();
        });
        client.finish(submitted).unwrap();
    }
    assert!(guest_under(&QEMU, &Daemon::start(1), 0).pause().is_err());
}

fn with_ring_in_system_memory(guest: &Arc<FakeGuest>, memory: u64) -> Client {
    let mut client = support::client_of(guest, Shape { memory, ..Shape::default() });
    let builder = client.context.user_mode_queue(4096).ring_in(AllocationKind::SYSTEM);
    client.queue = builder.create().unwrap();
    client
}

#[test]
fn memory_may_be_announced_again_while_work_runs() {
    for profile in VMMS {
        let daemon = Daemon::start(1);
        let guest = guest_under(profile, &daemon, 0);
        let mut client = with_ring_in_system_memory(&guest, 1 << 20);
        thread::scope(|threads| {
            let announcer = threads.spawn(|| {
                for _ in 0..50 {
                    guest.announce_memory().unwrap();
                }
            });
            let mut round = 0;
            while round < 50 || !announcer.is_finished() {
                round += 1;
                client.commands.fill(client.va(0), 1 << 20, round).unwrap();
                client.run().unwrap();
                let word = client.read((1 << 20) - 4, 4).unwrap();
                assert_eq!(word, round.to_le_bytes(), "{}", profile.name);
            }
        });
    }
}

/// A guest of a VMM that reconnects by itself, and does not tell its guest.
fn guest_that_outlives_its_daemon(daemon: &Daemon) -> Arc<FakeGuest> {
    let options =
        GuestOptions { profile: &CLOUD_HYPERVISOR, awaits_device: true, ..GuestOptions::default() };
    guest_with(daemon, 0, options)
}

#[track_caller]
fn assert_told<T>(result: Result<T, Error>) {
    let error = result.err().expect("the device was replaced");
    assert!(matches!(error, Error::Transport(TransportError::Replaced)), "{error}");
    assert!(error.is_device_gone());
}

/// Drivers that wait for a fence, poll one, have an unanswered request, or do nothing: each learns that the device was
/// replaced, and can tell this from the loss of a queue.
#[test]
fn a_guest_always_learns_that_its_daemon_was_started_again() {
    let mut daemon = Daemon::start(1);
    let guest = guest_that_outlives_its_daemon(&daemon);
    let mut client = client_of(&guest);
    submit_once(&mut client);
    let fence = client.device.create_fence(0).unwrap();
    let restarted = thread::scope(|threads| {
        let blocked = threads.spawn(|| client.queue.progress_fence().wait(2, HANG));
        let polling = threads.spawn(|| fence.poll(1, HANG));
        daemon.kill();
        let asking = threads.spawn(|| client.process.statistics());
        let restarted = Daemon::start(1);
        guest.reconnect(UnixStream::connect(restarted.socket(0)).unwrap()).unwrap();
        assert_told(blocked.join().unwrap());
        assert_told(polling.join().unwrap());
        assert_told(asking.join().unwrap());
        restarted
    });
    assert_told(client.submit());
    assert_told(client.device.create_allocation(AllocationKind::SYSTEM, 4096));
    restarted.await_log("the driver still uses a device that was replaced");
    guest.reset().unwrap();
    work(&guest);
    // A new driver, from the beginning.
    guest.reset().unwrap();
    work(&guest);
}

/// At its first request, without any earlier wait or poll.
#[test]
fn a_guest_that_did_nothing_learns_it_by_its_next_request() {
    let mut daemon = Daemon::start(1);
    let guest = guest_that_outlives_its_daemon(&daemon);
    let device = adapter_of(&guest).create_device().unwrap();
    daemon.kill();
    let restarted = Daemon::start(1);
    guest.reconnect(UnixStream::connect(restarted.socket(0)).unwrap()).unwrap();
    assert_told(device.create_allocation(AllocationKind::SYSTEM, 4096));
    guest.reset().unwrap();
    work(&guest);
}

/// Memory is allocated from its end, above the hole.
#[test]
fn memory_in_two_pieces_around_a_hole_is_memory() {
    for profile in VMMS {
        let daemon = Daemon::start(1);
        let ram = profile.low_memory + (256 << 20);
        let options = GuestOptions { profile, ram, ..GuestOptions::default() };
        let guest = guest_with(&daemon, 0, options);
        // The second one's memory lies across the hole.
        for size in [1 << 20, 256 << 20] {
            let mut client = with_ring_in_system_memory(&guest, size);
            client.commands.fill(client.va(0), size, 0x5a5a_1234).unwrap();
            client.run().unwrap();
            for offset in [0, size as usize / 2, size as usize - 4] {
                let word = client.read(offset, 4).unwrap();
                assert_eq!(word, 0x5a5a_1234_u32.to_le_bytes(), "{} {offset:#x}", profile.name);
            }
        }
    }
}

#[test]
fn a_daemon_may_keep_its_bar_to_itself() {
    let daemon = Daemon::start_with(1, "[guest]\nbar = false\n");
    let guest = support::guest(&daemon, 0);
    assert!(guest.bar().is_none());
    let mut client = client_of(&guest);
    assert_eq!(client.process.placements(), Placements::GUEST_MEMORY);
    submit_once(&mut client);
}

#[test]
fn a_queue_may_have_its_ring_in_memory_of_either_kind() {
    let daemon = Daemon::start(1);
    let mut client = support::client(&daemon, 0);
    let kinds = [AllocationKind::LOCAL, AllocationKind::SYSTEM];
    let mut queues =
        kinds.map(|kind| client.context.user_mode_queue(4096).ring_in(kind).create().unwrap());
    for _ in 0..500 {
        for queue in &mut queues {
            client.commands.nop().unwrap();
            client.run_on(queue).unwrap();
        }
    }
}

#[test]
fn donated_areas_last_until_the_device_is_reset() {
    let daemon = Daemon::start(1);
    let guest = guest_under(&CLOUD_HYPERVISOR, &daemon, 0);
    let work = || {
        let mut client = client_of(&guest);
        assert_eq!(client.process.placements(), Placements::GUEST_MEMORY);
        submit_once(&mut client);
    };
    // The second driver finds the first one's donations; a reset ends them.
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
    let features = Features::USER_MODE_SUBMISSION | Features::NATIVE_FENCES;
    let options = GuestOptions { features, ..GuestOptions::default() };
    let guest = guest_with(&daemon, 0, options);
    let fences = Placements { fences: Placement::GuestMemory, ..Placements::BAR };
    let error = Adapter::open_with(guest.clone(), PlacementPolicy::Fixed(fences)).err();
    assert!(matches!(error, Some(Error::NotAvailable(_))), "{error:?}");
    adapter_of(&guest);
}
