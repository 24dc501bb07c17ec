// SPDX-License-Identifier: MIT OR Apache-2.0

//! Command packets: the content of ring buffers and indirect buffers.
//!
//! A packet is a whole number of 8-byte units. It begins with a [`PacketHeader`]; the opcode determines the rest
//! and its length, except for `NOP` and [`WriteData`], which vary in length. Source: "Ring Buffers and the CP" and
//! "DMA buffers" of the Windows KMD overview.

pub mod commands;
pub mod dispatch;
pub mod fence;
pub mod flow;
mod header;
pub mod paging;
pub mod security;
pub mod surface;
pub mod transfer;
pub mod video;

use commands::ExecuteCommands;
use dispatch::{Dispatch, DispatchKernel};
use fence::{ConditionalInterrupt, LogFence, SignalFence, WaitFence, WriteFence};
use flow::IndirectBuffer;
pub use header::{Opcode, PacketHeader, UNIT};
use paging::{ClearMetadata, Decompress, FlushTlb, WritePageTable};
use security::{Attest, Open, Seal};
use surface::{CopyRect, FillRect, StretchRect};
use transfer::{Compare, Copy, Fill, Hash, Timestamp, WRITE_DATA_MAX, WriteData};
use video::Video;
use zerocopy::FromBytes;

/// Largest packet in bytes. A packet that claims more is refused before it is fetched.
pub const MAX_PACKET_SIZE: usize = 24 + WRITE_DATA_MAX;

/// Why bytes are not a packet.
#[derive(Debug, Clone, ::core::marker::Copy, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// No packet has this opcode.
    #[error("unknown packet opcode {:#x}", .0.0)]
    UnknownOpcode(Opcode),
    /// The length in the header does not match the opcode.
    #[error("packet {opcode} cannot be {units} units long")]
    BadLength {
        /// The packet's opcode.
        opcode: Opcode,
        /// The length in the header.
        units: u16,
    },
}

/// A decoded packet.
#[derive(Debug, Clone, ::core::marker::Copy, PartialEq, Eq)]
pub enum Packet<'a> {
    /// [`flow::NOP`].
    Nop,
    /// See [`IndirectBuffer`].
    IndirectBuffer(IndirectBuffer),
    /// See [`Fill`].
    Fill(Fill),
    /// See [`struct@Copy`].
    Copy(Copy),
    /// See [`WriteData`]; with the data.
    WriteData(WriteData, &'a [u8]),
    /// See [`Compare`].
    Compare(Compare),
    /// See [`struct@Hash`].
    Hash(Hash),
    /// See [`Timestamp`].
    Timestamp(Timestamp),
    /// See [`CopyRect`].
    CopyRect(CopyRect),
    /// See [`FillRect`].
    FillRect(FillRect),
    /// See [`StretchRect`].
    StretchRect(StretchRect),
    /// See [`SignalFence`].
    SignalFence(SignalFence),
    /// See [`WaitFence`].
    WaitFence(WaitFence),
    /// See [`ConditionalInterrupt`].
    ConditionalInterrupt(ConditionalInterrupt),
    /// See [`WriteFence`].
    WriteFence(WriteFence),
    /// See [`LogFence`].
    LogFence(LogFence),
    /// See [`Dispatch`].
    Dispatch(Dispatch),
    /// See [`DispatchKernel`].
    DispatchKernel(DispatchKernel),
    /// See [`ExecuteCommands`].
    ExecuteCommands(ExecuteCommands),
    /// `VIDEO_DECODE`: see [`Video`].
    VideoDecode(Video),
    /// `VIDEO_ENCODE`: see [`Video`].
    VideoEncode(Video),
    /// See [`Seal`].
    Seal(Seal),
    /// See [`Open`].
    Open(Open),
    /// See [`Attest`].
    Attest(Attest),
    /// See [`WritePageTable`].
    WritePageTable(WritePageTable),
    /// See [`FlushTlb`].
    FlushTlb(FlushTlb),
    /// See [`Decompress`].
    Decompress(Decompress),
    /// See [`ClearMetadata`].
    ClearMetadata(ClearMetadata),
}

