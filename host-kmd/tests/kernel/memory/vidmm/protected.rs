// SPDX-License-Identifier: MIT OR Apache-2.0

//! Protected allocations: no CPU reads them, wherever they are.

use super::*;
use crate::bench::bytes_with_list;
use crate::model::Model;
use bellhop_host_kmd::hardware::NodeDescription;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::allocation::{
    COMPRESSED, DestroyAllocation, Extent, Lock, OpenSharedAllocation, ShareAllocation,
};
use bellhop_protocol::control::security::{QuerySecurityCaps, SECURITY_SUPPORTED};
use bellhop_protocol::status::Status;
use std::sync::Arc;

const fn node(engine_type: EngineType) -> NodeDescription {
    NodeDescription { engine_type, name: "", user_mode_submission: true, processor: None }
}

/// A client of a GPU with a security node. It has 8 pages of private memory.
fn secure() -> (Bench, Client) {
    let mut model = Model::new(2);
    model.nodes =
        const { &[node(EngineType::THREE_D), node(EngineType::COPY), node(EngineType::CRYPTO)] };
    on(Bench::of(vec![Arc::new(model)], Limits::default()))
}

fn protected(client: Client, pages: u64) -> CreateAllocation {
    CreateAllocation {
        supported_segments: (SegmentSet::PRIVATE | SegmentSet::SYSTEM).bits(),
        flags: AllocationFlags::PROTECTED.bits(),
        ..description(client, pages)
    }
}

/// Whether engines take the page at an address for protected.
fn is_protected(bench: &Bench, client: Client, gpu_va: u64) -> bool {
    let space = space(bench, client);
    bench.model.mapped(space, gpu_va).unwrap().is_protected()
}

#[test]
fn without_a_security_node_nothing_is_protected() {
    let (mut bench, client) = new();
    let refused = bench.call(client, &protected(client, 1)).unwrap_err();
    assert_eq!(refused.0, Status::NOT_SUPPORTED);
    let caps = bench.ask(client.guest, 0, &QuerySecurityCaps { reserved: 0 }).unwrap();
    assert_eq!(caps.flags, 0);
    let (mut bench, client) = secure();
    let caps = bench.ask(client.guest, 0, &QuerySecurityCaps { reserved: 0 }).unwrap();
    assert_eq!((caps.flags, caps.node), (SECURITY_SUPPORTED, 2));
    bench.call(client, &protected(client, 1)).unwrap();
}

#[test]
fn nothing_is_protected_that_a_cpu_a_viewer_or_a_physical_address_reaches() {
    let (mut bench, client) = secure();
    let good = protected(client, 1);
    let with = |flags: AllocationFlags| {
        let flags = (AllocationFlags::PROTECTED | flags).bits();
        CreateAllocation { flags, ..good }
    };
    for flags in [
        AllocationFlags::CPU_VISIBLE,
        AllocationFlags::PERMANENT_SYSTEM_MEM,
        AllocationFlags::CACHED,
        AllocationFlags::ACCESSED_PHYSICALLY,
        AllocationFlags::PRIMARY,
    ] {
        let refused = bench.call(client, &with(flags)).unwrap_err();
        let value = (AllocationFlags::PROTECTED | flags).bits();
        assert_eq!(refused, (Status::INVALID_PARAMETER, value.into()), "{flags:?}");
    }
    for segments in [SegmentSet::LOCAL, SegmentSet::SYSTEM, SegmentSet::all(), ANYWHERE] {
        let request = CreateAllocation { supported_segments: segments.bits(), ..good };
        let refused = (Status::INVALID_PARAMETER, segments.bits().into());
        assert_eq!(bench.call(client, &request).unwrap_err(), refused);
    }
    let request = CreateAllocation { private_data: COMPRESSED, ..good };
    let refused = (Status::INVALID_PARAMETER, COMPRESSED.into());
    assert_eq!(bench.call(client, &request).unwrap_err(), refused);
    // It has no pages of the guest's own.
    let request = CreateAllocation { extent_count: 1, ..good };
    let own = [Extent { address: 0, length: PAGE_SIZE }];
    let refused = bench.raw(client.guest, bytes_with_list(client.process, &request, &own));
    assert_eq!(refused, (Status::INVALID_PARAMETER, good.flags.into()));
    // A fixed one has no flags.
    let fixed = CreateAllocation::fixed(client.device, AllocationKind::LOCAL, PAGE_SIZE, 0);
    let request = CreateAllocation { flags: good.flags, ..fixed };
    assert_eq!(bench.call(client, &request).unwrap_err().0, Status::INVALID_PARAMETER);
}

#[test]
fn no_cpu_locks_it() {
    let (mut bench, client) = secure();
    let allocation = bench.call(client, &protected(client, 1)).unwrap().allocation;
    for _ in 0..2 {
        let refused = bench.call(client, &Lock { allocation }).unwrap_err();
        assert_eq!(refused.0, Status::NOT_SUPPORTED);
        bench.make_resident(client, &[allocation]).unwrap();
    }
}

#[test]
fn it_is_protected_in_private_memory_and_where_it_is_evicted_to_which_is_the_hosts() {
    let (mut bench, client) = secure();
    let allocation = bench.call(client, &protected(client, 8)).unwrap().allocation;
    let at = map(&mut bench, client, allocation, 8 * PAGE_SIZE);
    bench.make_resident(client, &[allocation]).unwrap();
    assert_eq!(segment(&bench, client, at), Some(Segment::Private));
    assert!(is_protected(&bench, client, at) && is_protected(&bench, client, at + 7 * PAGE_SIZE));
    assert_eq!(exchange(&bench, client, at, 7), 0);
    // Others need the room, and are not protected.
    let other = CreateAllocation {
        supported_segments: SegmentSet::PRIVATE.bits(),
        flags: 0,
        ..description(client, 8)
    };
    let other = bench.call(client, &other).unwrap().allocation;
    let beside = map(&mut bench, client, other, 8 * PAGE_SIZE);
    bench.make_resident(client, &[other]).unwrap();
    assert_eq!(segment(&bench, client, beside), Some(Segment::Private));
    assert!(!is_protected(&bench, client, beside));
    assert_eq!(exchange(&bench, client, beside, 0), 0, "the next owner finds zeroes");
    assert_eq!(segment(&bench, client, at), Some(Segment::Backing));
    assert!(is_protected(&bench, client, at));
    assert_eq!(exchange(&bench, client, at, 7), 7);
    bench.call(client, &DestroyAllocation { allocation }).unwrap();
}

#[test]
fn a_process_that_opens_it_has_it_protected() {
    let (mut bench, client) = secure();
    let flags = (AllocationFlags::PROTECTED | AllocationFlags::SHARED).bits();
    let request = CreateAllocation { flags, ..protected(client, 1) };
    let allocation = bench.call(client, &request).unwrap().allocation;
    let nt_handle = bench.call(client, &ShareAllocation { allocation }).unwrap();
    let other = bench.client(client.guest);
    let opened = OpenSharedAllocation { device: other.device, nt_handle };
    let opened = bench.call(other, &opened).unwrap().allocation;
    let at = map(&mut bench, other, opened, PAGE_SIZE);
    bench.make_resident(other, &[opened]).unwrap();
    assert!(is_protected(&bench, other, at));
    let refused = bench.call(other, &Lock { allocation: opened }).unwrap_err();
    assert_eq!(refused.0, Status::NOT_SUPPORTED);
}
