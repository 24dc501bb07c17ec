// SPDX-License-Identifier: MIT OR Apache-2.0

//! Allocations that GPU and program both reach, and how many bytes the program has of them.

use ash::vk;
use bellhop_guest_umd::protocol::control::allocation::AllocationKind;
use bellhop_guest_umd::protocol::control::gpu_va::Protection;
use bellhop_guest_umd::transport::TransportError;
use bellhop_guest_umd::{Error, GpuMapping};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that the program has.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Counts bytes that were taken.
    pub(crate) fn take(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes that were given back.
    pub(crate) fn give_back(&self, bytes: u64) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// How many there are now.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What functions return that create something and could not.
pub(crate) fn out_of(error: &Error) -> vk::Result {
    crate::debug::say(error);
    match error {
        Error::Transport(TransportError::OutOfMemory(_)) | Error::Refused { .. } => {
            vk::Result::ERROR_OUT_OF_DEVICE_MEMORY
        }
        error if error.is_device_gone() => vk::Result::ERROR_DEVICE_LOST,
        Error::Transport(_) => vk::Result::ERROR_OUT_OF_HOST_MEMORY,
        _ => vk::Result::ERROR_OUT_OF_DEVICE_MEMORY,
    }
}

/// An allocation that GPU and program reach, counted among what the program has.
pub(crate) struct Pages {
    pub(crate) mapping: GpuMapping,
    counter: Arc<Counter>,
}

impl Pages {
    /// Takes so many bytes, a multiple of the page size.
    pub(crate) fn new(
        counter: &Arc<Counter>,
        device: &bellhop_guest_umd::Device,
        bytes: u64,
    ) -> Result<Self, Error> {
        let allocation = device.create_allocation(AllocationKind::SYSTEM, bytes)?;
        let mapping = allocation.map(Protection::WRITE)?;
        counter.take(bytes);
        Ok(Self { mapping, counter: Arc::clone(counter) })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.counter.give_back(self.mapping.size());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_may_free_or_open_again_it_is_told() {
        let memory = Error::Transport(TransportError::OutOfMemory(1));
        assert_eq!(out_of(&memory), vk::Result::ERROR_OUT_OF_DEVICE_MEMORY);
        let gone = Error::Transport(TransportError::Replaced);
        assert_eq!(out_of(&gone), vk::Result::ERROR_DEVICE_LOST);
    }
}
