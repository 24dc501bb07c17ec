// SPDX-License-Identifier: MIT OR Apache-2.0

//! Allocations: memory that the GPU can access.

pub(crate) mod allocation;
pub(crate) mod lock;
pub(crate) mod mapping;
pub(crate) mod paged;
pub(crate) mod reservation;
pub(crate) mod residency;
pub(crate) mod sharing;
