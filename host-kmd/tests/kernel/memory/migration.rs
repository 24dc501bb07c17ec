// SPDX-License-Identifier: MIT OR Apache-2.0

//! Page migration: when the kernel checks page tables, and with what result.

use crate::bench::{Bench, Client, FEATURES, RESOURCES, map};
use bellhop_host_kmd::hardware::{EngineProgress, GuestId, PhysicalPage, Segment, SegmentSizes};
use bellhop_host_kmd::port::{GuestResources, Input};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::{
    AllocationKind, CreateAllocation, PRIORITY_NORMAL, SegmentSet,
};
use bellhop_protocol::features::Features;
use std::time::Duration;

const PERIOD: Duration = Duration::from_millis(250);
const SIZE: u64 = RESOURCES.bar.local_memory;

fn new(features: Features) -> (Bench, Client) {
    let mut bench = Bench::new(2);
    let guest = GuestId(1);
    let segments = SegmentSizes { private: 0, backing: 16 << 20, aperture: 0 };
    let resources = GuestResources { segments, features, ..RESOURCES };
    bench.input(Input::Attach { guest, resources });
    bench.open_with(guest, features).unwrap();
    let client = bench.client(guest);
    (bench, client)
}

/// An allocation as large as local memory, resident and mapped.
fn placed(bench: &mut Bench, client: Client) -> (Handle, u64) {
    let request = CreateAllocation {
        supported_segments: (SegmentSet::LOCAL | SegmentSet::SYSTEM).bits(),
        priority: PRIORITY_NORMAL,
        ..CreateAllocation::fixed(client.device, AllocationKind::PAGED, SIZE, 0)
    };
    let allocation = bench.call(client, &request).unwrap().allocation;
    let gpu_va = bench.call(client, &map(allocation, 0, SIZE)).unwrap().gpu_va;
    bench.make_resident(client, &[allocation]).unwrap();
    (allocation, gpu_va)
}

/// The first page that is mapped at an address.
fn page(bench: &Bench, client: Client, gpu_va: u64) -> PhysicalPage {
    let space = bench.model.state().queues[&client.id].address_space;
    bench.model.state().page(space, gpu_va).unwrap()
}

/// An awake engine uses the page at an address, and the kernel checks.
fn look(bench: &mut Bench, client: Client, gpu_va: u64) {
    let space = bench.model.state().queues[&client.id].address_space;
    bench.model.state().accessed.insert((space, gpu_va));
    bench.later(PERIOD);
}

#[test]
fn what_engines_go_on_to_use_comes_back_to_local_memory_with_its_bytes() {
    let (mut bench, client) = new(FEATURES | Features::PAGE_MIGRATION);
    let (_, used) = placed(&mut bench, client);
    let first = page(&bench, client, used);
    assert_eq!(first.segment, Segment::Local);
    bench.model.state().contents.insert((client.guest, first), 7);
    let (_, idle) = placed(&mut bench, client);
    assert_eq!(page(&bench, client, used).segment, Segment::Backing);
    let awake = EngineProgress { is_asleep: false, turns: 1, executing: None, stands: false };
    bench.model.state().progress.insert(0, awake);
    for _ in 0..3 {
        assert_eq!(page(&bench, client, used).segment, Segment::Backing);
        look(&mut bench, client, used);
    }
    let back = page(&bench, client, used);
    assert_eq!(back.segment, Segment::Local);
    assert_eq!(page(&bench, client, idle).segment, Segment::Backing);
    let state = bench.model.state();
    assert_eq!(state.contents.get(&(client.guest, back)), Some(&7));
    assert_eq!(state.looks, 3, "engines forget, so that the next look sees what they use then");
    assert!(!state.suspended.contains(&client.id), "its context runs");
}

#[test]
fn the_kernel_looks_at_no_page_table_while_all_engines_sleep() {
    let (mut bench, client) = new(FEATURES | Features::PAGE_MIGRATION);
    let (_, gpu_va) = placed(&mut bench, client);
    assert_eq!(bench.kernel.deadline(), Some(PERIOD));
    look(&mut bench, client, gpu_va);
    assert_eq!(bench.model.state().looks, 1, "who asked may have woken one");
    assert!(bench.kernel.deadline().is_none_or(|deadline| deadline > 2 * PERIOD));
    // Other checks continue until engines and device have lost their power.
    (0..20).for_each(|_| bench.later(Duration::from_secs(1)));
    assert_eq!(bench.model.state().looks, 1);
    assert_eq!(bench.kernel.deadline(), None);
}

#[test]
fn without_the_feature_nothing_is_looked_at_and_nothing_moves() {
    let (mut bench, client) = new(FEATURES);
    let (_, used) = placed(&mut bench, client);
    placed(&mut bench, client);
    let awake = EngineProgress { is_asleep: false, turns: 1, executing: None, stands: false };
    bench.model.state().progress.insert(0, awake);
    for _ in 0..5 {
        look(&mut bench, client, used);
    }
    assert_eq!(page(&bench, client, used).segment, Segment::Backing);
    let state = bench.model.state();
    assert_eq!((state.looks, state.accessed.len()), (0, 1));
}
