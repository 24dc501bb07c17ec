// SPDX-License-Identifier: MIT OR Apache-2.0

//! Protected memory: every packet may write it, and its bytes go to protected memory only.

use crate::support::data::noise;
use crate::support::rig::*;
use bellhop_host_kmd::hardware::{
    DriverProtection, Fault, PageSize, PageTables as _, PhysicalPage, Pte, Segment,
};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::Opcode;
use bellhop_protocol::packet::dispatch::{Dispatch, Kernel};
use bellhop_protocol::packet::flow::IndirectBuffer;
use bellhop_protocol::packet::surface::{CopyRect, FillRect, StretchFilter, StretchRect};
use bellhop_protocol::packet::transfer::{Compare, Copy, Fill, Hash, Timestamp, WriteData};
use bellhop_protocol::pixel_format::PixelFormat;
use proptest::prelude::*;

/// Where a guest maps protected memory, and where it maps the same pages without protection, which only a broken kernel
/// would: so a test sees what engines wrote.
const PROTECTED: u64 = 0x6000_0000;
const BEHIND: u64 = 0x6100_0000;
const PAGES: u64 = 48;
const PLAIN: u64 = LOCAL;

fn map(guest: &Guest, size: PageSize) {
    let protection = DriverProtection { compressed: false, protected: true };
    let pages = (0..PAGES * PAGE_SIZE).step_by(size.bytes() as usize);
    let entries: Vec<_> = pages
        .map(|address| PhysicalPage { segment: Segment::Private, address })
        .map(|page| Pte::new(page, true).protected(protection))
        .collect();
    guest.gpu.update_page_table(guest.space, PROTECTED, size, &entries).unwrap();
    guest.map(BEHIND, Segment::Private, 0, PAGES * PAGE_SIZE, true);
}

fn start() -> Guest {
    let guest = Guest::start();
    map(&guest, PageSize::Small);
    guest
}

/// Writes bytes into protected memory.
fn put(guest: &Guest, queue: &mut Queue, offset: u64, bytes: &[u8]) {
    guest.write(PLAIN, bytes);
    guest.run(queue, Packets::new().then(Copy::new(PLAIN, PROTECTED + offset, bytes.len() as u64)));
}

/// What is in protected memory, by the mapping that no guest has.
fn behind(guest: &Guest, queue: &mut Queue, offset: u64, length: u64) -> Vec<u8> {
    guest.run(queue, Packets::new().then(Copy::new(BEHIND + offset, PLAIN, length)));
    guest.read(PLAIN, length as usize)
}

#[test]
fn bytes_go_into_protected_memory_and_from_there_to_protected_memory() {
    let mut guest = start();
    let mut queue = guest.queue(COPY);
    let bytes = noise(3 * 4096 + 5);
    let length = bytes.len() as u64;
    put(&guest, &mut queue, 7, &bytes);
    let copy = Copy::new(PROTECTED + 7, PROTECTED + 0x8003, length);
    let rect = CopyRect::new((PROTECTED + 7, 4096), (PROTECTED + 0x1_0000, 4096), 100, 3);
    guest.run(&mut queue, Packets::new().then(copy).then(rect));
    assert_eq!(behind(&guest, &mut queue, 0x8003, length), bytes);
    for row in 0..3 {
        let seen = behind(&guest, &mut queue, 0x1_0000 + row * 4096, 100);
        assert_eq!(seen, bytes[row as usize * 4096..][..100]);
    }
    // What carries its bytes, or makes them, may write there.
    let written = WriteData::new(PROTECTED + 0x20, 8).unwrap();
    let packets = Packets::new()
        .then(Fill::new(PROTECTED, 16, 0x5a5a_5a5a))
        .then(written)
        .then(*b"eight by")
        .then(Timestamp::new(PROTECTED + 0x10))
        .then(FillRect::new((PROTECTED + 0x40, 16), 8, 2, 0x1111_1111));
    guest.run(&mut queue, packets);
    let seen = behind(&guest, &mut queue, 0, 0x60);
    assert_eq!(seen[..16], [0x5a; 16]);
    assert_ne!(seen[16..24], [0; 8]);
    assert_eq!(&seen[0x20..0x28], b"eight by");
    assert_eq!((&seen[0x40..0x48], &seen[0x50..0x58]), (&[0x11; 8][..], &[0x11; 8][..]));
}

/// Runs a packet that must not be executed; returns its fault. Nothing of the secret may be in plain memory.
fn refused(engine: u32, packets: impl Fn(&mut Guest) -> Packets) -> Fault {
    let mut guest = start();
    let mut queue = guest.queue(COPY);
    put(&guest, &mut queue, 0, &[0x77; 4096]);
    guest.write(PLAIN, &[0; 8192]);
    let mut other = guest.queue(engine);
    let packets = packets(&mut guest);
    let fault = guest.run_into_fault(&mut other, &packets);
    assert_eq!(guest.read(PLAIN, 8192), [0; 8192], "{fault:?}");
    fault
}

#[track_caller]
fn assert_refused(fault: Fault, opcode: Opcode, address: u64) {
    let seen = (fault.reason, fault.opcode, fault.address);
    assert_eq!(seen, (FaultReason::PROTECTED_MEMORY, opcode, address));
}

