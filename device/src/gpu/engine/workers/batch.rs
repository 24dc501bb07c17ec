// SPDX-License-Identifier: MIT OR Apache-2.0

//! Dispatches that a worker executes in a row.

use crate::gpu::workers::kernels::module::Module;
use crate::gpu::workers::kernels::table::KernelSpace;
use bellhop_protocol::packet::dispatch::KernelDescriptor;
use bellhop_worker::owner::KernelDispatch;
use std::ops::Range;
use std::sync::Arc;

/// Most dispatches of a batch.
const MOST: usize = 64;

/// A dispatch, without its arguments.
#[derive(Debug)]
pub struct Item {
    /// The kernel's content.
    pub module: Arc<Module>,
    /// The kernel's number.
    pub number: u32,
    /// Number of work groups, by dimension; none is 0.
    pub groups: [u32; 3],
    /// Whether it waits for the dispatches before it.
    pub barrier: bool,
}

/// Dispatches that a worker executes in a row. Empty, it keeps its memory for the next.
#[derive(Debug, Default)]
pub struct Batch {
    /// The kernels of the dispatches' address space.
    pub space: Option<Arc<KernelSpace>>,
    items: Vec<(Item, Range<usize>, Range<usize>)>,
    constants: Vec<u8>,
    descriptors: Vec<[u64; 2]>,
}

impl Batch {
    /// Whether there is no dispatch.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether another dispatch fits.
    pub fn has_room(&self) -> bool {
        self.items.len() < MOST
    }

    /// Adds a dispatch.
    pub fn push(
        &mut self,
        space: Arc<KernelSpace>,
        item: Item,
        constants: &[u8],
        descriptors: &[KernelDescriptor],
    ) {
        self.space = Some(space);
        let starts = (self.constants.len(), self.descriptors.len());
        self.constants.extend_from_slice(constants);
        self.descriptors.extend(descriptors.iter().map(|d| [d.gpu_va, d.length]));
        let ends = (self.constants.len(), self.descriptors.len());
        self.items.push((item, starts.0..ends.0, starts.1..ends.1));
    }

    /// Removes all dispatches.
    pub fn clear(&mut self) {
        self.space = None;
        self.items.clear();
        self.constants.clear();
        self.descriptors.clear();
    }

    /// The modules of all dispatches.
    pub fn modules(&self) -> impl Iterator<Item = &Arc<Module>> {
        self.items.iter().map(|(item, ..)| &item.module)
    }

    /// The ranges of memory that descriptors name: address and length.
    pub fn descriptors(&self) -> &[[u64; 2]] {
        &self.descriptors
    }

    /// The kernel's number in the dispatch of this index, or in the first.
    pub fn number(&self, index: u32) -> u32 {
        let item = self.items.get(index as usize).or_else(|| self.items.first());
        item.map_or(0, |(item, ..)| item.number)
    }

    /// As a worker takes it.
    pub fn to_dispatch(&self) -> Vec<KernelDispatch<'_>> {
        let dispatch =
            |(item, constants, descriptors): &(Item, Range<usize>, Range<usize>)| KernelDispatch {
                kernel: item.module.number,
                groups: item.groups,
                barrier: item.barrier,
                push_constants: self.constants.get(constants.clone()).unwrap_or_default(),
                descriptors: self.descriptors.get(descriptors.clone()).unwrap_or_default(),
            };
        self.items.iter().map(dispatch).collect()
    }
}
