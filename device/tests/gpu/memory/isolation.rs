// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests do not see each other, and nothing is left of a guest that went.

use crate::support::data::{noise, write_data};
use crate::support::rig::*;
use bellhop_device::gpu::GpuConfig;
use bellhop_host_kmd::ddi::paging::PageSize;
use bellhop_host_kmd::hardware::{
    CurrentValues as _, Memory as _, PageTables as _, PhysicalPage, Pte, Segment,
};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::fence::SignalFence;
use bellhop_protocol::packet::transfer::{Copy, Hash};
use std::sync::Arc;
use vm_memory::{GuestAddress, GuestMemoryBackend, GuestMemoryMmap};
use xxhash_rust::xxh64::xxh64;

#[test]
fn two_guests_use_the_same_addresses_and_slots_for_different_things() {
    let gpu = start();
    let mut first = Guest::attach_with(&gpu, 0);
    let mut second = Guest::attach_with(&gpu, 32);
    let (mut one, mut two) = (first.queue(COPY), second.queue(COPY));
    assert_eq!((one.binding, one.progress), (two.binding, two.progress));
    for round in 0..100u64 {
        first.submit_with_progress(&mut one, write_data(LOCAL + round * 8, &[1; 8]));
        second.submit_with_progress(&mut two, write_data(LOCAL + round * 8, &[2; 8]));
        first.submit_with_progress(&mut one, write_data(SYSTEM + round * 8, &[3; 8]));
        second.submit_with_progress(&mut two, write_data(SYSTEM + round * 8, &[4; 8]));
    }
    first.wait(one.progress, 200);
    second.wait(two.progress, 200);
    assert_eq!(first.read(LOCAL, 800), [1; 800]);
    assert_eq!(second.read(LOCAL, 800), [2; 800]);
    assert_eq!(first.read(SYSTEM, 800), [3; 800]);
    assert_eq!(second.read(SYSTEM, 800), [4; 800]);
    let signal = SignalFence::new(one.progress, 200);
    first.run(&mut one, Packets::new().then(signal));
    assert_eq!(gpu.fence_value(second.id, two.progress).unwrap(), 200);
}

#[test]
fn a_page_that_the_guest_does_not_have_is_not_mapped() {
    let mut guest = Guest::start();
    let beyond = |segment, address| Pte::new(PhysicalPage { segment, address }, true);
    let entries = [
        beyond(Segment::Local, SIZE),
        beyond(Segment::Local, 1 << 50),
        beyond(Segment::System, PHYSICAL - 0x1000),
        beyond(Segment::System, PHYSICAL + SIZE),
        Pte::from_bits(u64::MAX),
    ];
    guest.gpu.update_page_table(guest.space, 0x7000_0000, PageSize::Small, &entries).unwrap();
    for page in 0..entries.len() as u64 {
        let address = 0x7000_0000 + page * 0x1000;
        let mut queue = guest.queue(COPY);
        let hash = Hash::new(address, 8, 0, LOCAL);
        let fault = guest.run_into_fault(&mut queue, &Packets::new().then(hash));
        assert_eq!((fault.reason, fault.address), (FaultReason::READ_PAGE_FAULT, address));
    }
}

#[test]
fn when_guest_memory_changes_engines_use_the_new_and_forget_the_old() {
    let mut guest = Guest::start();
    let mut queue = guest.queue(COPY);
    guest.run(&mut queue, write_data(SYSTEM, b"old memory"));
    let old = Arc::clone(&guest.memory);
    let (new, data) = (guest_memory(), noise(100));
    guest.memory = Arc::clone(&new);
    guest.write(SYSTEM, &data);
    guest.gpu.update_guest_memory(guest.id, new);
    quiesce(&guest.gpu);
    guest.run(&mut queue, Packets::new().then(Hash::new(SYSTEM, 100, 0, LOCAL)));
    assert_eq!(guest.read_word(LOCAL), xxh64(&data, 0));
    let region = old.iter().next().unwrap().get_mmap();
    drop(old);
    // What was mapped is left to the thread that unmaps.
    eventually("nothing keeps the old memory", || Arc::strong_count(&region) == 1);
}

