// SPDX-License-Identifier: MIT OR Apache-2.0

//! A process: its address space, its devices, and what holds its contexts.

use crate::dxgkrnl::memory::gpu_va::GpuVa;
use crate::hardware::AddressSpaceId;
use bellhop_protocol::control::Handle;
use std::collections::BTreeSet;

/// A process.
#[derive(Debug)]
pub(crate) struct Process {
    /// Its page tables.
    pub(crate) space: AddressSpaceId,
    /// The addresses that it uses.
    pub(crate) gpu_va: GpuVa,
    /// Its devices.
    pub(crate) devices: BTreeSet<Handle>,
    /// Number of paging works that keep its contexts suspended.
    pub(crate) holds: u32,
}
