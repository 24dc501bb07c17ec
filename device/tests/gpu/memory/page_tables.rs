// SPDX-License-Identifier: MIT OR Apache-2.0

//! Page tables that paging changes, and the engines' translations of them.

use crate::support::data::noise;
use crate::support::rig::*;
use crate::support::system::{System, page, power_down, read_pages, system_pages};
use bellhop_device::gpu::{Gpu, GpuConfig};
use bellhop_host_kmd::ddi::Miniport;
use bellhop_host_kmd::ddi::paging::{
    APERTURE_START, BuildPagingBufferError, LOCAL_START, PRIVATE_START, PageSize, PagingBuffer,
    PagingOperation,
};
use bellhop_host_kmd::hardware::{
    AccessedBits as _, AddressSpaceId, Doorbells as _, Engines as _, GpuSet, PageTables as _, Pte,
    Queues as _, Quiescence as _, Segment, UnknownId,
};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::power::EnginePowerState;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::transfer::{Copy, Fill};

#[test]
fn a_page_that_an_engine_accesses_is_noted_once_in_each_walk_of_page_tables() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let mut queue = guest.queue(COPY);
    let length = 64 * PAGE_SIZE;
    let used = LOCAL + SIZE - length;
    let is_used = |at: u64, length: u64| gpu.take_accessed(guest.space, at, length).unwrap();
    let write = |guest: &Guest, queue: &mut Queue| {
        guest.run(queue, Packets::new().then(Fill::new(used + 3 * PAGE_SIZE, 8, 7)));
    };
    write(&guest, &mut queue);
    assert!(!is_used(used, 3 * PAGE_SIZE) && !is_used(used + 4 * PAGE_SIZE, length));
    assert!(is_used(used, length));
    assert!(!is_used(used, length), "it was told");
    gpu.forget_translations();
    // Whether the engine has slept or not.
    for asleep in [false, true] {
        write(&guest, &mut queue);
        eventually("the engine walks page tables anew", || {
            write(&guest, &mut queue);
            is_used(used, length)
        });
        if asleep {
            wait_until_asleep(&gpu);
        }
        gpu.forget_translations();
    }
    // Clearing accessed bits left the entries intact: writes reached their page.
    assert_eq!(guest.read(used + 3 * PAGE_SIZE, 8), [7, 0, 0, 0, 7, 0, 0, 0]);
    guest.unmap(used, length);
    assert!(!is_used(used, length));
    let no_space = AddressSpaceId(u64::MAX);
    let unknown = Err(UnknownId::AddressSpace(no_space));
    assert_eq!(gpu.take_accessed(no_space, 0, PAGE_SIZE), unknown);
    assert!(!is_used((1 << 48) - PAGE_SIZE, 2 * PAGE_SIZE), "at the end of all addresses");
}

#[test]
fn what_one_guest_has_forgotten_its_neighbour_remembers() {
    let gpu = start();
    let mut guests = [0, 32].map(|doorbell| {
        let mut guest = Guest::attach_with(&gpu, doorbell);
        let queue = guest.queue(COPY);
        (guest, queue)
    });
    let page = LOCAL + SIZE - PAGE_SIZE;
    // Whether the engine walks page tables for each guest's write.
    let walks = |guests: &mut [(Guest, Queue); 2]| {
        guests.each_mut().map(|(guest, queue)| {
            guest.run(queue, Packets::new().then(Fill::new(page, 8, 7)));
            gpu.take_accessed(guest.space, page, PAGE_SIZE).unwrap()
        })
    };
    assert_eq!([walks(&mut guests), walks(&mut guests)], [[true; 2], [false; 2]]);
    for _ in 0..10 {
        let (guest, _) = &mut guests[0];
        let mut short_lived = guest.queue(COPY);
        guest.run(&mut short_lived, Packets::new());
        gpu.unwatch(guest.physical_doorbell(&short_lived)).unwrap();
        gpu.destroy_hw_queue(short_lived.id).unwrap();
        let ticket = gpu.quiesce(Some(guest.id));
        eventually("the ticket passes", || gpu.quiesced() >= ticket);
        assert_eq!(walks(&mut guests), [true, false]);
    }
}

fn large_update(space: AddressSpaceId, gpu_va: u64, entries: &[Pte]) -> PagingOperation<'_> {
    PagingOperation::UpdatePageTable {
        gpus: GpuSet::ALL,
        space,
        gpu_va,
        page_size: PageSize::Large,
        entries,
    }
}

/// Where a guest maps memory that paging moves.
const MOVING: u64 = 0x5000_0000;