#[test]
fn memory_that_is_gone_faults() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let mut queue = guest.queue(COPY);
    guest.run(&mut queue, Packets::new().then(Copy::new(SYSTEM, LOCAL, 8)));
    assert!(gpu.is_guest_memory(guest.id, PHYSICAL, SIZE).unwrap());
    let elsewhere = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 0x1000)]).unwrap();
    gpu.update_guest_memory(guest.id, Arc::new(elsewhere));
    quiesce(&gpu);
    assert!(!gpu.is_guest_memory(guest.id, PHYSICAL, SIZE).unwrap());
    let fault = guest.run_into_fault(&mut queue, &Packets::new().then(Copy::new(SYSTEM, LOCAL, 8)));
    assert_eq!((fault.reason, fault.address), (FaultReason::READ_PAGE_FAULT, SYSTEM));
}

#[test]
fn nothing_is_left_of_a_guest_that_was_detached() {
    let gpu = start_with(GpuConfig { page_table_pages: 256, ..GpuConfig::default() });
    for _ in 0..50 {
        // The GPU would run out of page-table pages and physical doorbells if any were leaked.
        let mut guest = Guest::attach(&gpu);
        let mut queue = guest.queue(COPY);
        guest.run(&mut queue, Packets::new());
        let file = Arc::downgrade(&gpu.bar_file(guest.id).unwrap());
        let region = Arc::downgrade(&guest.memory.iter().next().unwrap().get_mmap());
        guest.detach(&[&queue]);
        quiesce(&gpu);
        eventually("the BAR goes", || file.strong_count() == 0);
        eventually("guest memory goes", || region.strong_count() == 0);
    }
}

#[test]
fn what_a_detached_guest_left_behind_goes_too() {
    let gpu = start_with(GpuConfig { page_table_pages: 256, ..GpuConfig::default() });
    for _ in 0..50 {
        let mut guest = Guest::attach(&gpu);
        let mut queue = guest.queue(COPY);
        guest.run(&mut queue, Packets::new());
        gpu.detach_guest(guest.id);
        assert!(gpu.bar_file(guest.id).is_none());
        quiesce(&gpu);
    }
}

#[test]
fn a_guest_that_takes_all_its_page_table_pages_leaves_others_theirs() {
    let gpu = start_with(GpuConfig { page_table_pages: 256, ..GpuConfig::default() });
    let greedy = Guest::attach(&gpu);
    let page = [Pte::new(PhysicalPage { segment: Segment::Local, address: 0 }, true)];
    let full = (0..512).find(|top| {
        gpu.update_page_table(greedy.space, top << 39 | 1 << 21, PageSize::Small, &page).is_err()
    });
    assert!(full.is_some());
    let mut other = Guest::attach(&gpu);
    let mut queue = other.queue(COPY);
    other.run(&mut queue, Packets::new());
}

#[test]
fn zeroed_local_memory_is_zero_for_engines_and_guests() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let mut queue = guest.queue(COPY);
    guest.write(LOCAL, &noise(0x4000));
    gpu.zero_memory(guest.id, Segment::Local, 0x1000, 0x2000).unwrap();
    let packets = Packets::new().then(Copy::new(LOCAL, SYSTEM, 0x4000));
    guest.run(&mut queue, packets);
    let expected = [&noise(0x4000)[..0x1000], &[0; 0x2000], &noise(0x4000)[0x3000..]].concat();
    assert!(guest.read(SYSTEM, 0x4000) == expected);
    assert_eq!(gpu.read_local_word(guest.id, 0x1000).unwrap(), 0);
    assert_ne!(gpu.read_local_word(guest.id, 0x3000).unwrap(), 0);
}
