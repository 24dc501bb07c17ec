// SPDX-License-Identifier: MIT OR Apache-2.0

//! `NotifyIoMmuUnmap`: what the driver is told before the guest gets its pages back.
//!
//! Source: "Allocation notification".

use crate::bench::{Bench, Client, map};
use bellhop_host_kmd::ddi::VirtualAddressingModel;
use bellhop_host_kmd::hardware::GuestId;
use bellhop_host_kmd::port::RequestToken;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::{
    AllocationFlags, AllocationKind, COMPRESSED, CreateAllocation, DestroyAllocation, Evict,
    Extent, SegmentSet,
};
use bellhop_protocol::packet::{Opcode, Packet};
use bellhop_protocol::status::Status;

/// The guest's own pages of the allocation: two runs, not in address order.
const PAGES: [Extent; 2] = [
    Extent { address: 32 * PAGE_SIZE, length: 2 * PAGE_SIZE },
    Extent { address: 16 * PAGE_SIZE, length: PAGE_SIZE },
];
const SIZE: u64 = 3 * PAGE_SIZE;

fn new(addressing: VirtualAddressingModel) -> (Bench, Client) {
    let mut bench = Bench::new(1);
    bench.model.state().addressing = addressing;
    let guest = bench.guest(1);
    let client = bench.client(guest);
    (bench, client)
}

/// A mapped allocation in device access, of the guest's own pages.
fn resident(bench: &mut Bench, client: Client, private_data: u32) -> Handle {
    let description = CreateAllocation {
        supported_segments: SegmentSet::SYSTEM.bits(),
        flags: AllocationFlags::CPU_VISIBLE.bits(),
        private_data,
        ..CreateAllocation::fixed(client.device, AllocationKind::PAGED, SIZE, PAGES.len() as u32)
    };
    let allocation = bench.call_with_list(client, &description, &PAGES).unwrap().allocation;
    bench.make_resident(client, &[allocation]).unwrap();
    bench.call(client, &map(allocation, 0, SIZE)).unwrap();
    allocation
}

fn evict_later(bench: &mut Bench, client: Client, allocation: Handle) -> RequestToken {
    let request = Evict { device: client.device, count: 1, reserved: 0 };
    let request = crate::bench::bytes_with_list(client.process, &request, &[allocation]);
    bench.send(client.guest, request)
}

/// Completes the guest's oldest paging buffer. Returns its opcodes, and the extents of its `ClearMetadata` packets.
fn next_buffer(bench: &mut Bench, guest: GuestId) -> (Vec<Opcode>, Vec<Extent>) {
    let bytes = bench.model.complete_paging(guest);
    let (mut opcodes, mut cleared) = (Vec::new(), Vec::new());
    let mut rest = &bytes[..];
    while let Ok((packet, size)) = Packet::decode(rest) {
        opcodes.push(Opcode(u16::from_le_bytes([rest[0], rest[1]])));
        if let Packet::ClearMetadata(clear) = packet {
            cleared.push(Extent { address: clear.address, length: clear.length });
        }
        rest = &rest[size..];
    }
    (opcodes, cleared)
}

fn waiting(bench: &Bench, guest: GuestId) -> usize {
    bench.model.state().paging.get(&guest).map_or(0, |buffers| buffers.len())
}

/// The five steps, in order.
#[test]
fn the_driver_is_told_before_pages_are_unmapped_from_the_iommu_and_paging_is_waited_for() {
    for addressing in [VirtualAddressingModel::GpuVaIoMmu, VirtualAddressingModel::GpuVaIoMmuGlobal]
    {
        let (mut bench, client) = new(addressing);
        let allocation = resident(&mut bench, client, COMPRESSED);
        let other = resident(&mut bench, client, 0);
        bench.model.state().prompt_paging = false;
        let evicted = evict_later(&mut bench, client, allocation);
        let behind = evict_later(&mut bench, client, other);
        // One buffer; nothing is submitted behind it until all paging has finished.
        assert_eq!(waiting(&bench, client.guest), 1);
        let (opcodes, cleared) = next_buffer(&mut bench, client.guest);
        let place = |opcode| opcodes.iter().rposition(|other| *other == opcode);
        assert!(place(Opcode::DECOMPRESS) < place(Opcode::CLEAR_METADATA), "{opcodes:?}");
        // Translations are forgotten last.
        assert_eq!(opcodes.last(), Some(&Opcode::FLUSH_TLB));
        assert_eq!(cleared, PAGES);
        // The guest has the pages back when the request is answered, not before.
        assert_eq!(bench.outcome(client, evicted), None);
        bench.interrupt();
        assert_eq!(bench.outcome(client, evicted), Some(Status::SUCCESS));
        assert_eq!(bench.outcome(client, behind), None);
        let (opcodes, cleared) = next_buffer(&mut bench, client.guest);
        assert!(!opcodes.contains(&Opcode::DECOMPRESS) && cleared.is_empty());
        bench.interrupt();
        assert_eq!(bench.outcome(client, behind), Some(Status::SUCCESS));
    }
}

/// "The notification is sent only when the device supports GpuVaIoMmu or GpuVaIoMmuGlobal virtual addressing models."
/// The eviction is notified in any case.
#[test]
fn without_an_iommu_the_driver_is_not_told() {
    let (mut bench, client) = new(VirtualAddressingModel::GpuMmu);
    let allocation = resident(&mut bench, client, COMPRESSED);
    bench.model.state().prompt_paging = false;
    let evicted = evict_later(&mut bench, client, allocation);
    let (opcodes, cleared) = next_buffer(&mut bench, client.guest);
    assert!(opcodes.contains(&Opcode::DECOMPRESS));
    assert!(!opcodes.contains(&Opcode::CLEAR_METADATA) && cleared.is_empty());
    bench.interrupt();
    assert_eq!(bench.outcome(client, evicted), Some(Status::SUCCESS));
}

/// The bytes are no longer needed, so they are not decompressed; but the GPU's metadata about the pages goes with the
/// allocation.
#[test]
fn the_driver_is_told_when_an_allocation_in_device_access_is_destroyed() {
    let (mut bench, client) = new(VirtualAddressingModel::GpuVaIoMmuGlobal);
    let allocation = resident(&mut bench, client, COMPRESSED);
    bench.model.state().prompt_paging = false;
    let destroyed = bench.begin(client, &DestroyAllocation { allocation });
    bench.pass_tickets();
    let (opcodes, cleared) = next_buffer(&mut bench, client.guest);
    assert!(!opcodes.contains(&Opcode::DECOMPRESS), "{opcodes:?}");
    assert_eq!(cleared, PAGES);
    assert_eq!(bench.outcome(client, destroyed), None);
    bench.interrupt();
    bench.pass_tickets();
    assert_eq!(bench.outcome(client, destroyed), Some(Status::SUCCESS));
}
