// SPDX-License-Identifier: MIT OR Apache-2.0

//! Compressed memory: plain to engines, encoded to CPUs until it is evicted.

use crate::support::data::noise;
use crate::support::rig::*;
use crate::support::system::System;
use bellhop_host_kmd::ddi::paging::{
    APERTURE_START, AllocationId, AllocationNotification, LOCAL_START, PAGING_VA_START,
    PRIVATE_START, PageSize, PagingOperation,
};
use bellhop_host_kmd::hardware::{
    Doorbells as _, DriverProtection, GpuSet, PageTables as _, PhysicalPage, Pte, Queues as _,
    RingBinding, Segment,
};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::allocation::Extent;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::dispatch::{Dispatch, Kernel};
use bellhop_protocol::packet::flow::NOP;
use bellhop_protocol::packet::transfer::{
    COMPARE_EQUAL, Compare, Copy, Fill, Hash, Timestamp, WriteData,
};
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where a guest maps compressed memory, and plain pages of equal size to copy to and from.
const COMPRESSED: u64 = 0x6000_0000;
const PLAIN: u64 = LOCAL;
const PAGES: u64 = 8;
const LENGTH: u64 = PAGES * PAGE_SIZE;

/// Bytes that can be encoded: counters in words.
fn counters(length: u64) -> Vec<u8> {
    (0..length / 8).flat_map(|index| (index * 5).to_le_bytes()).collect()
}

/// Maps pages of a segment as compressed.
fn map_compressed(guest: &Guest, segment: Segment, address: u64) {
    let protection = DriverProtection { compressed: true, protected: false };
    let pages =
        (0..PAGES).map(|page| PhysicalPage { segment, address: address + page * PAGE_SIZE });
    let entries: Vec<_> = pages.map(|page| Pte::new(page, true).protected(protection)).collect();
    guest.gpu.update_page_table(guest.space, COMPRESSED, PageSize::Small, &entries).unwrap();
}

/// Evicts pages as dxgkrnl does: maps them for the paging process, notifies and unmaps.
fn evict(system: &mut System, segment: Segment, address: u64) {
    let pages =
        (0..PAGES).map(|page| PhysicalPage { segment, address: address + page * PAGE_SIZE });
    let entries: Vec<_> = pages.map(|page| Pte::new(page, true)).collect();
    let space = system.context.address_space;
    let update = |entries| PagingOperation::UpdatePageTable {
        gpus: GpuSet::ALL,
        space,
        gpu_va: PAGING_VA_START,
        page_size: PageSize::Small,
        entries,
    };
    system.perform(&[
        update(&entries),
        PagingOperation::NotifyAlloc {
            allocation: AllocationId(1),
            notification: AllocationNotification::Eviction,
            offset: 0,
            length: LENGTH,
            gpu_va: PAGING_VA_START,
            pages: &[],
        },
        update(&[Pte::INVALID; PAGES as usize]),
        PagingOperation::FlushTlb { space },
    ]);
}

fn copy(from: u64, to: u64) -> Packets {
    Packets::new().then(Copy::new(from, to, LENGTH))
}

#[test]
fn engines_see_plain_bytes_the_cpu_encoded_ones_until_the_eviction_is_notified() {
    let mut guest = Guest::start();
    let mut system = System::of(&guest);
    let mut queues = [guest.queue(COPY), guest.queue(COMPUTE)];
    map_compressed(&guest, Segment::System, PHYSICAL);
    let bytes = counters(LENGTH);
    for round in 0..3u8 {
        let bytes: Vec<_> = bytes.iter().map(|byte| byte.wrapping_add(round)).collect();
        guest.write(PLAIN, &bytes);
        guest.run(&mut queues[0], copy(PLAIN, COMPRESSED));
        let seen = guest.read(SYSTEM, LENGTH as usize);
        for (page, plain) in seen.chunks(4096).zip(bytes.chunks(4096)) {
            assert_ne!(page, plain, "what the CPU sees is encoded");
            assert_eq!(page[2048..], [0; 2048], "and shorter");
        }
        guest.run(&mut queues[1], copy(COMPRESSED, PLAIN + LENGTH));
        assert_eq!(guest.read(PLAIN + LENGTH, LENGTH as usize), bytes);
        evict(&mut system, Segment::System, PHYSICAL);
        assert_eq!(guest.read(SYSTEM, LENGTH as usize), bytes);
        // In device access again, the bytes are intact.
        guest.run(&mut queues[1], copy(COMPRESSED, PLAIN + LENGTH));
        assert_eq!(guest.read(PLAIN + LENGTH, LENGTH as usize), bytes);
    }
}

