// SPDX-License-Identifier: MIT OR Apache-2.0

//! DMA buffers: packets with physical addresses, executed for a process in the guest's system context.

use crate::support::rig::*;
use crate::support::system::System;
use bellhop_host_kmd::ddi::dma_buffer::{DMA_BUFFERS_SIZE, DMA_BUFFERS_START};
use bellhop_host_kmd::ddi::paging::{APERTURE_START, LOCAL_START, PageSize};
use bellhop_host_kmd::hardware::{
    HwQueueDescription, HwQueueId, Interrupt, KernelSubmission, Memory as _, PageTables as _,
    PhysicalPage, Pte, Queues as _, Segment,
};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::fence::SignalFence;
use bellhop_protocol::packet::flow::NOP;
use bellhop_protocol::packet::paging::{FlushTlb, WritePageTable};
use bellhop_protocol::packet::transfer::{Copy, Fill};

/// A queue of the guest's process with physical addresses.
fn basic_queue(guest: &mut Guest, system: &System, node: u32) -> (HwQueueId, u32) {
    let progress_fence = guest.fence(0);
    let address_space = system.context.address_space;
    let description = guest.description(node, progress_fence);
    let description = HwQueueDescription { address_space, ..description };
    (guest.gpu.create_hw_queue(description).unwrap(), progress_fence)
}

/// Submits packets at this offset of the DMA buffers.
fn submit(guest: &Guest, queue: HwQueueId, offset: u64, packets: &Packets, count: u64) {
    guest.gpu.write_dma_buffer(guest.id, offset, &packets.0).unwrap();
    guest.submit_kernel_mode(queue, DMA_BUFFERS_START + offset, packets.0.len() as u32, count);
}

#[test]
fn a_dma_buffer_reaches_what_the_aperture_shows_and_signals_its_process_s_fences() {
    let mut guest = Guest::start();
    let system = System::of(&guest);
    let space = system.context.address_space;
    // Two pages that are not adjacent, mapped as one range.
    for (index, page) in [3, 1].into_iter().enumerate() {
        let address = PHYSICAL + page * PAGE_SIZE;
        let entry = Pte::new(PhysicalPage { segment: Segment::System, address }, true);
        let place = APERTURE_START + index as u64 * PAGE_SIZE;
        guest.gpu.update_page_table(space, place, PageSize::Small, &[entry]).unwrap();
    }
    let own = guest.fence(0);
    for node in [COMPUTE, COPY] {
        let (queue, progress) = basic_queue(&mut guest, &system, node);
        let last = DMA_BUFFERS_SIZE - PAGE_SIZE;
        for (count, offset) in [(1, 0), (2, PAGE_SIZE), (3, last)] {
            let packets = Packets::new()
                .then(Fill::new(APERTURE_START + PAGE_SIZE - 8, 16, count as u32))
                .then(SignalFence::new(own, u64::from(node) * 10 + count));
            submit(&guest, queue, offset, &packets, count);
            guest.wait(progress, count);
            assert_eq!(guest.gpu.current_fence(queue).unwrap(), count);
            let filled = count << 32 | count;
            assert_eq!(guest.read_word(SYSTEM + 4 * PAGE_SIZE - 8), filled);
            assert_eq!(guest.read_word(SYSTEM + PAGE_SIZE), filled);
        }
        assert_eq!(guest.published(own), u64::from(node) * 10 + 3);
    }
}

#[test]
fn a_completion_is_there_before_its_progress_fence_is_signaled() {
    let mut guest = Guest::start();
    let system = System::of(&guest);
    let (queue, progress) = basic_queue(&mut guest, &system, COPY);
    for count in 1..=500 {
        submit(&guest, queue, 0, &Packets::new().then(NOP), count);
        guest.wait(progress, count);
        // The buffer is not needed any more: the next one reuses its place.
        assert_eq!(guest.gpu.current_fence(queue).unwrap(), count);
    }
}