#[test]
fn a_page_table_is_updated_when_the_updates_turn_comes_and_not_before() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let mut system = System::of(&guest);
    let mut queue = guest.queue(COPY);
    assert_ne!(system.context.node, COPY);
    let entries = [Pte::new(page(Segment::Private, 0), true)];
    let update = system.build(&[
        PagingOperation::Fill { destination: PRIVATE_START, length: PAGE_SIZE, pattern: 7 },
        PagingOperation::UpdatePageTable {
            gpus: GpuSet::ALL,
            space: guest.space,
            gpu_va: MOVING,
            page_size: PageSize::Small,
            entries: &entries,
        },
    ]);
    power_down(&gpu, system.context.node);
    let fence = system.submit(&update);
    let mut before = guest.queue(COPY);
    let early = Packets::new().then(Copy::new(MOVING, LOCAL, 8));
    assert_eq!(guest.run_into_fault(&mut before, &early).reason, FaultReason::READ_PAGE_FAULT);
    gpu.set_engine_power(system.context.node, EnginePowerState::F0, 2).unwrap();
    system.wait(fence);
    guest.run(&mut queue, Packets::new().then(Copy::new(MOVING, LOCAL, 4)));
    assert_eq!(guest.read(LOCAL, 4), [7, 0, 0, 0]);
}

#[test]
fn after_a_flush_no_engine_uses_an_old_entry() {
    let mut guest = Guest::start();
    let mut system = System::of(&guest);
    let mut queues = [guest.queue(COMPUTE), guest.queue(COPY)];
    for round in 0..200u64 {
        let place = page(Segment::Private, round % 3 * PAGE_SIZE);
        let entries = [Pte::new(place, round % 2 == 0)];
        let destination = PRIVATE_START + place.address;
        system.perform(&[
            PagingOperation::UpdatePageTable {
                gpus: GpuSet::ALL,
                space: guest.space,
                gpu_va: MOVING,
                page_size: PageSize::Small,
                entries: &entries,
            },
            PagingOperation::FlushTlb { space: guest.space },
            PagingOperation::Fill { destination, length: PAGE_SIZE, pattern: round as u32 },
        ]);
        for queue in &mut queues {
            guest.run(queue, Packets::new().then(Copy::new(MOVING + 128, LOCAL, 4)));
            assert_eq!(guest.read(LOCAL, 4), (round as u32).to_le_bytes());
        }
    }
}

#[test]
fn pages_of_64_kib_are_translated_whole_protected_and_taken_away() {
    let mut guest = Guest::start();
    let mut system = System::of(&guest);
    let large = PageSize::Large.bytes();
    let entries = [
        Pte::new(page(Segment::Private, 3 * large), true),
        Pte::new(page(Segment::Private, large), false),
    ];
    let space = guest.space;
    system.perform(&[large_update(space, MOVING, &entries)]);
    // A small page is beside them, in the range of their table.
    guest.map(MOVING + 2 * large, Segment::Local, 8 * PAGE_SIZE, PAGE_SIZE, true);
    let bytes = noise(large as usize + 8);
    guest.write(LOCAL + 16 * PAGE_SIZE, &bytes);
    let mut queue = guest.queue(COPY);
    let source = LOCAL + 16 * PAGE_SIZE;
    guest.run(&mut queue, Packets::new().then(Copy::new(source, MOVING, large)));
    guest.run(&mut queue, Packets::new().then(Copy::new(source, MOVING + 2 * large, 64)));
    assert_eq!(guest.read(LOCAL + 8 * PAGE_SIZE, 64), bytes[..64]);
    system.perform(&[PagingOperation::Transfer {
        source: PRIVATE_START + 3 * large,
        destination: LOCAL_START,
        length: large,
    }]);
    assert_eq!(guest.read(LOCAL, large as usize), bytes[..large as usize]);
    let fault =
        guest.run_into_fault(&mut queue, &Packets::new().then(Fill::new(MOVING + large - 4, 8, 0)));
    assert_eq!(
        (fault.reason, fault.address),
        (FaultReason::WRITE_PROTECTION_FAULT, MOVING + large)
    );
    system.perform(&[
        large_update(space, MOVING, &[Pte::INVALID; 2]),
        PagingOperation::FlushTlb { space },
    ]);
    let mut queue = guest.queue(COPY);
    let read = Packets::new().then(Copy::new(MOVING + 0x8000, LOCAL, 8));
    let fault = guest.run_into_fault(&mut queue, &read);
    assert_eq!((fault.reason, fault.address), (FaultReason::READ_PAGE_FAULT, MOVING + 0x8000));
}