#[test]
fn noise_cannot_be_encoded_and_stays_as_it_is() {
    let mut guest = Guest::start();
    let mut queue = guest.queue(COPY);
    map_compressed(&guest, Segment::System, PHYSICAL);
    let bytes = noise(LENGTH as usize);
    guest.write(PLAIN, &bytes);
    guest.run(&mut queue, copy(PLAIN, COMPRESSED));
    assert_eq!(guest.read(SYSTEM, LENGTH as usize), bytes);
    guest.run(&mut queue, copy(COMPRESSED, PLAIN + LENGTH));
    assert_eq!(guest.read(PLAIN + LENGTH, LENGTH as usize), bytes);
}

#[test]
fn what_the_cpu_stores_into_a_page_is_never_decoded() {
    let mut guest = Guest::start();
    let mut system = System::of(&guest);
    let mut queue = guest.queue(COPY);
    map_compressed(&guest, Segment::System, PHYSICAL);
    guest.write(PLAIN, &counters(LENGTH));
    guest.run(&mut queue, copy(PLAIN, COMPRESSED));
    let mut seen = guest.read(SYSTEM, LENGTH as usize);
    seen[17] ^= 1;
    seen[4096..8192].copy_from_slice(&noise(4096));
    guest.write(SYSTEM, &seen[..8192]);
    guest.run(&mut queue, copy(COMPRESSED, PLAIN));
    let read = guest.read(PLAIN, LENGTH as usize);
    assert_eq!(read[..8192], seen[..8192]);
    assert_eq!(read[8192..], counters(LENGTH)[8192..]);
    // A dump of encoded bytes is ordinary data.
    guest.run(&mut queue, copy(PLAIN, COMPRESSED));
    let dump = guest.read(SYSTEM, LENGTH as usize);
    guest.write(PLAIN, &dump);
    guest.run(&mut queue, copy(PLAIN, COMPRESSED));
    guest.run(&mut queue, copy(COMPRESSED, PLAIN + LENGTH));
    assert_eq!(guest.read(PLAIN + LENGTH, LENGTH as usize), dump);
    evict(&mut system, Segment::System, PHYSICAL);
    assert_eq!(guest.read(SYSTEM, LENGTH as usize), dump);
}

#[test]
fn paging_moves_encoded_pages_as_they_are_between_all_segments() {
    let mut guest = Guest::start();
    let mut system = System::of(&guest);
    let mut queue = guest.queue(COPY);
    let bytes = counters(LENGTH);
    guest.write(PLAIN, &bytes);
    map_compressed(&guest, Segment::Private, 3 * PAGE_SIZE);
    guest.run(&mut queue, copy(PLAIN, COMPRESSED));
    let transfer =
        |source, destination| PagingOperation::Transfer { source, destination, length: LENGTH };
    let pages: Vec<_> = (0..PAGES)
        .map(|page| PhysicalPage {
            segment: if page % 2 == 0 { Segment::Backing } else { Segment::System },
            address: PHYSICAL + (PAGES - page) * PAGE_SIZE,
        })
        .collect();
    system.perform(&[
        // A short operation first, so that a step ends in the middle of a page.
        PagingOperation::Fill { destination: PRIVATE_START, length: PAGE_SIZE, pattern: 0 },
        PagingOperation::MapApertureSegment { offset: 0, pages: &pages },
        transfer(PRIVATE_START + 3 * PAGE_SIZE, APERTURE_START),
        PagingOperation::Fill {
            destination: PRIVATE_START + 3 * PAGE_SIZE,
            length: LENGTH,
            pattern: 9,
        },
        transfer(APERTURE_START, LOCAL_START + 64 * PAGE_SIZE),
    ]);
    let at = LOCAL + 64 * PAGE_SIZE;
    assert_ne!(guest.read(at, LENGTH as usize), bytes);
    map_compressed(&guest, Segment::Local, 64 * PAGE_SIZE);
    guest.run(&mut queue, copy(COMPRESSED, PLAIN + LENGTH));
    assert_eq!(guest.read(PLAIN + LENGTH, LENGTH as usize), bytes);
    evict(&mut system, Segment::Local, 64 * PAGE_SIZE);
    assert_eq!(guest.read(at, LENGTH as usize), bytes);
}

