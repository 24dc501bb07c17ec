// SPDX-License-Identifier: MIT OR Apache-2.0

//! A task: what the owner asks a worker to do, in the words of the worker's role. Kernels have batches besides.

use super::{MAX_TASK, Malformed, Message, VERSION};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The message's number.
const KIND: u32 = 0x07;

/// How a task begins.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Head {
    /// The number of `Map` and `Unmap` that the owner sent so far, modulo 2^32: they come before the task.
    memory: u32,
    /// Bytes that follow.
    length: u32,
}

impl Message for Head {
    const KIND: u32 = KIND;
}

/// Writes tasks into one buffer, which it keeps.
#[derive(Debug, Default)]
pub struct TaskWriter(Vec<u8>);

impl TaskWriter {
    /// Writes a packet, after `memory` requests for memory.
    ///
    /// # Errors
    /// Says that the task is too long.
    pub fn write(&mut self, memory: u32, task: &[u8]) -> Result<&[u8], &'static str> {
        if task.is_empty() || task.len() > MAX_TASK {
            return Err("a task has 1 to 4096 bytes");
        }
        let Self(packet) = self;
        packet.clear();
        packet.extend_from_slice(Head::HEADER.as_bytes());
        packet.extend_from_slice(Head { memory, length: task.len() as u32 }.as_bytes());
        packet.extend_from_slice(task);
        Ok(packet)
    }
}

/// A task that was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task<'a> {
    /// The number of `Map` and `Unmap` that come before the task, modulo 2^32.
    pub memory: u32,
    /// What to do.
    pub bytes: &'a [u8],
}

impl<'a> Task<'a> {
    /// Reads a packet.
    ///
    /// # Errors
    /// When it is no task, or one of another version or length.
    pub fn read(packet: &'a [u8]) -> Result<Self, Malformed> {
        let length = Malformed::Length(packet.len());
        let ([kind, version], rest) = <[u32; 2]>::read_from_prefix(packet).map_err(|_| length)?;
        if kind != KIND {
            return Err(Malformed::Kind(kind));
        }
        if version != VERSION {
            return Err(Malformed::Version(version));
        }
        let (head, bytes) = Head::read_from_prefix(rest).map_err(|_| length)?;
        let fits = (1..=MAX_TASK).contains(&bytes.len()) && head.length as usize == bytes.len();
        if fits { Ok(Self { memory: head.memory, bytes }) } else { Err(length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_comes_back_as_what_was_sent_even_the_longest() {
        let mut writer = TaskWriter::default();
        for length in [1, MAX_TASK] {
            let task = vec![7; length];
            let packet = writer.write(3, &task).unwrap();
            assert!(packet.len() <= super::super::MAX_REQUEST);
            assert_eq!(Task::read(packet), Ok(Task { memory: 3, bytes: &task }));
        }
        assert!(writer.write(0, &[]).is_err() && writer.write(0, &[0; MAX_TASK + 1]).is_err());
    }

    #[test]
    fn a_task_that_is_cut_or_of_another_kind_is_an_error() {
        let mut writer = TaskWriter::default();
        let packet = writer.write(0, b"task").unwrap().to_vec();
        for length in 0..packet.len() {
            assert!(Task::read(&packet[..length]).is_err(), "{length}");
        }
        assert!(Task::read(&[&packet[..], &[0]].concat()).is_err());
        let changed = |at: usize| {
            let mut packet = packet.clone();
            packet[at] ^= 1;
            Task::read(&packet).map(drop)
        };
        assert_eq!(changed(0), Err(Malformed::Kind(6)));
        assert_eq!(changed(4), Err(Malformed::Version(VERSION ^ 1)));
        assert_eq!(changed(12), Err(Malformed::Length(20)));
    }
}
