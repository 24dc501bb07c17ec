//! The system context and its paging buffers.

use crate::bench::{Bench, RESOURCES};
use crate::model::Model;
use bellhop_host_kmd::ddi::Miniport;
use bellhop_host_kmd::ddi::paging::PagingBuffer;
use bellhop_host_kmd::hardware::{Fault, GuestId, Hardware, Interrupt};
use bellhop_host_kmd::miniport::BellhopMiniport;
use bellhop_host_kmd::port::Input;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::Opcode;
use bellhop_protocol::status::Status;
use std::sync::Arc;

const GUEST: GuestId = GuestId(1);

fn buffer(packets: &[u8]) -> PagingBuffer {
    let mut buffer = PagingBuffer::new();
    buffer.append(packets).unwrap();
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
    // Engines may execute it until they have passed the first ticket, and translate until the next.
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
        miniport.submit_paging(GUEST, &buffer(&[fence as u8; 8]), fence).unwrap();
    }
    assert!(miniport.submit_paging(GUEST, &buffer(&[9; 8]), 9).is_err());
    let fault = Fault {
        reason: FaultReason::READ_PAGE_FAULT,
        opcode: Opcode::COPY,
        address: 0x1000,
        read_pointer: 0,
    };
    assert_eq!(model.fail_paging(GUEST, fault), [3; 8]);
    assert_eq!(model.complete_paging(GUEST), [7; 8]);
    let expected = [
        Interrupt::PagingFaulted { guest: GUEST, fence: 3, fault },
        Interrupt::PagingCompleted { guest: GUEST, fence: 3 },
        Interrupt::PagingCompleted { guest: GUEST, fence: 7 },
    ];
    assert_eq!(model.take_interrupts(), expected);
}
