// SPDX-License-Identifier: MIT OR Apache-2.0

//! Command buffers: what they record is a stream of commands in memory of the GPU, ready to be executed.

mod bound;
mod buffer;
mod compute;
mod dispatches;
mod drawing;
mod drawn;
mod events;
mod images;
mod others;
mod pool;
mod push;
mod pushed;
mod queries;
mod recording;
mod regions;
mod stream;
mod stretches;
#[cfg(test)]
pub(crate) mod test_heap;
mod transfer;

pub use buffer::CommandBuffer;
pub use stream::Chunk;
pub(crate) use stream::Uses;

use ash::vk;

/// Finds an entry point by its name.
pub fn lookup(name: &[u8]) -> Option<vk::PFN_vkVoidFunction> {
    pool::lookup(name)
        .or_else(|| buffer::lookup(name))
        .or_else(|| compute::lookup(name))
        .or_else(|| drawing::lookup(name))
        .or_else(|| push::lookup(name))
        .or_else(|| transfer::lookup(name))
        .or_else(|| images::lookup(name))
        .or_else(|| stretches::lookup(name))
        .or_else(|| events::lookup(name))
        .or_else(|| queries::lookup(name))
        .or_else(|| others::lookup(name))
}
