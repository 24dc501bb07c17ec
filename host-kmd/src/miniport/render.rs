// SPDX-License-Identifier: MIT OR Apache-2.0

//! `DxgkDdiRender` and `DxgkDdiPatch`: command buffers with physical addresses.
//!
//! A command buffer is not trusted. Each of its packets is decoded. Patch locations supply all addresses of a packet:
//! each must be in an allocation that the submission lists, for all bytes that the packet accesses, and writable
//! according to the list if the packet writes. Whatever the guest wrote in place of an address is dropped.
//!
//! Both lists are walked once, side by side: addresses and patch locations come in order of their offsets.

use crate::ddi::dma_buffer::{DmaBuffer, RenderAllocation, RenderArguments, RenderError};
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::node_context::PatchLocation;
use bellhop_protocol::packet::dispatch::{Dispatch, Kernel};
use bellhop_protocol::packet::surface::{CopyRect, FillRect, StretchRect, extent};
use bellhop_protocol::packet::transfer::{Compare, Copy, Fill, Hash, Timestamp, WriteData};
use bellhop_protocol::packet::{Packet, PacketError};
use std::mem::offset_of;

/// Bytes of an address, and of a result.
const WORD: u64 = size_of::<u64>() as u64;

/// An address in a packet, and what the packet does there.
#[derive(Debug, Clone, Copy)]
struct Access {
    /// Offset of the address in the packet.
    field: usize,
    /// Number of bytes accessed from that address.
    length: u64,
    /// Whether the bytes are written.
    write: bool,
}

const fn read(field: usize, length: u64) -> Option<Access> {
    Some(Access { field, length, write: false })
}

const fn write(field: usize, length: u64) -> Option<Access> {
    Some(Access { field, length, write: true })
}

/// The addresses of the packet at `offset`, in order.
///
/// # Errors
/// Fails for a packet that a node of this type does not execute, that has no meaning with physical addresses, or that
/// only the host may use.
fn accesses(
    packet: &Packet<'_>,
    engine_type: EngineType,
    offset: u32,
) -> Result<[Option<Access>; 3], RenderError> {
    let illegal = Err(RenderError::IllegalInstruction { offset });
    Ok(match packet {
        Packet::Nop
        | Packet::SignalFence(_)
        | Packet::WaitFence(_)
        | Packet::ConditionalInterrupt(_)
        | Packet::WriteFence(_)
        | Packet::LogFence(_) => [None; 3],
        // Unchecked packets would follow; unchecked addresses would be used: those of a kernel's arguments are virtual,
        // and so are those of sealed bytes.
        Packet::IndirectBuffer(_)
        | Packet::DispatchKernel(_)
        | Packet::ExecuteCommands(_)
        | Packet::VideoDecode(_)
        | Packet::VideoEncode(_)
        | Packet::Seal(_)
        | Packet::Open(_)
        | Packet::Attest(_) => return illegal,
        Packet::WritePageTable(_)
        | Packet::FlushTlb(_)
        | Packet::Decompress(_)
        | Packet::ClearMetadata(_) => {
            return Err(RenderError::PrivilegedInstruction { offset });
        }
        Packet::Fill(fill) => [write(offset_of!(Fill, destination), fill.length), None, None],
        Packet::Copy(copy) => [
            read(offset_of!(Copy, source), copy.length),
            write(offset_of!(Copy, destination), copy.length),
            None,
        ],
        Packet::WriteData(_, data) => {
            [write(offset_of!(WriteData, destination), data.len() as u64), None, None]
        }
        Packet::Compare(compare) => [
            read(offset_of!(Compare, left), compare.length),
            read(offset_of!(Compare, right), compare.length),
            write(offset_of!(Compare, result), WORD),
        ],
        Packet::Hash(hash) => [
            read(offset_of!(Hash, source), hash.length),
            write(offset_of!(Hash, result), WORD),
            None,
        ],
        Packet::Timestamp(_) => [write(offset_of!(Timestamp, destination), WORD), None, None],
        Packet::CopyRect(copy) => {
            let row = copy.header.argument;
            [
                read(offset_of!(CopyRect, source), extent(copy.source_pitch, row, copy.rows)),
                write(
                    offset_of!(CopyRect, destination),
                    extent(copy.destination_pitch, row, copy.rows),
                ),
                None,
            ]
        }
        Packet::FillRect(fill) => {
            let length = extent(fill.pitch, fill.row, fill.rows);
            [write(offset_of!(FillRect, destination), length), None, None]
        }
        Packet::StretchRect(stretch) => {
            let Some(bytes) =
                stretch.format().bytes().filter(|_| engine_type == EngineType::THREE_D)
            else {
                return illegal;
            };
            let length = |pitch, [width, height]: [u16; 2]| {
                extent(pitch, u32::from(width) * bytes, height.into())
            };
            let source = length(stretch.source_pitch, stretch.source_size);
            let destination = length(stretch.destination_pitch, stretch.destination_size);
            [
                read(offset_of!(StretchRect, source), source),
                write(offset_of!(StretchRect, destination), destination),
                None,
            ]
        }
        Packet::Dispatch(dispatch) => {
            if !engine_type.computes() {
                return illegal;
            }
            let length = match dispatch.kernel() {
                Kernel::XOR_STREAM => dispatch.length,
                Kernel::SPIN_UNTIL => WORD,
                _ => return illegal,
            };
            let source = read(offset_of!(Dispatch, source), length);
            [source, write(offset_of!(Dispatch, destination), length), None]
        }
    })
}

