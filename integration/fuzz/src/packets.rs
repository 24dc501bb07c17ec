// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packets of a hostile guest: well-formed with arbitrary arguments, or malformed.

use crate::places::{Address, Length};
use arbitrary::Arbitrary;
use bellhop_protocol::fence_log::FenceLogOperation;
use bellhop_protocol::packet::dispatch::{Dispatch, DispatchFlags, DispatchKernel, Kernel};
use bellhop_protocol::packet::fence::{
    ConditionalInterrupt, LogFence, LoggedSignal, LoggedWait, SignalFence, WaitFence, WriteFence,
};
use bellhop_protocol::packet::flow::IndirectBuffer;
use bellhop_protocol::packet::transfer::{Compare, Copy, Fill, Hash, Timestamp, WriteData};
use bellhop_protocol::packet::{Opcode, PacketHeader, UNIT};
use zerocopy::IntoBytes;

/// A choice of a fence's slot and a value.
#[derive(Debug, Arbitrary)]
pub enum Fence {
    /// A slot and a value that may exist.
    Few(u8, u8),
    /// Anything.
    Any(u32, u64),
}

impl Fence {
    fn get(&self) -> (u32, u64) {
        match *self {
            Self::Few(slot, value) => ((slot % 8).into(), value.into()),
            Self::Any(slot, value) => (slot, value),
        }
    }
}

/// A packet, or words in its place.
#[derive(Debug, Arbitrary)]
pub enum Packet {
    /// `INDIRECT_BUFFER`
    IndirectBuffer(Address, u16),
    /// `INDIRECT_BUFFER` of any size at any address.
    AnyIndirectBuffer(Address, u32),
    /// `FILL`
    Fill(Address, Length, u32),
    /// `COPY`
    Copy(Address, Address, Length),
    /// `WRITE_DATA`
    WriteData(Address, u8, u64),
    /// `COMPARE`
    Compare(Address, Address, Length, Address),
    /// `HASH`
    Hash(Address, Length, u64, Address),
    /// `TIMESTAMP`
    Timestamp(Address),
    /// `SIGNAL_FENCE`
    Signal(Fence),
    /// `WAIT_FENCE`
    Wait(Fence),
    /// `WRITE_FENCE`
    WriteFence(Fence),
    /// `LOG_FENCE`
    LogFence(Fence, u8),
    /// `CONDITIONAL_INTERRUPT`
    Interrupt(Fence),
    /// A signal with its entry in the log.
    LoggedSignal(Fence),
    /// A wait with its entry in the log.
    LoggedWait(Fence),
    /// `DISPATCH` of a kernel that ends.
    Dispatch(bool, Address, Address, Length, u64),
    /// `DISPATCH_KERNEL` of a kernel that may exist.
    DispatchKernel {
        /// Its number.
        kernel: u8,
        /// Work groups.
        groups: [u16; 3],
        /// Flags, of which one exists.
        flags: u8,
        /// Where its arguments are.
        arguments: Address,
        /// Bytes of push constants.
        push_constants: u16,
        /// Descriptors.
        descriptors: u8,
    },
    /// A header and what may follow.
    Raw {
        /// Known opcodes and some beside them.
        opcode: u8,
        /// The packet's length.
        units: u8,
        /// Its argument.
        argument: u32,
        /// The words that follow.
        words: [u64; 4],
        /// The number of those words.
        count: u8,
    },
    /// Any word.
    Word(u64),
}

impl Packet {
    /// Its bytes: whole units.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::IndirectBuffer(at, size) => {
                let size = u32::from(*size % 256) * 8;
                IndirectBuffer::new(at.aligned(), size).as_bytes().to_vec()
            }
            Self::AnyIndirectBuffer(at, size) => {
                IndirectBuffer::new(at.get(), *size).as_bytes().to_vec()
            }
            Self::Fill(at, length, pattern) => {
                Fill::new(at.get(), length.get(), *pattern).as_bytes().to_vec()
            }
            Self::Copy(from, to, length) => {
                Copy::new(from.get(), to.get(), length.get()).as_bytes().to_vec()
            }
            Self::WriteData(at, count, word) => {
                let count = usize::from(*count) + 1;
                let data = word.to_le_bytes().repeat(count.div_ceil(UNIT));
                let fixed = WriteData::new(at.get(), count);
                fixed.map_or_else(Vec::new, |fixed| [fixed.as_bytes(), &data].concat())
            }
            Self::Compare(left, right, length, result) => {
                let result = result.aligned();
                Compare::new(left.get(), right.get(), length.get(), result).as_bytes().to_vec()
            }
            Self::Hash(from, length, seed, result) => {
                Hash::new(from.get(), length.get(), *seed, result.aligned()).as_bytes().to_vec()
            }
            Self::Timestamp(at) => Timestamp::new(at.aligned()).as_bytes().to_vec(),
            Self::Signal(fence) => {
                let (slot, value) = fence.get();
                SignalFence::new(slot, value).as_bytes().to_vec()
            }
            Self::Wait(fence) => {
                let (slot, value) = fence.get();
                WaitFence::new(slot, value).as_bytes().to_vec()
            }
            Self::WriteFence(fence) => {
                let (slot, value) = fence.get();
                WriteFence::new(slot, value).as_bytes().to_vec()
            }
            Self::LogFence(fence, operation) => {
                let (slot, value) = fence.get();
                let operation = FenceLogOperation((*operation % 3).into());
                LogFence::new(slot, value, operation).as_bytes().to_vec()
            }
            Self::Interrupt(fence) => ConditionalInterrupt::new(fence.get().0).as_bytes().to_vec(),
            Self::LoggedSignal(fence) => {
                let (slot, value) = fence.get();
                LoggedSignal::new(slot, value).as_bytes().to_vec()
            }
            Self::LoggedWait(fence) => {
                let (slot, value) = fence.get();
                LoggedWait::new(slot, value).as_bytes().to_vec()
            }
            Self::Dispatch(kernel, from, to, length, parameter) => {
                let kernel = Kernel(1 + u32::from(*kernel));
                let (from, to, length) = (from.aligned(), to.aligned(), length.get() & !7);
                Dispatch::new(kernel, from, to, length, *parameter).as_bytes().to_vec()
            }
            Self::DispatchKernel {
                kernel,
                groups,
                flags,
                arguments,
                push_constants,
                descriptors,
            } => {
                let flags = DispatchFlags::from_bits_retain((flags % 3).into());
                DispatchKernel::new((kernel % 8).into(), groups.map(u32::from), flags)
                    .with_arguments(
                        arguments.get(),
                        u32::from(push_constants % 512) & !3,
                        u32::from(descriptors % 32),
                    )
                    .as_bytes()
                    .to_vec()
            }
            Self::Raw { opcode, units, argument, words, count } => {
                let header = PacketHeader {
                    opcode: Opcode((opcode % 0x50).into()),
                    units: (units % 40).into(),
                    argument: *argument,
                };
                let count = usize::from(*count) % (words.len() + 1);
                [header.as_bytes(), words[..count].as_bytes()].concat()
            }
            Self::Word(word) => word.to_le_bytes().to_vec(),
        }
    }
}
