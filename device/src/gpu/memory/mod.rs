// SPDX-License-Identifier: MIT OR Apache-2.0

//! Memory as engines access it: segments, page tables, translation, the BAR.

pub mod address_map;
pub mod bar;
pub mod compression;
pub mod copy;
pub mod cross_memory;
pub mod drawn;
pub mod host_memory;
pub mod mmu;
pub mod page_table;
pub mod pins;
pub mod prefetch;
pub mod process_bar;
pub mod region;
pub mod shareable;
pub mod tlb;
pub mod violation;
pub mod windows;
pub mod words;
