// SPDX-License-Identifier: MIT OR Apache-2.0

//! The GPU, driven as its kernel and its guests drive it: through the registers, and through
//! memory that both sides map.

/// Guests that do wrong, and engines that hang.
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
/// What engines reach, and what they must not.
mod memory {
    mod compression;
    mod isolation;
    mod page_tables;
    mod paging;
    mod pins;
}
/// From a doorbell to the packets, and which queue is next.
mod submission {
    mod dma_buffers;
    mod global_doorbell;
    mod packets;
    mod processors;
    mod rotation;
    mod scheduling;
    mod small_buffers;
}
/// What the tests share.
mod support {
    pub mod data;
    pub mod log_buffers;
    pub mod one_processor;
    pub mod rig;
    pub mod system;
}
