//! The GPU, driven as its kernel and its guests drive it: through the registers, and through
//! memory that both sides map.

mod compression;
mod cross_adapter;
mod dma_buffers;
mod faults;
mod fence_logs;
mod fence_types;
mod fences;
mod global_doorbell;
mod hostile;
mod interrupts;
mod isolation;
mod optimized_interrupt;
mod packets;
mod page_tables;
mod paging;
mod processors;
mod recovery;
mod rig;
mod rotation;
mod scheduling;
mod system;
