// SPDX-License-Identifier: MIT OR Apache-2.0

//! Paged allocations: requests, and the work that they give the system context.

mod addresses;
mod budgets;
mod placement;
mod protected;
mod sharing;
mod work;

use crate::bench::{BAR, Bench, Client, RESOURCES};
use bellhop_host_kmd::dxgkrnl::Limits;
use bellhop_host_kmd::hardware::{AddressSpaceId, GuestId, PhysicalPage, Segment, SegmentSizes};
use bellhop_host_kmd::port::{GuestResources, Input};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::{
    AllocationFlags, AllocationKind, CreateAllocation, NOT_IN_BAR, PRIORITY_NORMAL, SegmentSet,
};
use bellhop_protocol::event::EventKind;

const MIB: u64 = 1 << 20;

/// Pages of CPU-visible local memory.
const PAGES: u64 = BAR.local_memory / PAGE_SIZE;

const ANYWHERE: SegmentSet = SegmentSet::LOCAL.union(SegmentSet::SYSTEM);

fn new() -> (Bench, Client) {
    with_limits(Limits::default())
}

fn with_limits(limits: Limits) -> (Bench, Client) {
    on(Bench::with_limits(2, limits))
}

/// A client of the first guest of this host.
fn on(mut bench: Bench) -> (Bench, Client) {
    let guest = GuestId(1);
    let segments = SegmentSizes { private: 8 * PAGE_SIZE, backing: 16 * MIB, aperture: 0 };
    let resources = GuestResources { segments, ..RESOURCES };
    bench.input(Input::Attach { guest, resources });
    bench.open(guest).unwrap();
    let client = bench.client(guest);
    (bench, client)
}

fn description(client: Client, pages: u64) -> CreateAllocation {
    CreateAllocation {
        supported_segments: ANYWHERE.bits(),
        priority: PRIORITY_NORMAL,
        flags: AllocationFlags::CPU_VISIBLE.bits(),
        ..CreateAllocation::fixed(client.device, AllocationKind::PAGED, pages * PAGE_SIZE, 0)
    }
}

fn create(bench: &mut Bench, client: Client, pages: u64) -> Handle {
    let reply = bench.call(client, &description(client, pages)).unwrap();
    assert_eq!(reply.bar_offset, NOT_IN_BAR);
    reply.allocation
}

fn space(bench: &Bench, client: Client) -> AddressSpaceId {
    bench.model.state().queues[&client.id].address_space
}

fn map(bench: &mut Bench, client: Client, allocation: Handle, size: u64) -> u64 {
    bench.call(client, &crate::bench::map(allocation, 0, size)).unwrap().gpu_va
}

/// The page at an address of the client.
fn page(bench: &Bench, client: Client, gpu_va: u64) -> Option<PhysicalPage> {
    let space = space(bench, client);
    bench.model.state().page(space, gpu_va)
}

fn segment(bench: &Bench, client: Client, gpu_va: u64) -> Option<Segment> {
    page(bench, client, gpu_va).map(|page| page.segment)
}

/// Returns what an engine reads at an address, after which it writes `content` there.
fn exchange(bench: &Bench, client: Client, gpu_va: u64, content: u64) -> u64 {
    let page = page(bench, client, gpu_va).expect("a mapped page");
    let mut state = bench.model.state();
    state.contents.insert((client.guest, page), content).unwrap_or(0)
}

fn trims(bench: &Bench) -> Vec<(u32, u64)> {
    let trims = bench.events.iter().filter(|(_, event)| event.kind == EventKind::TRIM_RESIDENCY);
    trims.map(|(_, event)| (event.process, event.value)).collect()
}
