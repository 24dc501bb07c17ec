// SPDX-License-Identifier: MIT OR Apache-2.0

//! Paging buffers in a guest's system context.

use crate::support::data::noise;
use crate::support::rig::*;
use crate::support::system::{System, page, power_down, read_pages, system_pages};
use bellhop_device::gpu::GpuConfig;
use bellhop_host_kmd::ddi::Miniport;
use bellhop_host_kmd::ddi::paging::{
    APERTURE_START, AllocationId, AllocationNotification, BuildPagingBufferError,
    InsufficientDmaBuffer, LOCAL_START, MAX_PAGES, PAGING_VA_START, PRIVATE_START, PageSize,
    PagingBuffer, PagingOperation,
};
use bellhop_host_kmd::hardware::{
    Engines as _, Fault, GpuSet, Memory as _, Pte, Segment, SystemContexts as _,
};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::bar::AreaKind;
use bellhop_protocol::control::allocation::Extent;
use bellhop_protocol::control::power::EnginePowerState;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::fence::SignalFence;
use bellhop_protocol::packet::flow::NOP;
use bellhop_protocol::packet::paging::{FlushTlb, WritePageTable};
use bellhop_protocol::packet::transfer::{Copy, Fill, Timestamp};
use bellhop_protocol::packet::{Opcode, PacketHeader};

#[test]
fn the_system_context_sees_both_local_segments_whole() {
    let guest = Guest::attach(&start());
    let mut system = System::of(&guest);
    let bytes = noise(3 * PAGE_SIZE as usize);
    guest.write(LOCAL, &bytes);
    let end = PRIVATE_START + SEGMENTS.private - bytes.len() as u64;
    let copies = Packets::new()
        .then(Copy::new(LOCAL_START, PRIVATE_START + 5, bytes.len() as u64))
        .then(Copy::new(PRIVATE_START + 5, end, bytes.len() as u64))
        .then(Copy::new(end, LOCAL_START + SIZE - bytes.len() as u64, bytes.len() as u64));
    system.run(copies);
    assert_eq!(guest.read(LOCAL + SIZE - bytes.len() as u64, bytes.len()), bytes);
}

#[test]
fn a_window_ends_with_its_segment() {
    let guest = Guest::attach(&start());
    let mut system = System::of(&guest);
    for (end, reason) in [
        (LOCAL_START + SIZE, FaultReason::WRITE_PAGE_FAULT),
        (PRIVATE_START + SEGMENTS.private, FaultReason::WRITE_PAGE_FAULT),
    ] {
        let fault = system.run_into_fault(Packets::new().then(NOP).then(Fill::new(end - 8, 16, 0)));
        assert_eq!(fault, Fault { reason, opcode: Opcode::FILL, address: end, read_pointer: 8 });
    }
}

#[test]
fn local_memory_in_the_guests_own_memory_is_what_the_window_shows() {
    let guest = Guest::attach(&start());
    let mut system = System::of(&guest);
    let extent = |page: u64, pages: u64| Extent {
        address: PHYSICAL + page * PAGE_SIZE,
        length: pages * PAGE_SIZE,
    };
    let extents = [extent(9, 1), extent(2, 2)];
    assert!(guest.gpu.place_area(guest.id, AreaKind::LOCAL_MEMORY, &extents).unwrap());
    let bytes = noise(3 * PAGE_SIZE as usize);
    guest.write(LOCAL, &[7; 16]);
    for (page, chunk) in [9, 2, 3].into_iter().zip(bytes.chunks(PAGE_SIZE as usize)) {
        guest.write(SYSTEM + page * PAGE_SIZE, chunk);
    }
    system.run(Packets::new().then(Copy::new(LOCAL_START, PRIVATE_START, 3 * PAGE_SIZE)));
    system.run(Packets::new().then(Fill::new(LOCAL_START, 3 * PAGE_SIZE, 0)).then(Copy::new(
        PRIVATE_START + PAGE_SIZE,
        LOCAL_START,
        PAGE_SIZE,
    )));
    let moved = &bytes[PAGE_SIZE as usize..2 * PAGE_SIZE as usize];
    assert_eq!(guest.read(SYSTEM + 9 * PAGE_SIZE, PAGE_SIZE as usize), moved);
    assert_eq!(guest.read(SYSTEM + 2 * PAGE_SIZE, 2 * PAGE_SIZE as usize), [0; 8192]);
    assert_eq!(guest.read(LOCAL, 16), [7; 16]);
    let behind = Packets::new().then(Fill::new(LOCAL_START + 3 * PAGE_SIZE, 4, 0));
    assert_eq!(system.run_into_fault(behind).reason, FaultReason::WRITE_PAGE_FAULT);
}