/// Checks that a patch location allows the packet's access.
fn check(
    location: &PatchLocation,
    access: Access,
    allocations: &[RenderAllocation],
    packet: u32,
    index: u32,
) -> Result<(), RenderError> {
    let bad = RenderError::BadPatchLocation { index };
    let allocation = usize::try_from(location.allocation_index)
        .ok()
        .and_then(|index| allocations.get(index))
        .ok_or(bad)?;
    let end = location.allocation_offset.checked_add(access.length).ok_or(bad)?;
    if end > allocation.size {
        return Err(bad);
    }
    if access.write && !allocation.writable {
        return Err(RenderError::PrivilegedInstruction { offset: packet });
    }
    Ok(())
}

/// `DxgkDdiRender`: checks a command buffer for a node of this type and copies it.
///
/// # Errors
/// Fails if the command buffer or its patch location list is invalid.
pub(super) fn render(
    arguments: &RenderArguments<'_>,
    engine_type: EngineType,
) -> Result<DmaBuffer, RenderError> {
    let RenderArguments { commands, allocations, patch_locations, .. } = *arguments;
    let mut packets = Vec::with_capacity(commands.len());
    let mut locations = (0u32..).zip(patch_locations).peekable();
    while packets.len() < commands.len() {
        let start = packets.len();
        // A command buffer's length is a u32.
        let offset = start as u32;
        let rest = commands.get(start..).unwrap_or_default();
        let (packet, size) = Packet::decode(rest).map_err(|error| match error {
            PacketError::UnknownOpcode(_) => RenderError::IllegalInstruction { offset },
            PacketError::BadLength { .. } => RenderError::InvalidUserBuffer { offset },
        })?;
        let accesses = accesses(&packet, engine_type, offset)?;
        packets.extend(rest.iter().take(size));
        for access in accesses.into_iter().flatten() {
            let field = start + access.field;
            let uncovered = RenderError::PrivilegedInstruction { offset };
            let (index, location) = locations.peek().copied().ok_or(uncovered)?;
            if u64::from(location.patch_offset) > field as u64 {
                return Err(uncovered);
            }
            if u64::from(location.patch_offset) < field as u64 {
                // The location is between two addresses, or at one already patched.
                return Err(RenderError::BadPatchLocation { index });
            }
            check(location, access, allocations, offset, index)?;
            if let Some(address) = packets.get_mut(field..field + size_of::<u64>()) {
                address.fill(0);
            }
            locations.next();
        }
    }
    match locations.next() {
        Some((index, _)) => Err(RenderError::BadPatchLocation { index }),
        None => Ok(DmaBuffer { packets, patch_locations: patch_locations.to_vec() }),
    }
}