#[test]
fn no_packet_makes_protected_memory_readable() {
    let copy = |_: &mut Guest| Packets::new().then(Copy::new(PROTECTED + 8, PLAIN, 64));
    assert_refused(refused(COPY, copy), Opcode::COPY, PLAIN);
    let rect =
        |_: &mut Guest| Packets::new().then(CopyRect::new((PROTECTED, 64), (PLAIN + 64, 64), 8, 8));
    assert_refused(refused(COPY, rect), Opcode::COPY_RECT, PLAIN + 64);
    let hash = |_: &mut Guest| Packets::new().then(Hash::new(PROTECTED + 16, 64, 0, PLAIN));
    assert_refused(refused(COPY, hash), Opcode::HASH, PROTECTED + 16);
    // To read them is refused wherever the result goes.
    let hash = |_: &mut Guest| Packets::new().then(Hash::new(PROTECTED, 64, 0, PROTECTED + 4096));
    assert_refused(refused(COPY, hash), Opcode::HASH, PROTECTED);
    let compare = |left, right| {
        move |_: &mut Guest| Packets::new().then(Compare::new(left, right, 64, PLAIN + 4096))
    };
    assert_refused(refused(COPY, compare(PROTECTED, PLAIN)), Opcode::COMPARE, PROTECTED);
    assert_refused(refused(COPY, compare(PLAIN, PROTECTED)), Opcode::COMPARE, PROTECTED);
    let stretch = |_: &mut Guest| Packets::new().then(stretch(PROTECTED, PLAIN));
    assert_refused(refused(COMPUTE, stretch), Opcode::STRETCH_RECT, PROTECTED);
    for (kernel, length) in [(Kernel::XOR_STREAM, 64), (Kernel::SPIN_UNTIL, 8)] {
        let dispatch = move |_: &mut Guest| {
            Packets::new().then(Dispatch::new(kernel, PROTECTED, PLAIN, length, 1))
        };
        assert_refused(refused(COMPUTE, dispatch), Opcode::DISPATCH, PROTECTED);
    }
}

fn stretch(source: u64, destination: u64) -> StretchRect {
    let [from, to] = [source, destination].map(|at| (at, 64, [4, 4]));
    StretchRect::new(from, to, PixelFormat::A8R8G8B8, StretchFilter::NEAREST)
}

#[test]
fn no_engine_executes_packets_from_protected_memory() {
    // Packets carry bytes: whoever could have them executed could have them written.
    let buffer = |_: &mut Guest| Packets::new().then(IndirectBuffer::new(PROTECTED, 64));
    let fault = refused(COPY, buffer);
    assert_eq!((fault.reason, fault.address), (FaultReason::PROTECTED_MEMORY, PROTECTED));
}

#[test]
fn a_large_page_is_protected_too() {
    let mut guest = Guest::start();
    map(&guest, PageSize::Large);
    let mut queue = guest.queue(COPY);
    put(&guest, &mut queue, 0x1_2345, b"secret");
    assert_eq!(behind(&guest, &mut queue, 0x1_2345, 6), b"secret");
    let copy = Packets::new().then(Copy::new(PROTECTED + 0x1_2345, PLAIN, 6));
    let fault = guest.run_into_fault(&mut queue, &copy);
    assert_refused(fault, Opcode::COPY, PLAIN);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_copy_stops_at_the_first_byte_that_would_leave(
        before in 1u64..9000, inside in 1u64..9000,
    ) {
        // The source runs from plain memory into protected memory, which is mapped behind it.
        let mut guest = Guest::start();
        let at = 0x6000_0000 + 16 * PAGE_SIZE - before;
        guest.map(0x6000_0000, Segment::Private, 64 * PAGE_SIZE, 16 * PAGE_SIZE, true);
        let protection = DriverProtection { compressed: false, protected: true };
        let entries: Vec<_> = (0..16)
            .map(|page| PhysicalPage { segment: Segment::Private, address: page * PAGE_SIZE })
            .map(|page| Pte::new(page, true).protected(protection))
            .collect();
        let start = 0x6000_0000 + 16 * PAGE_SIZE;
        guest.gpu.update_page_table(guest.space, start, PageSize::Small, &entries).unwrap();
        let mut queue = guest.queue(COPY);
        let fill = Packets::new()
            .then(Fill::new(0x6000_0000, 32 * PAGE_SIZE, 0x1717_1717))
            .then(Fill::new(PLAIN, 32 * PAGE_SIZE, 0));
        guest.run(&mut queue, fill);
        let copy = Packets::new().then(Copy::new(at, PLAIN, before + inside));
        let fault = guest.run_into_fault(&mut queue, &copy);
        prop_assert_eq!(fault.reason, FaultReason::PROTECTED_MEMORY);
        prop_assert_eq!(fault.address, PLAIN + before);
        let seen = guest.read(PLAIN, (before + inside) as usize);
        prop_assert!(seen[..before as usize].iter().all(|byte| *byte == 0x17));
        prop_assert!(seen[before as usize..].iter().all(|byte| *byte == 0));
    }
}
