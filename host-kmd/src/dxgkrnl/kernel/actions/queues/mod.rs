// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the kernel does to contexts, their queues and the work in them.

mod contexts;
mod dma_buffers;
pub(crate) mod doorbells;
mod hw_queues;
mod loss;
mod software_queue;
mod submissions;