/// `DxgkDdiPatch`: puts the physical addresses of the allocations, in the order of the allocation
/// list, into a DMA buffer that [`render`] made.
pub(super) fn patch(buffer: &mut DmaBuffer, physical_addresses: &[u64]) {
    let DmaBuffer { packets, patch_locations } = buffer;
    for location in patch_locations {
        let address = physical_addresses.get(location.allocation_index as usize);
        let field = location.patch_offset as usize;
        let place = packets.get_mut(field..field.saturating_add(size_of::<u64>()));
        match (address, place) {
            (Some(address), Some(place)) => {
                let address = address.wrapping_add(location.allocation_offset);
                place.copy_from_slice(&address.to_le_bytes());
            }
            _ => tracing::error!(?location, "a DMA buffer has no such patch location"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellhop_protocol::packet::dispatch::{DispatchFlags, DispatchKernel};
    use bellhop_protocol::packet::fence::{SignalFence, WaitFence};
    use bellhop_protocol::packet::flow::{IndirectBuffer, NOP};
    use bellhop_protocol::packet::paging::{FlushTlb, WritePageTable};
    use bellhop_protocol::packet::{Opcode, PacketHeader};
    use proptest::prelude::*;
    use zerocopy::{Immutable, IntoBytes};

    const READ_ONLY: RenderAllocation = RenderAllocation { size: 4096, writable: false };
    const WRITABLE: RenderAllocation = RenderAllocation { size: 8192, writable: true };
    const LIST: [RenderAllocation; 2] = [READ_ONLY, WRITABLE];

    fn at(patch_offset: u32, allocation_index: u32, allocation_offset: u64) -> PatchLocation {
        PatchLocation { allocation_index, patch_offset, allocation_offset }
    }

    fn bytes<T: IntoBytes + Immutable>(packet: T) -> Vec<u8> {
        packet.as_bytes().to_vec()
    }

    fn rendered(
        commands: &[u8],
        patch_locations: &[PatchLocation],
    ) -> Result<DmaBuffer, RenderError> {
        rendered_on(EngineType::THREE_D, commands, patch_locations)
    }

    fn rendered_on(
        engine_type: EngineType,
        commands: &[u8],
        patch_locations: &[PatchLocation],
    ) -> Result<DmaBuffer, RenderError> {
        let arguments = RenderArguments { node: 0, commands, allocations: &LIST, patch_locations };
        render(&arguments, engine_type)
    }

    #[test]
    fn each_address_becomes_the_one_of_its_allocation_and_nothing_else_changes() {
        let wrong = u64::MAX;
        let copy = Copy::new(wrong, wrong, 100);
        let commands = [bytes(NOP), bytes(copy)].concat();
        let locations = [at(16, 0, 24), at(24, 1, 4096)];
        let mut buffer = rendered(&commands, &locations).unwrap();
        // Even unpatched, the buffer does not hold the guest's addresses.
        assert_eq!(buffer.packets, [bytes(NOP), bytes(Copy::new(0, 0, 100))].concat());
        patch(&mut buffer, &[0x1_0000, 0x8000_0000]);
        let expected = bytes(Copy::new(0x1_0018, 0x8000_1000, 100));
        assert_eq!(buffer.packets, [bytes(NOP), expected].concat());
    }

    #[test]
    fn an_address_without_a_patch_location_is_privileged() {
        let commands = [bytes(NOP), bytes(Copy::new(1, 2, 8)), bytes(Fill::new(3, 4, 5))].concat();
        let at_copy = RenderError::PrivilegedInstruction { offset: 8 };
        let at_fill = RenderError::PrivilegedInstruction { offset: 40 };
        assert_eq!(rendered(&commands, &[]), Err(at_copy));
        assert_eq!(rendered(&commands, &[at(16, 0, 0)]), Err(at_copy));
        assert_eq!(rendered(&commands, &[at(24, 1, 0)]), Err(at_copy));
        assert_eq!(rendered(&commands, &[at(16, 0, 0), at(24, 1, 0)]), Err(at_fill));
        assert!(rendered(&commands, &[at(16, 0, 0), at(24, 1, 0), at(48, 1, 0)]).is_ok());
    }

    #[test]
    fn writing_needs_the_flag_and_reading_does_not() {
        let privileged = Err(RenderError::PrivilegedInstruction { offset: 0 });
        let copy = bytes(Copy::new(0, 0, 8));
        assert_eq!(rendered(&copy, &[at(8, 0, 0), at(16, 0, 8)]), privileged);
        assert!(rendered(&copy, &[at(8, 1, 0), at(16, 1, 8)]).is_ok());
        for packet in [bytes(Fill::new(0, 8, 0)), bytes(Timestamp::new(0))] {
            assert_eq!(rendered(&packet, &[at(8, 0, 0)]), privileged);
        }
        let hash = bytes(Hash::new(0, 8, 0, 0));
        assert_eq!(rendered(&hash, &[at(8, 0, 0), at(32, 0, 0)]), privileged);
        assert!(rendered(&hash, &[at(8, 0, 0), at(32, 1, 0)]).is_ok());
        let dispatch = bytes(Dispatch::new(Kernel::XOR_STREAM, 0, 0, 8, 0));
        assert_eq!(rendered(&dispatch, &[at(8, 1, 0), at(16, 0, 0)]), privileged);
    }

    #[test]
    fn a_packet_stays_within_its_allocation_up_to_its_last_byte() {
        let bad = Err(RenderError::BadPatchLocation { index: 0 });
        let fill = |offset, length| rendered(&bytes(Fill::new(0, length, 0)), &[at(8, 1, offset)]);
        assert!(fill(0, 8192).is_ok());
        assert!(fill(8192, 0).is_ok());
        assert!(fill(8188, 4).is_ok());
        for (offset, length) in [
            (0, 8196),
            (8189, 4),
            (8193, 0),
            (u64::MAX, 1),
            (u64::MAX, 0),
            (1, u64::MAX),
            (u64::MAX, u64::MAX),
        ] {
            assert_eq!(fill(offset, length), bad, "{length:#x} at {offset:#x}");
        }
        // A result is one word, even of zero bytes.
        let compare = bytes(Compare::new(0, 0, 0, 0));
        let locations = |result| [at(8, 0, 0), at(16, 0, 0), at(32, 1, result)];
        assert!(rendered(&compare, &locations(8184)).is_ok());
        let last = Err(RenderError::BadPatchLocation { index: 2 });
        assert_eq!(rendered(&compare, &locations(8185)), last);
        let spin = bytes(Dispatch::new(Kernel::SPIN_UNTIL, 0, 0, 0, 0));
        assert_eq!(rendered(&spin, &[at(8, 1, 8185), at(16, 1, 0)]), bad);
    }

    #[test]
    fn a_patch_location_is_at_an_address_in_order_and_names_an_allocation() {
        let commands = [bytes(Fill::new(0, 8, 0)), bytes(NOP)].concat();
        let bad = |index| Err(RenderError::BadPatchLocation { index });
        // Offsets in the header, within the address and in the length: none is an address.
        for offset in [0, 4, 7] {
            assert_eq!(rendered(&commands, &[at(offset, 1, 0), at(8, 1, 0)]), bad(0));
        }
        for offset in [8, 9, 15, 16, 24, 28, 32, u32::MAX] {
            assert_eq!(rendered(&commands, &[at(8, 1, 0), at(offset, 1, 0)]), bad(1));
        }
        for index in [2, u32::MAX] {
            assert_eq!(rendered(&commands, &[at(8, index, 0)]), bad(0));
        }
        let copy = bytes(Copy::new(0, 0, 8));
        assert!(rendered(&copy, &[at(16, 1, 0), at(8, 0, 0)]).is_err());
    }

    #[test]
    fn only_whole_packets_that_the_node_has_are_taken() {
        let illegal = Err(RenderError::IllegalInstruction { offset: 8 });
        let broken = Err(RenderError::InvalidUserBuffer { offset: 8 });
        let after_nop = |packet: Vec<u8>| [bytes(NOP), packet].concat();
        let indirect = bytes(IndirectBuffer::new(0x1000, 8));
        assert_eq!(rendered(&after_nop(indirect), &[]), illegal);
        let unknown = bytes(PacketHeader::new(Opcode(0x7777), 8, 0));
        assert_eq!(rendered(&after_nop(unknown), &[]), illegal);
        let kernel = bytes(Dispatch::new(Kernel(77), 0, 0, 0, 0));
        assert_eq!(rendered(&after_nop(kernel), &[at(16, 1, 0), at(24, 1, 0)]), illegal);
        // Its arguments are addresses of the process, which this queue does not have.
        let own = DispatchKernel::new(1, [1; 3], DispatchFlags::empty());
        let own = after_nop(bytes(own.with_arguments(0x1000, 8, 1)));
        assert_eq!(rendered(&own, &[]), illegal);
        assert_eq!(rendered(&own, &[at(32, 1, 0)]), illegal);
        assert_eq!(rendered_on(EngineType::COPY, &own, &[]), illegal);
        let dispatch = after_nop(bytes(Dispatch::new(Kernel::XOR_STREAM, 0, 0, 8, 0)));
        let locations = [at(16, 0, 0), at(24, 1, 0)];
        assert!(rendered(&dispatch, &locations).is_ok());
        assert_eq!(rendered_on(EngineType::COPY, &dispatch, &locations), illegal);
        assert!(rendered_on(EngineType::COMPUTE, &dispatch, &locations).is_ok());
        let cut = bytes(Fill::new(0, 8, 0))[..16].to_vec();
        assert_eq!(rendered(&after_nop(cut), &[at(16, 1, 0)]), broken);
        assert_eq!(rendered(&after_nop(vec![0; 4]), &[]), broken);
        let long = bytes(PacketHeader::new(Opcode::TIMESTAMP, 80, 0));
        assert_eq!(rendered(&after_nop(long), &[]), broken);
        let privileged = Err(RenderError::PrivilegedInstruction { offset: 8 });
        for packet in [bytes(WritePageTable::new(0, 1, u64::MAX, 0)), bytes(FlushTlb::new(0))] {
            assert_eq!(rendered(&after_nop(packet), &[]), privileged);
        }
        let fences = [bytes(SignalFence::new(1, 2)), bytes(WaitFence::new(1, 2))].concat();
        assert!(rendered(&fences, &[]).is_ok());
        assert!(rendered(&[], &[]).is_ok());
    }

    /// The physical address of each listed allocation, far apart.
    const BASES: [u64; 2] = [1 << 40, 2 << 40];

    /// Asserts that a patched buffer accesses only the allocations, each as allowed.
    fn assert_contained(packets: &[u8]) {
        let mut rest = packets;
        while !rest.is_empty() {
            let (packet, size) = Packet::decode(rest).unwrap();
            let inside = |address: u64, length: u64, write: bool| {
                LIST.iter().zip(BASES).any(|(allocation, base)| {
                    let end = u128::from(address) + u128::from(length);
                    address >= base
                        && end <= u128::from(base + allocation.size)
                        && (allocation.writable || !write)
                })
            };
            match packet {
                Packet::Nop | Packet::SignalFence(_) => {}
                Packet::Fill(fill) => assert!(inside(fill.destination, fill.length, true)),
                Packet::Copy(copy) => {
                    assert!(inside(copy.source, copy.length, false));
                    assert!(inside(copy.destination, copy.length, true));
                }
                Packet::WriteData(packet, data) => {
                    assert!(inside(packet.destination, data.len() as u64, true));
                }
                Packet::Compare(compare) => {
                    assert!(inside(compare.left, compare.length, false));
                    assert!(inside(compare.right, compare.length, false));
                    assert!(inside(compare.result, 8, true));
                }
                Packet::Hash(hash) => {
                    assert!(inside(hash.source, hash.length, false));
                    assert!(inside(hash.result, 8, true));
                }
                Packet::Timestamp(packet) => assert!(inside(packet.destination, 8, true)),
                Packet::CopyRect(copy) if copy.rows > 0 && copy.header.argument > 0 => {
                    let row = u64::from(copy.header.argument);
                    let before = |pitch: u32| u64::from(copy.rows - 1) * u64::from(pitch);
                    assert!(inside(copy.source, before(copy.source_pitch) + row, false));
                    assert!(inside(copy.destination, before(copy.destination_pitch) + row, true));
                }
                Packet::CopyRect(_) => {}
                Packet::FillRect(fill) => {
                    let before = u64::from(fill.rows.max(1) - 1) * u64::from(fill.pitch);
                    let length = if fill.rows == 0 || fill.row == 0 {
                        0
                    } else {
                        before + u64::from(fill.row)
                    };
                    assert!(inside(fill.destination, length, true));
                }
                Packet::Dispatch(dispatch) => {
                    let length = match dispatch.kernel() {
                        Kernel::XOR_STREAM => dispatch.length,
                        _ => 8,
                    };
                    assert!(inside(dispatch.source, length, false));
                    assert!(inside(dispatch.destination, length, true));
                }
                other => panic!("{other:?} in a DMA buffer"),
            }
            rest = &rest[size..];
        }
    }

    /// An address or a length: sensible, or an edge case.
    fn number() -> impl Strategy<Value = u64> {
        prop_oneof![
            8 => 0..64u64,
            2 => 4000..8300u64,
            1 => any::<u64>(),
            1 => u64::MAX - 16..=u64::MAX,
        ]
    }

    fn packet() -> impl Strategy<Value = Vec<u8>> {
        let any = number;
        prop_oneof![
            Just(bytes(NOP)),
            Just(bytes(SignalFence::new(1, 2))),
            Just(bytes(IndirectBuffer::new(0x1000, 64))),
            Just(bytes(WritePageTable::new(0, 1, 1, 0))),
            Just(bytes(FlushTlb::new(0))),
            (any(), any()).prop_map(|(to, length)| bytes(Fill::new(to, length, 0))),
            (any(), any(), any()).prop_map(|(from, to, len)| bytes(Copy::new(from, to, len))),
            (any(), any(), any()).prop_map(|(a, len, r)| bytes(Compare::new(a, a, len, r))),
            (any(), any(), any()).prop_map(|(from, len, to)| bytes(Hash::new(from, len, 0, to))),
            any().prop_map(|to| bytes(Timestamp::new(to))),
            (0..300u32, 0..300u32, 0..40u32).prop_map(|(pitch, row, rows)| {
                bytes(CopyRect::new((0, pitch), (0, pitch), row, rows))
            }),
            (0..300u32, 0..300u32, 0..40u32).prop_map(|(pitch, row, rows)| bytes(FillRect::new(
                (0, pitch),
                row,
                rows,
                0
            ))),
            (1..40usize).prop_map(|count| {
                let mut packet = bytes(WriteData::new(0, count).unwrap());
                packet.resize(WriteData::size_with(count).unwrap(), 0xAA);
                packet
            }),
            (any(), 0..3u32).prop_map(|(at, count)| {
                let dispatch = DispatchKernel::new(1, [1; 3], DispatchFlags::empty());
                bytes(dispatch.with_arguments(at, 8 * count, count))
            }),
            (1..4u32, any()).prop_map(|(kernel, length)| {
                bytes(Dispatch::new(Kernel(kernel), 0, 0, length, 0))
            }),
        ]
    }

    fn location() -> impl Strategy<Value = PatchLocation> {
        (0..3u32, 0..400u32, number()).prop_map(|(index, offset, into)| at(offset, index, into))
    }

    /// Offsets of the addresses in these packets.
    fn fields(packets: &[Vec<u8>]) -> Vec<u32> {
        let mut start = 0;
        let mut fields = Vec::new();
        for packet in packets {
            let (decoded, _) = Packet::decode(packet).unwrap();
            let accesses =
                accesses(&decoded, EngineType::THREE_D, 0).into_iter().flatten().flatten();
            fields.extend(accesses.map(|access| (start + access.field) as u32));
            start += packet.len();
        }
        fields
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// Lists that are nearly right: an accepted list lets no packet reach anything unlisted.
        #[test]
        fn whatever_is_taken_accesses_only_what_is_listed(
            packets in proptest::collection::vec(packet(), 0..8),
            guesses in proptest::collection::vec((0..2u32, number()), 32),
            changed in proptest::option::of((0..32usize, location())),
        ) {
            let fields = fields(&packets);
            let mut locations: Vec<_> = fields
                .iter()
                .zip(guesses)
                .map(|(field, (index, into))| at(*field, index, into))
                .collect();
            if let Some((place, location)) = changed {
                match locations.get_mut(place) {
                    Some(old) => *old = location,
                    None => locations.push(location),
                }
            }
            if let Ok(mut buffer) = rendered(&packets.concat(), &locations) {
                prop_assert_eq!(buffer.packets.len(), packets.concat().len());
                patch(&mut buffer, &BASES);
                assert_contained(&buffer.packets);
            }
        }

        /// Arbitrary bytes.
        #[test]
        fn no_bytes_and_no_lists_make_it_panic(
            commands in proptest::collection::vec(any::<u8>(), 0..256),
            locations in proptest::collection::vec(location(), 0..16),
        ) {
            if let Ok(mut buffer) = rendered(&commands, &locations) {
                patch(&mut buffer, &BASES);
                assert_contained(&buffer.packets);
            }
        }
    }
}