#[test]
fn a_large_page_that_is_not_all_memory_is_not_there() {
    let mut guest = Guest::start();
    let system = System::of(&guest);
    let end = PHYSICAL + SIZE;
    let entries = [Pte::new(page(Segment::System, end - end % (64 << 10)), true)];
    assert_eq!(end % (64 << 10), 0);
    guest.gpu.update_page_table(guest.space, MOVING, PageSize::Large, &entries).unwrap();
    let mut queue = guest.queue(COPY);
    let read = Packets::new().then(Copy::new(MOVING, LOCAL, 8));
    assert_eq!(guest.run_into_fault(&mut queue, &read).reason, FaultReason::READ_PAGE_FAULT);
    system.destroy();
}

#[test]
fn an_update_after_the_end_of_its_address_space_writes_no_other_tables() {
    let gpu = start_with(GpuConfig { page_table_pages: 256, ..GpuConfig::default() });
    let mut guest = Guest::attach(&gpu);
    let mut system = System::of(&guest);
    let node = system.context.node;
    let doomed = gpu.create_address_space(guest.id).unwrap();
    let entries = [Pte::new(page(Segment::System, PHYSICAL), true); 512];
    let update = system.build(&[PagingOperation::UpdatePageTable {
        gpus: GpuSet::ALL,
        space: doomed,
        gpu_va: 0,
        page_size: PageSize::Small,
        entries: &entries,
    }]);
    power_down(&gpu, node);
    let fence = system.submit(&update);
    quiesce(&gpu);
    gpu.destroy_address_space(doomed).unwrap();
    // Takes the free nodes.
    let heir = gpu.create_address_space(guest.id).unwrap();
    const HEIRS: u64 = 512 * PAGE_SIZE;
    let local = [Pte::new(page(Segment::Local, 0), true)];
    gpu.update_page_table(heir, HEIRS, PageSize::Small, &local).unwrap();
    gpu.set_engine_power(node, EnginePowerState::F0, 2).unwrap();
    system.wait(fence);
    guest.space = heir;
    guest.map(LOCAL, Segment::Local, 0, SIZE, true);
    guest.write(SYSTEM, &[1; 8]);
    guest.write(LOCAL + 64, &[2; 8]);
    let mut queue = guest.queue(COPY);
    guest.run(&mut queue, Packets::new().then(Copy::new(HEIRS + 64, LOCAL, 8)));
    assert_eq!(guest.read(LOCAL, 8), [2; 8]);
    assert_eq!(system.faults, []);
}

#[test]
fn without_page_table_memory_nothing_is_built_and_what_was_never_mapped_can_be_unmapped() {
    let gpu = start_with(GpuConfig { page_table_pages: 128, ..GpuConfig::default() });
    let guest = Guest::attach(&gpu);
    let mut system = System::of(&guest);
    let entries = [Pte::new(page(Segment::Private, 0), true)];
    let space = guest.space;
    let mut buffer = PagingBuffer::new();
    let full = (1..100).find_map(|number| {
        let before = buffer.clone();
        let update = large_update(space, number << 39, &entries);
        let built = system.miniport.build_paging_buffer(guest.id, &update, &mut buffer);
        built.is_err().then(|| {
            assert_eq!(buffer, before);
            (number, built)
        })
    });
    let (number, built) = full.unwrap();
    assert!(matches!(built, Err(BuildPagingBufferError::Hardware(_))), "{built:?}");
    system.run(Packets(buffer.packets().to_vec()));
    system.perform(&[
        large_update(space, (number + 1) << 39, &[Pte::INVALID]),
        PagingOperation::UnmapApertureSegment { offset: 0, length: PAGE_SIZE },
    ]);
}

#[test]
fn a_flush_of_what_only_this_engine_used_asks_nothing_of_the_others() {
    let gpu = start();
    let guest = Guest::attach(&gpu);
    let mut system = System::of(&guest);
    let pages = system_pages(&[1]);
    wait_until_asleep(&gpu);
    let wakeups = |gpu: &Gpu| gpu.engine_habits().iter().map(|engine| engine.wakeups).sum::<u64>();
    let before = wakeups(&gpu);
    let operations = [
        PagingOperation::MapApertureSegment { offset: 0, pages: &pages },
        PagingOperation::Fill { destination: APERTURE_START, length: PAGE_SIZE, pattern: 1 },
        PagingOperation::UnmapApertureSegment { offset: 0, length: PAGE_SIZE },
    ];
    system.perform(&operations);
    assert_eq!(wakeups(&gpu), before + 1, "more than the engine that executed it woke");
    assert_eq!(read_pages(&guest, &[1])[..4], [1, 0, 0, 0]);
}