impl<'a> Packet<'a> {
    /// Decodes the packet at the start of `bytes`; returns it with its length in bytes.
    ///
    /// `bytes` must be the reader's own copy, not memory that the guest can still write.
    ///
    /// # Errors
    /// If the opcode is unknown, or if the length does not match the opcode or exceeds `bytes`.
    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Result<(Self, usize), PacketError> {
        let none = PacketError::BadLength { opcode: Opcode::NOP, units: 0 };
        let (header, _) = PacketHeader::read_from_prefix(bytes).map_err(|_| none)?;
        let packet = match header.opcode {
            Opcode::NOP => {
                whole(header, bytes, header.size().clamp(UNIT, MAX_PACKET_SIZE))?;
                Self::Nop
            }
            Opcode::INDIRECT_BUFFER => Self::IndirectBuffer(fixed(header, bytes)?),
            Opcode::FILL => Self::Fill(fixed(header, bytes)?),
            Opcode::COPY => Self::Copy(fixed(header, bytes)?),
            Opcode::WRITE_DATA => {
                let length = header.argument as usize;
                let size = WriteData::size_with(length).ok_or(bad_length(header))?;
                let packet = whole(header, bytes, size)?;
                let (fixed, data) =
                    WriteData::read_from_prefix(packet).map_err(|_| bad_length(header))?;
                Self::WriteData(fixed, data.get(..length).ok_or(bad_length(header))?)
            }
            Opcode::COMPARE => Self::Compare(fixed(header, bytes)?),
            Opcode::HASH => Self::Hash(fixed(header, bytes)?),
            Opcode::TIMESTAMP => Self::Timestamp(fixed(header, bytes)?),
            Opcode::COPY_RECT => Self::CopyRect(fixed(header, bytes)?),
            Opcode::FILL_RECT => Self::FillRect(fixed(header, bytes)?),
            Opcode::STRETCH_RECT => Self::StretchRect(fixed(header, bytes)?),
            Opcode::SIGNAL_FENCE => Self::SignalFence(fixed(header, bytes)?),
            Opcode::WAIT_FENCE => Self::WaitFence(fixed(header, bytes)?),
            Opcode::CONDITIONAL_INTERRUPT => Self::ConditionalInterrupt(fixed(header, bytes)?),
            Opcode::WRITE_FENCE => Self::WriteFence(fixed(header, bytes)?),
            Opcode::LOG_FENCE => Self::LogFence(fixed(header, bytes)?),
            Opcode::DISPATCH => Self::Dispatch(fixed(header, bytes)?),
            Opcode::DISPATCH_KERNEL => Self::DispatchKernel(fixed(header, bytes)?),
            Opcode::EXECUTE_COMMANDS => Self::ExecuteCommands(fixed(header, bytes)?),
            Opcode::VIDEO_DECODE => Self::VideoDecode(fixed(header, bytes)?),
            Opcode::VIDEO_ENCODE => Self::VideoEncode(fixed(header, bytes)?),
            Opcode::SEAL => Self::Seal(fixed(header, bytes)?),
            Opcode::OPEN => Self::Open(fixed(header, bytes)?),
            Opcode::ATTEST => Self::Attest(fixed(header, bytes)?),
            Opcode::WRITE_PAGE_TABLE => Self::WritePageTable(fixed(header, bytes)?),
            Opcode::FLUSH_TLB => Self::FlushTlb(fixed(header, bytes)?),
            Opcode::DECOMPRESS => Self::Decompress(fixed(header, bytes)?),
            Opcode::CLEAR_METADATA => Self::ClearMetadata(fixed(header, bytes)?),
            opcode => return Err(PacketError::UnknownOpcode(opcode)),
        };
        Ok((packet, header.size()))
    }
}

