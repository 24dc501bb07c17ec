// SPDX-License-Identifier: MIT OR Apache-2.0

//! A program's allocation in local memory.

use bellhop_guest_umd::{Allocation, Error, GpuMapping};
use bellhop_protocol::control::gpu_va::Protection;
use std::sync::Arc;

/// An allocation in a GPU's local memory, resident and mapped.
pub(super) struct Local {
    // Dropped in this order.
    pub(super) mapping: GpuMapping,
    pub(super) allocation: Arc<Allocation>,
}

impl Local {
    pub(super) fn place(allocation: Arc<Allocation>) -> Result<Self, Error> {
        allocation.make_resident()?;
        let mapping = allocation.map(Protection::WRITE)?;
        Ok(Self { mapping, allocation })
    }
}
