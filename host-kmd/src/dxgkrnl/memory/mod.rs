// SPDX-License-Identifier: MIT OR Apache-2.0

//! Memory: allocations, GPU virtual addresses and paging. VidMm decides where bytes are.

pub(crate) mod allocation;
pub(crate) mod donation;
pub(crate) mod gpu_va;
pub(crate) mod migration;
pub(crate) mod page_tables;
pub(crate) mod paging;
pub(crate) mod process_bar;
pub(crate) mod sharing;
