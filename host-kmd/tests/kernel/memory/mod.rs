// SPDX-License-Identifier: MIT OR Apache-2.0

//! Allocations, addresses, residency and paging.

mod accessed_physically;
mod allocations;
mod donation;
mod migration;
mod node_paging;
mod notification;
mod paging;
mod process_bar;
mod vidmm;