#[test]
fn the_aperture_and_the_paging_window_show_what_is_mapped_there_and_nothing_else() {
    let guest = Guest::attach(&start());
    let mut system = System::of(&guest);
    for va in [APERTURE_START, PAGING_VA_START] {
        let fault = system.run_into_fault(Packets::new().then(Copy::new(va, PRIVATE_START, 8)));
        assert_eq!((fault.reason, fault.address), (FaultReason::READ_PAGE_FAULT, va));
        let backing = page(Segment::Backing, SEGMENTS.backing - PAGE_SIZE);
        system.map(va, &[backing, page(Segment::System, PHYSICAL + PAGE_SIZE)]);
    }
    let bytes = noise(PAGE_SIZE as usize);
    guest.write(SYSTEM + PAGE_SIZE, &bytes);
    system.run(
        Packets::new()
            .then(Copy::new(PAGING_VA_START + PAGE_SIZE, APERTURE_START, PAGE_SIZE))
            .then(Fill::new(APERTURE_START + PAGE_SIZE, PAGE_SIZE, 0))
            .then(Copy::new(PAGING_VA_START, LOCAL_START, PAGE_SIZE)),
    );
    assert_eq!(guest.read(LOCAL, bytes.len()), bytes);
    assert_eq!(guest.read(SYSTEM + PAGE_SIZE, bytes.len()), vec![0; bytes.len()]);
}

#[test]
fn memory_that_is_given_back_is_zero() {
    let guest = Guest::attach(&start());
    let mut system = System::of(&guest);
    system.map(APERTURE_START, &[page(Segment::Backing, 0)]);
    for (segment, va) in [(Segment::Private, PRIVATE_START), (Segment::Backing, APERTURE_START)] {
        system.run(Packets::new().then(Fill::new(va, PAGE_SIZE, 0x0101_0101)));
        guest.gpu.zero_memory(guest.id, segment, 0, PAGE_SIZE).unwrap();
        system.run(Packets::new().then(Copy::new(va, LOCAL_START, PAGE_SIZE)));
        assert_eq!(guest.read(LOCAL, PAGE_SIZE as usize), [0; PAGE_SIZE as usize]);
    }
}

#[test]
fn a_paging_buffer_that_fails_is_named_and_the_next_is_executed_and_guests_notice_nothing() {
    let mut guest = Guest::start();
    let mut system = System::of(&guest);
    let node = system.context.node;
    let mut queue = guest.queue(node);
    let bad = Packets::new()
        .then(Fill::new(PRIVATE_START, 8, 1))
        .then(Copy::new(0, PRIVATE_START, 8))
        .then(Fill::new(PRIVATE_START, 8, 3));
    let good = Packets::new().then(Copy::new(PRIVATE_START, LOCAL_START, 8));
    let failed = system.submit(&bad);
    let last = system.submit(&good);
    system.wait(last);
    let fault = Fault {
        reason: FaultReason::READ_PAGE_FAULT,
        opcode: Opcode::COPY,
        address: 0,
        read_pointer: size_of::<Fill>() as u64,
    };
    assert_eq!(std::mem::take(&mut system.faults), [(failed, fault)]);
    assert_eq!(guest.read(LOCAL, 8), [1, 0, 0, 0, 1, 0, 0, 0]);
    // The host's buffers cannot signal a guest's fence: the host owns none.
    let slot = guest.fence(0);
    let signal = Packets::new().then(SignalFence::new(slot, 1));
    assert_eq!(system.run_into_fault(signal).reason, FaultReason::FENCE_NOT_OWNED);
    guest.run(&mut queue, Packets::new());
}

#[test]
fn the_host_precedes_guests_on_its_engine_and_its_buffers_are_bounded() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let mut system = System::of(&guest);
    let node = system.context.node;
    power_down(&gpu, node);
    let (queue, progress) = guest.kernel_mode_queue(node);
    let buffer = guest.buffer(&Packets::new().then(Timestamp::new(LOCAL)));
    guest.submit_kernel_mode(queue, buffer.gpu_va, buffer.size(), 1);
    for _ in 0..32 {
        system.submit(&Packets::new().then(Timestamp::new(LOCAL_START + 8)));
    }
    assert!(gpu.submit_paging(guest.id, &[], 33).is_err());
    gpu.set_engine_power(node, EnginePowerState::F0, 2).unwrap();
    guest.wait(progress, 1);
    system.wait(32);
    assert!(guest.read_word(LOCAL + 8) <= guest.read_word(LOCAL));
    assert!(guest.read_word(LOCAL + 8) > 0);
    system.run(Packets::new());
}