#[test]
fn no_packet_writes_a_dma_buffer_and_a_dma_buffer_has_no_privilege() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let system = System::of(&guest);
    let own = guest.fence(0);
    let other = gpu.create_address_space(guest.id).unwrap();
    create_fence(&gpu, guest.id, 40, other, 0);
    create_fence(&gpu, guest.id, 41, system.context.address_space, 0);
    let page_table = WritePageTable::new(0, 1, u64::MAX, 0);
    let target = DMA_BUFFERS_START + PAGE_SIZE;
    for (packets, reason, address) in [
        (Packets::new().then(FlushTlb::new(0)), FaultReason::UNKNOWN_PACKET, 0x41),
        (Packets::new().then(page_table), FaultReason::UNKNOWN_PACKET, 0x40),
        (Packets::new().then(Fill::new(target, 8, 0)), FaultReason::WRITE_PAGE_FAULT, target),
        (
            Packets::new().then(Fill::new(APERTURE_START, 8, 0)),
            FaultReason::WRITE_PAGE_FAULT,
            APERTURE_START,
        ),
        (Packets::new().then(SignalFence::new(40, 1)), FaultReason::FENCE_NOT_OWNED, 40),
        (Packets::new().then(SignalFence::new(41, 1)), FaultReason::FENCE_NOT_OWNED, 41),
    ] {
        let (queue, progress) = basic_queue(&mut guest, &system, COPY);
        submit(&guest, queue, 0, &packets, 1);
        let fault = loop {
            let found = take_interrupts(&gpu).into_iter().find_map(|interrupt| match interrupt {
                Interrupt::PageFault { queue: faulted, fault }
                | Interrupt::HwQueueFault { queue: faulted, fault }
                    if faulted == queue =>
                {
                    Some(fault)
                }
                _ => None,
            });
            if let Some(fault) = found {
                break fault;
            }
        };
        assert_eq!((fault.reason, fault.address), (reason, address));
        assert_eq!((guest.published(progress), gpu.current_fence(queue).unwrap()), (0, 0));
    }
    assert_eq!(guest.published(own), 0);
}

#[test]
fn no_process_reaches_dma_buffers_or_physical_addresses() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let system = System::of(&guest);
    let (queue, progress) = basic_queue(&mut guest, &system, COPY);
    submit(&guest, queue, 0, &Packets::new().then(NOP), 1);
    guest.wait(progress, 1);
    for address in [DMA_BUFFERS_START, LOCAL_START, APERTURE_START] {
        let mut queue = guest.queue(COPY);
        let packets = Packets::new().then(Copy::new(address, LOCAL, 8));
        let fault = guest.run_into_fault(&mut queue, &packets);
        assert_eq!((fault.reason, fault.address), (FaultReason::READ_PAGE_FAULT, address));
        // The engine fetches no packets from there either.
        let (queue, _) = guest.kernel_mode_queue(COPY);
        guest.submit_kernel_mode(queue, address, 8, 1);
        let fault = fault_of(&gpu, queue);
        assert_eq!((fault.reason, fault.address), (FaultReason::READ_PAGE_FAULT, address));
    }
}

#[test]
fn each_guest_has_dma_buffers_of_its_own() {
    let gpu = start();
    let [mut one, mut two] = [0, 1].map(|_| Guest::attach(&gpu));
    let systems = [System::of(&one), System::of(&two)];
    let first = basic_queue(&mut one, &systems[0], COPY);
    let second = basic_queue(&mut two, &systems[1], COPY);
    for (guest, system, fill) in [(&one, &systems[0], 1), (&two, &systems[1], 2)] {
        let entry = Pte::new(PhysicalPage { segment: Segment::Local, address: 0 }, true);
        let space = system.context.address_space;
        gpu.update_page_table(space, APERTURE_START, PageSize::Small, &[entry]).unwrap();
        let packets = Packets::new().then(Fill::new(APERTURE_START, 8, fill));
        gpu.write_dma_buffer(guest.id, 0, &packets.0).unwrap();
    }
    for (guest, (queue, progress), fill) in [(&one, first, 1u64), (&two, second, 2)] {
        let submission = KernelSubmission {
            gpu_va: DMA_BUFFERS_START,
            size: 24,
            progress_fence_value: 1,
            submission_fence: fill,
        };
        gpu.submit_kernel_mode(queue, submission).unwrap();
        gpu.kick(queue).unwrap();
        guest.wait(progress, 1);
        assert_eq!(guest.read_word(LOCAL), fill << 32 | fill);
    }
}
