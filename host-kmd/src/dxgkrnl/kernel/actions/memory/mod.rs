// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the kernel does to memory.

pub(crate) mod allocations;
mod aperture;
mod mappings;
mod residency;