#[test]
fn a_guest_that_goes_with_unfinished_paging_leaves_another_guests_paging_alone() {
    let gpu = start_with(GpuConfig { page_table_pages: 256, ..GpuConfig::default() });
    let other = Guest::attach_with(&gpu, 32);
    let mut others = System::of(&other);
    for _ in 0..40 {
        let guest = Guest::attach(&gpu);
        let mut system = System::of(&guest);
        for _ in 0..20 {
            system.submit(&Packets::new().then(Fill::new(PRIVATE_START, SEGMENTS.private, 1)));
        }
        system.destroy();
        guest.detach(&[]);
        others.run(Packets::new().then(Fill::new(PRIVATE_START, 8, 1)));
    }
}

#[test]
fn a_transfer_between_a_segment_and_scattered_pages_of_the_guests_keeps_every_byte() {
    let guest = Guest::attach(&start());
    let mut system = System::of(&guest);
    let scattered = [7, 3, 4, 100, 5];
    let length = scattered.len() as u64 * PAGE_SIZE;
    let bytes = noise(length as usize);
    guest.write(LOCAL + PAGE_SIZE, &bytes);
    let pages = system_pages(&scattered);
    let aperture = APERTURE_START + 2 * PAGE_SIZE;
    system.perform(&[
        PagingOperation::MapApertureSegment { offset: 2 * PAGE_SIZE, pages: &pages },
        PagingOperation::Transfer {
            source: LOCAL_START + PAGE_SIZE,
            destination: aperture,
            length,
        },
        PagingOperation::Fill {
            destination: LOCAL_START + PAGE_SIZE,
            length,
            pattern: 0x0403_0201,
        },
        PagingOperation::Discard { address: LOCAL_START + PAGE_SIZE, length },
    ]);
    assert_eq!(read_pages(&guest, &scattered), bytes);
    assert_eq!(guest.read(LOCAL + PAGE_SIZE + length - 4, 8), [1, 2, 3, 4, 0, 0, 0, 0]);
    system.perform(&[
        PagingOperation::Transfer { source: aperture, destination: PRIVATE_START, length },
        PagingOperation::Transfer { source: PRIVATE_START, destination: LOCAL_START, length },
        PagingOperation::UnmapApertureSegment { offset: 2 * PAGE_SIZE, length },
    ]);
    assert_eq!(guest.read(LOCAL, bytes.len()), bytes);
    let after = Packets::new().then(Copy::new(aperture + PAGE_SIZE, LOCAL_START, 8));
    let fault = system.run_into_fault(after);
    assert_eq!((fault.reason, fault.address), (FaultReason::READ_PAGE_FAULT, aperture + PAGE_SIZE));
}

#[test]
fn pages_of_the_aperture_that_are_mapped_again_never_show_what_they_showed() {
    let guest = Guest::attach(&start());
    let mut system = System::of(&guest);
    for round in 0..100u64 {
        let number = [round % 50];
        let pages = system_pages(&number);
        let pattern = round as u32 + 1;
        system.perform(&[
            PagingOperation::MapApertureSegment { offset: 0, pages: &pages },
            PagingOperation::Fill { destination: APERTURE_START, length: PAGE_SIZE, pattern },
            PagingOperation::UnmapApertureSegment { offset: 0, length: PAGE_SIZE },
        ]);
        assert_eq!(read_pages(&guest, &number), pattern.to_le_bytes().repeat(1024), "{round}");
    }
}

