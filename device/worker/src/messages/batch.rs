// SPDX-License-Identifier: MIT OR Apache-2.0

//! The one message without a fixed length: dispatches that a worker runs in a row.

use super::{MAX_BATCH, MAX_DESCRIPTORS, MAX_PUSH_CONSTANTS, Malformed, Message, VERSION};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The message's number.
const KIND: u32 = 0x04;
/// Push constants are padded to a multiple of this many bytes.
const PADDING: usize = 8;
/// Bytes of a descriptor: address and length.
const DESCRIPTOR: usize = 16;
/// Most bytes of a batch, without the packet's header.
pub(super) const MAX_BYTES: usize = size_of::<Head>()
    + MAX_BATCH * (size_of::<Entry>() + MAX_PUSH_CONSTANTS + MAX_DESCRIPTORS * DESCRIPTOR);

/// How a batch begins.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Head {
    /// The number of `Map` and `Unmap` that the owner sent so far, modulo 2^32: they come before the batch.
    memory: u32,
    /// Number of dispatches.
    count: u32,
}

impl Message for Head {
    const KIND: u32 = KIND;
}

/// How each dispatch begins. Its push constants follow, then its descriptors.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Entry {
    kernel: u32,
    groups: [u32; 3],
    /// 1 if the dispatch waits for those before it, else 0.
    barrier: u32,
    /// Bytes of push constants.
    push_constants: u32,
    /// Number of descriptors.
    descriptors: u32,
    /// Zero.
    reserved: u32,
}

/// A dispatch of a kernel.
#[derive(Debug, Clone, Copy, Default)]
pub struct KernelDispatch<'a> {
    /// The kernel's number.
    pub kernel: u32,
    /// Number of work groups, by dimension.
    pub groups: [u32; 3],
    /// Whether it waits until the dispatches before it in its batch are done, and sees their stores.
    pub barrier: bool,
    /// Push constants, as many bytes as the kernel has.
    pub push_constants: &'a [u8],
    /// GPU virtual address and length in bytes of each descriptor, as many as the kernel has.
    pub descriptors: &'a [[u64; 2]],
}

/// Writes batches into one buffer, which it keeps.
#[derive(Debug, Default)]
pub struct BatchWriter(Vec<u8>);

impl BatchWriter {
    /// Writes a packet, after `memory` requests for memory.
    ///
    /// # Errors
    /// Names what there is too much of.
    pub fn write(
        &mut self,
        memory: u32,
        dispatches: &[KernelDispatch<'_>],
    ) -> Result<&[u8], &'static str> {
        if dispatches.is_empty() || dispatches.len() > MAX_BATCH {
            return Err("a batch has 1 to 64 dispatches");
        }
        let Self(packet) = self;
        packet.clear();
        packet.extend_from_slice(Head::HEADER.as_bytes());
        packet.extend_from_slice(Head { memory, count: dispatches.len() as u32 }.as_bytes());
        for dispatch in dispatches {
            let KernelDispatch { kernel, groups, barrier, push_constants, descriptors } = dispatch;
            if push_constants.len() > MAX_PUSH_CONSTANTS || push_constants.len() % 4 != 0 {
                return Err("push constants are words, and no more than a worker takes");
            }
            if descriptors.len() > MAX_DESCRIPTORS {
                return Err("more descriptors than a worker takes");
            }
            let entry = Entry {
                kernel: *kernel,
                groups: *groups,
                barrier: u32::from(*barrier),
                push_constants: push_constants.len() as u32,
                descriptors: descriptors.len() as u32,
                reserved: 0,
            };
            packet.extend_from_slice(entry.as_bytes());
            packet.extend_from_slice(push_constants);
            packet.resize(packet.len().next_multiple_of(PADDING), 0);
            packet.extend_from_slice(descriptors.as_bytes());
        }
        Ok(packet)
    }
}

/// A batch that was received, not yet checked to its end.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// The number of `Map` and `Unmap` that come before the batch, modulo 2^32.
    pub memory: u32,
    /// Number of dispatches.
    pub count: u32,
    /// The dispatches, as they were sent.
    pub bytes: &'a [u8],
}

/// A dispatch that was received.
#[derive(Debug, Clone, Copy)]
pub struct Received<'a> {
    /// The kernel's number.
    pub kernel: u32,
    /// Number of work groups, by dimension.
    pub groups: [u32; 3],
    /// Whether it waits for the dispatches before it.
    pub barrier: bool,
    /// Push constants.
    pub push_constants: &'a [u8],
    descriptors: &'a [u8],
}

impl Received<'_> {
    /// Returns the address and the length of each descriptor.
    pub fn descriptors(&self) -> impl ExactSizeIterator<Item = [u64; 2]> {
        let (descriptors, _) = self.descriptors.as_chunks::<DESCRIPTOR>();
        descriptors.iter().map(|bytes| zerocopy::transmute!(*bytes))
    }
}

impl<'a> Batch<'a> {
    /// Returns the batch if the packet is one.
    ///
    /// # Errors
    /// When it is a batch of another version, or of an impossible number of dispatches.
    pub fn read(packet: &'a [u8]) -> Result<Option<Self>, Malformed> {
        let length = Malformed::Length(packet.len());
        let ([kind, version], rest) = <[u32; 2]>::read_from_prefix(packet).map_err(|_| length)?;
        if kind != KIND {
            return Ok(None);
        }
        if version != VERSION {
            return Err(Malformed::Version(version));
        }
        let (Head { memory, count }, bytes) = Head::read_from_prefix(rest).map_err(|_| length)?;
        if count == 0 || count as usize > MAX_BATCH {
            return Err(Malformed::Field("number of dispatches"));
        }
        Ok(Some(Self { memory, count, bytes }))
    }

