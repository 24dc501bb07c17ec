// SPDX-License-Identifier: MIT OR Apache-2.0

//! A kernel's execution: what its worker was told, and what it reaches.

use super::memory::{Memory, Part};
use super::owner::Owner;
use anyhow::Context;
use bellhop_worker::messages::Done;
use rustix::stdio::stdin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The first dispatch of a batch.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) kernel: u32,
    /// The dispatches of the batch.
    pub(super) count: u32,
    /// The kernel's argument, which may be an address.
    pub(super) address: u64,
    pub(super) memory: Arc<Memory>,
}

impl Call {
    pub(super) fn of_batch(packet: &[u8], memory: &Arc<Memory>) -> anyhow::Result<Self> {
        let word = |at: usize| packet.get(at..)?.first_chunk().copied().map(u32::from_le_bytes);
        // Behind the header: requests for memory, dispatches, and the first dispatch's kernel. Behind that, its push
        // constants.
        let count = word(12).context("a batch without a number of dispatches")?;
        let kernel = word(16).context("a batch without a dispatch")?;
        let argument = packet.get(48..56).and_then(|bytes| bytes.first_chunk().copied());
        let address = u64::from_le_bytes(argument.unwrap_or_default());
        Ok(Self { kernel, count, address, memory: Arc::clone(memory) })
    }

    /// Says that all of the batch is done.
    pub(super) fn end(&self) {
        Owner(stdin()).tell(&Done { count: self.count });
    }

    /// Loads a word at this offset from the argument. The lock for memory orders it.
    pub(super) fn load(&self, offset: u64) -> u64 {
        let address = self.address + offset;
        self.memory.reach(address, |run, at| run.mapping.word(at).load(Ordering::Relaxed))
    }

    /// Stores a word there.
    pub(super) fn store(&self, offset: u64, value: u64) {
        let address = self.address + offset;
        self.memory.reach(address, |run, at| run.mapping.word(at).store(value, Ordering::Relaxed));
    }

    /// The run of pages with the argument.
    pub(super) fn part(&self) -> Part {
        self.memory.reach(self.address, |run, _| run.part.clone())
    }
}