/// The error for a length that does not match the opcode.
const fn bad_length(header: PacketHeader) -> PacketError {
    PacketError::BadLength { opcode: header.opcode, units: header.units }
}

/// The bytes of a packet of exactly `size` bytes.
#[inline]
fn whole(header: PacketHeader, bytes: &[u8], size: usize) -> Result<&[u8], PacketError> {
    let packet = bytes.get(..size).filter(|_| header.size() == size);
    packet.ok_or(bad_length(header))
}

/// Decodes a packet of fixed length.
#[inline]
fn fixed<T: FromBytes>(header: PacketHeader, bytes: &[u8]) -> Result<T, PacketError> {
    let packet = whole(header, bytes, size_of::<T>())?;
    T::read_from_bytes(packet).map_err(|_| bad_length(header))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dispatch::DispatchFlags;
    use proptest::prelude::*;
    use zerocopy::IntoBytes;

    #[test]
    fn every_fixed_packet_decodes_to_what_was_encoded() {
        let copy = Copy::new(0x1000, 0x2000, 64);
        assert_eq!(Packet::decode(copy.as_bytes()), Ok((Packet::Copy(copy), size_of::<Copy>())));
        let signal = SignalFence::new(3, 9);
        assert_eq!(
            Packet::decode(signal.as_bytes()),
            Ok((Packet::SignalFence(signal), size_of::<SignalFence>()))
        );
        let dispatch = Dispatch::new(dispatch::Kernel::XOR_STREAM, 1, 2, 8, 4);
        assert_eq!(
            Packet::decode(dispatch.as_bytes()),
            Ok((Packet::Dispatch(dispatch), size_of::<Dispatch>()))
        );
        let kernel = DispatchKernel::new(7, [1, 2, 3], DispatchFlags::BARRIER);
        let kernel = kernel.with_arguments(0x1000, 12, 2);
        assert_eq!(
            Packet::decode(kernel.as_bytes()),
            Ok((Packet::DispatchKernel(kernel), size_of::<DispatchKernel>()))
        );
    }

    #[test]
    fn an_unknown_opcode_and_a_wrong_length_are_told_apart() {
        let unknown = PacketHeader::new(Opcode(0x7777), 8, 0);
        assert_eq!(
            Packet::decode(unknown.as_bytes()),
            Err(PacketError::UnknownOpcode(Opcode(0x7777)))
        );
        let long = PacketHeader::new(Opcode::TIMESTAMP, 80, 0);
        assert_eq!(
            Packet::decode(long.as_bytes()),
            Err(PacketError::BadLength { opcode: Opcode::TIMESTAMP, units: 10 })
        );
        let short = PacketHeader::new(Opcode::DISPATCH_KERNEL, 32, 0);
        let short = [short.as_bytes(), &[0; 24]].concat();
        assert_eq!(
            Packet::decode(&short),
            Err(PacketError::BadLength { opcode: Opcode::DISPATCH_KERNEL, units: 4 })
        );
        let empty = PacketHeader::new(Opcode::NOP, 0, 0);
        assert!(Packet::decode(empty.as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn decoding_any_bytes_never_panics_and_never_reads_past_the_packet(
            bytes in proptest::collection::vec(any::<u8>(), 0..512)
        ) {
            if let Ok((_, size)) = Packet::decode(&bytes) {
                prop_assert!(size >= UNIT && size <= bytes.len() && size <= MAX_PACKET_SIZE);
            }
        }

        #[test]
        fn decoding_any_body_behind_any_known_opcode_never_panics(
            opcode in 0u16..0x50, units in 0u16..40, argument in 0u32..400,
            body in proptest::collection::vec(any::<u8>(), 0..320)
        ) {
            let header = PacketHeader { opcode: Opcode(opcode), units, argument };
            let bytes = [header.as_bytes(), &body].concat();
            if let Ok((_, size)) = Packet::decode(&bytes) {
                prop_assert_eq!(size, header.size());
            }
        }
    }
}