    /// Passes on each dispatch with its index, in their order.
    ///
    /// # Errors
    /// The first error of `each`, or one of the batch itself: dispatches before it have been passed on.
    pub fn each<E: From<Malformed>>(
        &self,
        mut each: impl FnMut(u32, &Received<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = self.bytes;
        for index in 0..self.count {
            let dispatch = take(&mut rest)?;
            each(index, &dispatch)?;
        }
        if rest.is_empty() { Ok(()) } else { Err(Malformed::Length(self.bytes.len()).into()) }
    }
}

/// Takes the first dispatch off these bytes.
fn take<'a>(rest: &mut &'a [u8]) -> Result<Received<'a>, Malformed> {
    let short = Malformed::Length(rest.len());
    let (entry, after) = Entry::read_from_prefix(rest).map_err(|_| short)?;
    let Entry { kernel, groups, barrier, push_constants, descriptors, reserved } = entry;
    if barrier > 1 || reserved != 0 {
        return Err(Malformed::Field("flag of a dispatch"));
    }
    let (bytes, count) = (push_constants as usize, descriptors as usize);
    if bytes > MAX_PUSH_CONSTANTS || bytes % 4 != 0 || count > MAX_DESCRIPTORS {
        return Err(Malformed::Field("number of arguments"));
    }
    let (constants, after) =
        after.split_at_checked(bytes.next_multiple_of(PADDING)).ok_or(short)?;
    let (descriptors, after) = after.split_at_checked(count * DESCRIPTOR).ok_or(short)?;
    *rest = after;
    let (barrier, push_constants) = (barrier == 1, &constants[..bytes]);
    Ok(Received { kernel, groups, barrier, push_constants, descriptors })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kernel plus index, bytes of push constants, descriptors.
    type Dispatched = (u32, usize, Vec<[u64; 2]>);

    fn read(packet: &[u8]) -> Result<Vec<Dispatched>, Malformed> {
        let batch = Batch::read(packet)?.expect("a batch");
        let mut all = Vec::new();
        batch.each(|index, dispatch| {
            let descriptors = dispatch.descriptors().collect();
            all.push((index + dispatch.kernel, dispatch.push_constants.len(), descriptors));
            Ok::<_, Malformed>(())
        })?;
        Ok(all)
    }

    #[test]
    fn a_batch_comes_back_as_what_was_sent_even_the_largest() {
        let mut writer = BatchWriter::default();
        let descriptors: Vec<_> = (0..MAX_DESCRIPTORS as u64).map(|at| [at << 12, 64]).collect();
        let (small, large) = ([1, 2, 3, 4], [7; MAX_PUSH_CONSTANTS]);
        let first = KernelDispatch {
            kernel: 10,
            groups: [1, 2, 3],
            barrier: true,
            push_constants: &small,
            descriptors: &descriptors[1..2],
        };
        let packet = writer.write(77, &[first, KernelDispatch::default()]).unwrap();
        let batch = Batch::read(packet).unwrap().unwrap();
        assert_eq!((batch.memory, batch.count), (77, 2));
        assert_eq!(read(packet), Ok(vec![(10, 4, vec![[0x1000, 64]]), (1, 0, vec![])]));
        let largest = KernelDispatch { push_constants: &large, descriptors: &descriptors, ..first };
        let packet = writer.write(0, &[largest; MAX_BATCH]).unwrap();
        assert_eq!(packet.len(), super::super::MAX_REQUEST);
        assert_eq!(read(packet).unwrap().len(), MAX_BATCH);
    }

    #[test]
    fn more_than_a_batch_may_hold_is_not_written() {
        let mut writer = BatchWriter::default();
        let large = [0; MAX_PUSH_CONSTANTS + 4];
        let many = [[0; 2]; MAX_DESCRIPTORS + 1];
        let with = |push_constants, descriptors| KernelDispatch {
            push_constants,
            descriptors,
            ..KernelDispatch::default()
        };
        for dispatch in [with(&large, &[]), with(&large[..3], &[]), with(&[], &many)] {
            assert!(writer.write(0, &[dispatch]).is_err());
        }
        assert!(writer.write(0, &[]).is_err());
        assert!(writer.write(0, &[with(&[], &[]); MAX_BATCH + 1]).is_err());
    }

    /// Whatever one byte of a batch becomes, and wherever the batch ends, reading it ends without a panic.
    #[test]
    fn a_batch_that_is_cut_or_changed_is_an_error_or_another_batch() {
        let mut writer = BatchWriter::default();
        let dispatch = KernelDispatch {
            push_constants: &[1; 12],
            descriptors: &[[1, 2]],
            ..KernelDispatch::default()
        };
        let packet = writer.write(0, &[dispatch; 2]).unwrap();
        for length in 8..packet.len() {
            assert!(read(&packet[..length]).is_err(), "{length}");
        }
        assert!(read(&[packet, &[0]].concat()).is_err());
        // After the kind: a packet of another kind is no batch.
        for at in 4..packet.len() {
            for bit in 0..8 {
                let mut packet = packet.to_vec();
                packet[at] ^= 1 << bit;
                let _ = read(&packet);
            }
        }
    }
}
