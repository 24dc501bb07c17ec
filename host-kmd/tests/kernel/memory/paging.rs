// SPDX-License-Identifier: MIT OR Apache-2.0

//! The system context and its paging buffers.

use crate::bench::{Bench, RESOURCES};
use crate::model::Model;
use bellhop_host_kmd::ddi::paging::{PageSize, PagingBuffer, PagingOperation};
use bellhop_host_kmd::ddi::{AllocationInfoFlags2, BadPrivateData, Miniport};
use bellhop_host_kmd::hardware::{
    DriverProtection, Fault, GpuSet, GuestId, Interrupt, Interrupts as _, PhysicalPage, Pte,
    Segment,
};
use bellhop_host_kmd::miniport::BellhopMiniport;
use bellhop_host_kmd::port::Input;
use bellhop_protocol::control::allocation::COMPRESSED;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::{Opcode, PacketHeader, UNIT};
use bellhop_protocol::status::Status;
use std::sync::Arc;
use zerocopy::IntoBytes;

const GUEST: GuestId = GuestId(1);

/// A no-op packet with a number.
fn packets(number: u64) -> Vec<u8> {
    PacketHeader::new(Opcode::NOP, UNIT, number as u32).as_bytes().to_vec()
}

fn buffer(number: u64) -> PagingBuffer {
    let mut buffer = PagingBuffer::new();
    buffer.append(&packets(number)).unwrap();
    buffer
}

#[test]
fn a_guest_has_a_system_context_from_its_attaching_to_its_detaching() {
    let mut bench = Bench::new(1);
    bench.attach(1);
    let system = bench.model.state().systems[&GUEST];
    assert!(bench.model.state().spaces.contains_key(&system.address_space));
    bench.model.state().prompt = false;
    bench.input(Input::Detach { guest: GUEST });
    // Engines may execute the context until they have passed the first ticket, and translate until the next.
    assert!(bench.model.state().systems.contains_key(&GUEST));
    bench.pass_tickets();
    assert!(bench.model.state().systems.is_empty());
    assert!(bench.model.state().spaces.contains_key(&system.address_space));
    bench.pass_tickets();
    assert!(bench.model.state().spaces.is_empty());
    assert_eq!(bench.detached, [GUEST]);
}

#[test]
fn a_guest_for_whose_system_context_there_is_no_room_is_refused_everything_and_can_go() {
    let mut bench = Bench::new(1);
    bench.model.state().page_table_room = 0;
    bench.input(Input::Attach { guest: GUEST, resources: RESOURCES });
    assert_eq!(bench.open(GUEST).unwrap_err().0, Status::INSUFFICIENT_RESOURCES);
    bench.input(Input::Detach { guest: GUEST });
    assert_eq!(bench.detached, [GUEST]);
}

#[test]
fn paging_buffers_are_executed_in_their_order_and_one_that_fails_is_named() {
    let model = Arc::new(Model::new(1));
    let mut miniport = BellhopMiniport::new(Arc::clone(&model) as _);
    miniport.create_system_context(GUEST).unwrap();
    model.state().prompt_paging = false;
    model.state().paging_room = 2;
    for fence in [3, 7] {
        miniport.submit_paging(GUEST, &buffer(fence), fence).unwrap();
    }
    assert!(miniport.submit_paging(GUEST, &buffer(9), 9).is_err());
    let fault = Fault::new(FaultReason::READ_PAGE_FAULT, Opcode::COPY, 0x1000);
    assert_eq!(model.fail_paging(GUEST, fault), packets(3));
    assert_eq!(model.complete_paging(GUEST), packets(7));
    let expected = [
        Interrupt::PagingFaulted { guest: GUEST, fence: 3, fault },
        Interrupt::PagingCompleted { guest: GUEST, fence: 3 },
        Interrupt::PagingCompleted { guest: GUEST, fence: 7 },
    ];
    assert_eq!(model.take_interrupts(), expected);
}

#[test]
fn page_tables_change_when_the_paging_buffer_is_done_and_not_if_it_fails() {
    let model = Arc::new(Model::new(1));
    let mut miniport = BellhopMiniport::new(Arc::clone(&model) as _);
    let system = miniport.create_system_context(GUEST).unwrap();
    model.state().prompt_paging = false;
    let entry = Pte::new(PhysicalPage { segment: Segment::Backing, address: 0x5000 }, true);
    for (fence, page_size) in [(1, PageSize::Small), (2, PageSize::Large)] {
        let gpu_va = fence << 40;
        let operation = PagingOperation::UpdatePageTable {
            gpus: GpuSet::ALL,
            space: system.address_space,
            gpu_va,
            page_size,
            entries: &[Pte::INVALID, entry],
        };
        let mut buffer = PagingBuffer::new();
        miniport.build_paging_buffer(GUEST, &operation, &mut buffer).unwrap();
        miniport.submit_paging(GUEST, &buffer, fence).unwrap();
        let mapped = || {
            let state = model.state();
            [0, page_size.bytes()].map(|at| state.mapped(system.address_space, gpu_va + at))
        };
        assert_eq!(mapped(), [None, None]);
        model.complete_paging(GUEST);
        assert_eq!(mapped(), [None, Some(entry)]);
    }
}

#[test]
fn the_compressed_kind_is_notified_before_a_cpu_sees_it_and_mapped_as_compressed() {
    let mut miniport = BellhopMiniport::new(Arc::new(Model::new(1)));
    let plain = miniport.create_allocation(0).unwrap();
    assert_eq!(plain, AllocationInfoFlags2::default());
    assert_eq!(miniport.driver_protection(0), DriverProtection::default());
    let compressed = miniport.create_allocation(COMPRESSED).unwrap();
    assert!(compressed.notify_eviction && compressed.notify_io_mmu_unmap);
    assert!(miniport.driver_protection(COMPRESSED).compressed);
    assert_eq!(miniport.create_allocation(2), Err(BadPrivateData(2)));
}