#[test]
fn words_and_kernels_reach_compressed_pages_and_a_ring_is_not_there() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let mut queue = guest.queue(COMPUTE);
    map_compressed(&guest, Segment::System, PHYSICAL);
    guest.write(PLAIN, &noise(LENGTH as usize));
    let xor = |from, to| Dispatch::new(Kernel::XOR_STREAM, from, to, LENGTH, 7);
    let (words, results) = (COMPRESSED + 16, COMPRESSED + 4096);
    guest.run(
        &mut queue,
        Packets::new()
            .then(xor(PLAIN, COMPRESSED))
            .then(xor(COMPRESSED, COMPRESSED))
            .then(Hash::new(COMPRESSED, LENGTH, 3, PLAIN + LENGTH))
            .then(Hash::new(PLAIN, LENGTH, 3, PLAIN + LENGTH + 8))
            .then(Compare::new(COMPRESSED, PLAIN, LENGTH, words))
            .then(Fill::new(results, 64, 1))
            .then(Timestamp::new(results))
            .then(Dispatch::new(Kernel::SPIN_UNTIL, results, results + 8, 8, 2))
            .then(Copy::new(words, PLAIN + LENGTH + 16, 8))
            .then(Copy::new(results, PLAIN + LENGTH + 24, 16)),
    );
    let word = |index: u64| guest.read_word(PLAIN + LENGTH + index * 8);
    assert_eq!(word(0), word(1));
    assert_eq!(word(2), COMPARE_EQUAL);
    assert!(word(3) > 2 && word(3) == word(4));

    let mut other = guest.disconnected_queue(COPY);
    gpu.unbind_ring(other.id).unwrap();
    other.binding = RingBinding { control_va: COMPRESSED, ..other.binding };
    gpu.bind_ring(other.id, other.binding).unwrap();
    gpu.kick(other.id).unwrap();
    let fault = fault_of(&gpu, other.id);
    assert_eq!(fault.reason, FaultReason::READ_PAGE_FAULT);
}

#[test]
fn a_guest_that_scribbles_over_encoded_pages_only_reads_other_bytes() {
    let mut guest = Guest::start();
    let mut queue = guest.queue(COPY);
    map_compressed(&guest, Segment::System, PHYSICAL);
    guest.write(PLAIN, &counters(LENGTH));
    let done = AtomicBool::new(false);
    let memory = guest.memory.clone();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            use vm_memory::{Bytes, GuestAddress};
            let mut seed = 1u64;
            while !done.load(Ordering::Relaxed) {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = GuestAddress(PHYSICAL + seed % LENGTH / 8 * 8);
                memory.write_obj(seed, at).unwrap();
            }
        });
        for _ in 0..300 {
            guest.run(
                &mut queue,
                Packets::new()
                    .then(Copy::new(PLAIN, COMPRESSED, LENGTH))
                    .then(Copy::new(COMPRESSED, COMPRESSED + 24, LENGTH / 2))
                    .then(Fill::new(COMPRESSED + 4, 5000, 3)),
            );
        }
        done.store(true, Ordering::Relaxed);
    });
    guest.run(&mut queue, Packets::new().then(NOP));
}

/// Engines read pages that are the guest's again as its CPU sees them, even if an engine encoded the bytes.
#[test]
fn pages_that_were_unmapped_from_the_iommu_are_not_decoded() {
    let mut guest = Guest::start();
    let mut system = System::of(&guest);
    let mut queue = guest.queue(COPY);
    map_compressed(&guest, Segment::System, PHYSICAL);
    guest.write(PLAIN, &counters(LENGTH));
    guest.run(&mut queue, copy(PLAIN, COMPRESSED));
    let seen = guest.read(SYSTEM, LENGTH as usize);
    let kept = 3 * PAGE_SIZE;
    // The last pages are still in device access; an extent outside the guest's memory does no harm.
    let none = Extent { address: 1 << 40, length: PAGE_SIZE };
    let pages = [Extent { address: PHYSICAL, length: LENGTH - kept }, none];
    system.perform(&[PagingOperation::NotifyAlloc {
        allocation: AllocationId(1),
        notification: AllocationNotification::IoMmuUnmap,
        offset: 0,
        length: LENGTH - kept + PAGE_SIZE,
        gpu_va: 0,
        pages: &pages,
    }]);
    assert_eq!(guest.read(SYSTEM, LENGTH as usize), seen, "bytes stay");
    guest.run(&mut queue, copy(COMPRESSED, PLAIN));
    let read = guest.read(PLAIN, LENGTH as usize);
    let (gone, still) = read.split_at((LENGTH - kept) as usize);
    assert_eq!(gone, &seen[..gone.len()]);
    assert_eq!(still, &counters(LENGTH)[gone.len()..]);
}