#[test]
fn the_virtual_forms_work_where_the_paging_process_maps_what_they_are_about() {
    let guest = Guest::attach(&start());
    let mut system = System::of(&guest);
    let space = system.context.address_space;
    let backing = [9, 2].map(|number| page(Segment::Backing, number * PAGE_SIZE));
    let entries = backing.map(|page| Pte::new(page, true));
    let length = 2 * PAGE_SIZE;
    let chunk = PAGING_VA_START + 16 * PAGE_SIZE;
    system.perform(&[
        PagingOperation::UpdatePageTable {
            gpus: GpuSet::ALL,
            space,
            gpu_va: chunk,
            page_size: PageSize::Small,
            entries: &entries,
        },
        PagingOperation::VirtualFill { destination: chunk, length, pattern: 0x0505_0505 },
        PagingOperation::VirtualTransfer { source: chunk, destination: LOCAL_START, length },
        PagingOperation::UpdatePageTable {
            gpus: GpuSet::ALL,
            space,
            gpu_va: chunk,
            page_size: PageSize::Small,
            entries: &[Pte::INVALID; 2],
        },
        PagingOperation::FlushTlb { space },
    ]);
    assert_eq!(guest.read(LOCAL, length as usize), vec![5; length as usize]);
    let fault = system.run_into_fault(Packets::new().then(Fill::new(chunk, 4, 0)));
    assert_eq!(fault.reason, FaultReason::WRITE_PAGE_FAULT);
}

#[test]
fn privileged_packets_of_a_guest_are_unknown_packets_and_do_nothing() {
    let mut guest = Guest::start();
    let _system = System::of(&guest);
    let write = Packets::new().then(WritePageTable::new(0, 512, u64::MAX, 0));
    let odd = Packets::new().then(PacketHeader::new(Opcode::WRITE_PAGE_TABLE, 8, 0));
    let none = Packets::new().then(PacketHeader::new(Opcode(0x4F), 8, 0));
    for (packets, opcode) in
        [(write, 0x40), (odd, 0x40), (Packets::new().then(FlushTlb::new(0)), 0x41), (none, 0x4F)]
    {
        for node in [COMPUTE, COPY, COPY + 1] {
            let mut queue = guest.queue(node);
            let fault = guest.run_into_fault(&mut queue, &packets);
            let (reason, opcode, address) =
                (FaultReason::UNKNOWN_PACKET, Opcode(opcode), u64::from(opcode));
            assert_eq!(fault, Fault { reason, opcode, address, read_pointer: 0 });
            let buffer = guest.buffer(&packets);
            let mut queue = guest.queue(node);
            let fault = guest.run_into_fault(&mut queue, &Packets::new().then(buffer));
            assert_eq!((fault.reason, fault.opcode), (reason, opcode));
        }
    }
    let mut queue = guest.queue(COPY);
    guest.run(&mut queue, Packets::new().then(Copy::new(SYSTEM, LOCAL, 8)));
}

#[test]
fn an_operation_that_does_not_fit_is_not_begun_and_fits_into_the_next_buffer() {
    let guest = Guest::attach(&start());
    let mut system = System::of(&guest);
    let numbers: Vec<_> = (0..MAX_PAGES as u64).map(|number| number * number % 1000).collect();
    let pages = system_pages(&numbers);
    let map = |offset| PagingOperation::MapApertureSegment { offset, pages: &pages[..256] };
    let mut buffer = PagingBuffer::new();
    let mut built = 0;
    let error = loop {
        let before = buffer.clone();
        match system.miniport.build_paging_buffer(guest.id, &map(0), &mut buffer) {
            Ok(()) => built += 1,
            Err(error) => {
                assert_eq!(buffer, before);
                break error;
            }
        }
    };
    assert_eq!(error, BuildPagingBufferError::InsufficientDmaBuffer(InsufficientDmaBuffer));
    assert!(built > 1);
    system.run(Packets(buffer.packets().to_vec()));
    let all = PagingOperation::MapApertureSegment { offset: 0, pages: &pages };
    system.perform(&[all]);
    let destination = APERTURE_START + (MAX_PAGES as u64 - 1) * PAGE_SIZE;
    system.perform(&[PagingOperation::Fill { destination, length: PAGE_SIZE, pattern: 1 }]);
    assert_eq!(read_pages(&guest, &numbers[MAX_PAGES - 1..])[..4], [1, 0, 0, 0]);
}

#[test]
fn notifications_that_ask_nothing_of_the_gpu_are_done_at_once() {
    let guest = Guest::attach(&start());
    let mut system = System::of(&guest);
    let allocation = AllocationId(1);
    system.perform(&[
        PagingOperation::NotifyResidency { allocation, address: Some(LOCAL_START) },
        PagingOperation::NotifyAlloc {
            allocation,
            notification: AllocationNotification::IoMmuUnmap,
            offset: 0,
            length: PAGE_SIZE,
            gpu_va: 0,
            pages: &[],
        },
    ]);
    assert_eq!(system.miniport.paging_process_gpu_va_size(), 0);
}
