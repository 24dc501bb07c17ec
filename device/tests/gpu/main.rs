// SPDX-License-Identifier: MIT OR Apache-2.0
#![allow(clippy::disallowed_methods, reason = "tests wait for what they test")]

//! The GPU, driven as its kernel and its guests drive it: through `Gpu` and `Platform`, and through memory that both sides
//! map.

/// What guests show.
mod display {
    mod screen;
}
/// Guests with errors, and engines that hang.
mod errors {
    mod faults;
    mod hostile;
    mod recovery;
    mod unknown_ids;
}
/// Fences: signals, waits, logs and their interrupts.
mod fences {
    mod cross_adapter;
    mod interrupts;
    mod logs;
    mod optimized_interrupt;
    mod signals;
    mod types;
}
/// Memory that engines reach, and memory that they must not reach.
mod memory {
    mod compression;
    mod isolation;
    mod page_tables;
    mod paging;
    mod pins;
    mod protected;
}
/// From a doorbell to the packets, and the order of queues.
mod submission {
    mod dma_buffers;
    mod doorbell_line;
    mod global_doorbell;
    mod packets;
    mod processors;
    mod rotation;
    mod scheduling;
    mod small_buffers;
    mod surfaces;
}
/// Support for the tests.
mod support {
    pub mod data;
    pub mod log_buffers;
    pub mod one_processor;
    pub mod rig;
    pub mod system;
}