/// An action on compressed memory.
#[derive(Debug, Clone)]
enum Action {
    Fill { at: u64, length: u64, pattern: u32 },
    CopyIn { at: u64, length: u64, noisy: bool },
    CopyWithin { from: u64, to: u64, length: u64 },
    Write { at: u64, bytes: Vec<u8> },
    Evict,
    CpuStore { at: u64, bytes: Vec<u8> },
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let half = LENGTH / 2;
    let bytes = || proptest::collection::vec(any::<u8>(), 1..64);
    let action = prop_oneof![
        (0..half / 4, 0..half / 4, any::<u32>()).prop_map(|(at, length, pattern)| {
            Action::Fill { at: at * 4, length: length * 4, pattern }
        }),
        (0..half, 0..half, any::<bool>()).prop_map(|(at, length, noisy)| Action::CopyIn {
            at,
            length,
            noisy
        }),
        (0..half / 2, 0..half / 2, 0..half / 2)
            .prop_map(move |(from, to, length)| Action::CopyWithin { from, to: half + to, length }),
        (0..LENGTH - 64, bytes()).prop_map(|(at, bytes)| Action::Write { at, bytes }),
        Just(Action::Evict),
        (0..LENGTH - 64, bytes()).prop_map(|(at, bytes)| Action::CpuStore { at, bytes }),
    ];
    proptest::collection::vec(action, 1..24)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn compressed_memory_holds_what_plain_memory_would(actions in actions()) {
        let mut guest = Guest::start();
        let mut system = System::of(&guest);
        let mut queue = guest.queue(COPY);
        map_compressed(&guest, Segment::System, PHYSICAL);
        let noise = noise(LENGTH as usize);
        let counters = counters(LENGTH);
        guest.write(PLAIN + LENGTH, &noise);
        guest.write(PLAIN + 2 * LENGTH, &counters);
        let mut model = vec![0u8; LENGTH as usize];
        for action in actions {
            let range = |at: u64, length: u64| at as usize..(at + length) as usize;
            let packets = match action {
                Action::Fill { at, length, pattern } => {
                    let bytes = pattern.to_le_bytes().into_iter().cycle();
                    model.splice(range(at, length), bytes.take(length as usize));
                    Packets::new().then(Fill::new(COMPRESSED + at, length, pattern))
                }
                Action::CopyIn { at, length, noisy } => {
                    let (from, bytes) =
                        if noisy { (LENGTH, &noise) } else { (2 * LENGTH, &counters) };
                    model[range(at, length)].copy_from_slice(&bytes[range(0, length)]);
                    Packets::new().then(Copy::new(PLAIN + from, COMPRESSED + at, length))
                }
                Action::CopyWithin { from, to, length } => {
                    model.copy_within(range(from, length), to as usize);
                    Packets::new().then(Copy::new(COMPRESSED + from, COMPRESSED + to, length))
                }
                Action::Write { at, bytes } => {
                    model[range(at, bytes.len() as u64)].copy_from_slice(&bytes);
                    let mut packets =
                        Packets::new().then(WriteData::new(COMPRESSED + at, bytes.len()).unwrap());
                    packets.0.extend(&bytes);
                    packets.0.resize(packets.0.len().next_multiple_of(8), 0);
                    packets
                }
                Action::Evict => {
                    evict(&mut system, Segment::System, PHYSICAL);
                    prop_assert_eq!(&guest.read(SYSTEM, LENGTH as usize), &model);
                    continue;
                }
                Action::CpuStore { at, bytes } => {
                    // A CPU may store only after the eviction.
                    evict(&mut system, Segment::System, PHYSICAL);
                    guest.write(SYSTEM + at, &bytes);
                    model[range(at, bytes.len() as u64)].copy_from_slice(&bytes);
                    continue;
                }
            };
            guest.run(&mut queue, packets);
            guest.run(&mut queue, copy(COMPRESSED, PLAIN));
            prop_assert_eq!(&guest.read(PLAIN, LENGTH as usize), &model);
        }
    }
}
