// SPDX-License-Identifier: MIT OR Apache-2.0

//! Paging operations: the requests to the driver that carry out a plan's steps.
//!
//! Bytes move through the paging process's GPU VA space, the *window*: VidMm maps a part of the memory there, the
//! operation fills, copies or reads it, and VidMm unmaps it. Memory larger than the window takes several turns.
//!
//! VidMm uses the addresses of the window in sequence, and flushes translations when it starts over. Source:
//! "Allocation notification".

use super::segment::Memory;
use super::step::{Mapping, Step};
use crate::ddi::paging::{
    AllocationId, AllocationNotification, MAX_LENGTH, MAX_PAGES, PAGING_VA_START, PageSize,
    PagingOperation,
};
use crate::hardware::{AddressSpaceId, DriverProtection, GpuSet, PhysicalPage, Pte};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::allocation::Extent;
use std::collections::{BTreeSet, VecDeque};

/// Maximum entries written at once.
const MAX_ENTRIES: u64 = 512;
/// Maximum bytes filled, copied or mapped at once. Bounds the work of one turn, so that other guests get theirs.
const MAX_CHUNK: u64 = 8 << 20;

/// One operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Operation {
    /// [`PagingOperation::UpdatePageTable`]
    UpdatePageTable {
        /// The GPUs that get the entries.
        gpus: GpuSet,
        /// The address space.
        space: AddressSpaceId,
        /// The first page's address.
        gpu_va: u64,
        /// The size of the pages.
        page_size: PageSize,
        /// The entries.
        entries: Vec<Pte>,
    },
    /// [`PagingOperation::FlushTlb`]
    FlushTlb(AddressSpaceId),
    /// [`PagingOperation::VirtualFill`] with zeroes.
    VirtualFill {
        /// First byte.
        destination: u64,
        /// Bytes.
        length: u64,
    },
    /// [`PagingOperation::VirtualTransfer`]
    VirtualTransfer {
        /// First byte to read.
        source: u64,
        /// First byte to write.
        destination: u64,
        /// Bytes.
        length: u64,
    },
    /// [`PagingOperation::Discard`]
    Discard {
        /// First byte.
        address: u64,
        /// Bytes.
        length: u64,
    },
    /// [`PagingOperation::NotifyResidency`]
    NotifyResidency {
        /// The allocation.
        allocation: AllocationId,
        /// Its physical address; `None` if it is not resident.
        address: Option<u64>,
    },
    /// [`PagingOperation::NotifyAlloc`]
    NotifyAlloc {
        /// The allocation.
        allocation: AllocationId,
        /// The reason.
        notification: AllocationNotification,
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
        /// Where the range is mapped.
        gpu_va: u64,
        /// The memory that is unmapped from the IOMMU.
        pages: Vec<Extent>,
    },
    /// Waits for all earlier operations.
    Wait,
}

impl Operation {
    /// Converts the operation for the DDI. `None` for a wait.
    pub(crate) fn as_ddi(&self) -> Option<PagingOperation<'_>> {
        Some(match *self {
            Self::UpdatePageTable { gpus, space, gpu_va, page_size, ref entries } => {
                PagingOperation::UpdatePageTable { gpus, space, gpu_va, page_size, entries }
            }
            Self::FlushTlb(space) => PagingOperation::FlushTlb { space },
            Self::VirtualFill { destination, length } => {
                PagingOperation::VirtualFill { destination, length, pattern: 0 }
            }
            Self::VirtualTransfer { source, destination, length } => {
                PagingOperation::VirtualTransfer { source, destination, length }
            }
            Self::Discard { address, length } => PagingOperation::Discard { address, length },
            Self::NotifyResidency { allocation, address } => {
                PagingOperation::NotifyResidency { allocation, address }
            }
            Self::NotifyAlloc { allocation, notification, offset, length, gpu_va, ref pages } => {
                PagingOperation::NotifyAlloc {
                    allocation,
                    notification,
                    offset,
                    length,
                    gpu_va,
                    pages,
                }
            }
            Self::Wait => return None,
        })
    }
}

/// The paging process's GPU VA space.
#[derive(Debug)]
pub(crate) struct Window {
    /// The system context's address space.
    space: AddressSpaceId,
    size: u64,
    /// Bytes used since the last flush.
    used: u64,
}

impl Window {
    /// Creates an unused window of `size` bytes, at least two pages.
    pub(crate) fn new(space: AddressSpaceId, size: u64) -> Self {
        let size = (size - size % PAGE_SIZE).max(2 * PAGE_SIZE);
        Self { space, size, used: 0 }
    }

    /// Takes `length` bytes of addresses that no engine has cached, at most the whole window.
    fn take(&mut self, length: u64, operations: &mut VecDeque<Operation>) -> u64 {
        if length > self.size - self.used {
            operations.push_back(Operation::FlushTlb(self.space));
            self.used = 0;
        }
        let gpu_va = PAGING_VA_START + self.used;
        self.used += length;
        gpu_va
    }

    fn mapping(&self, gpu_va: u64, offset: u64, length: u64) -> Mapping {
        // The copy moves raw bytes, and the master's engine executes it.
        let (driver, gpus) = (DriverProtection::default(), GpuSet::MASTER);
        Mapping { gpus, space: self.space, gpu_va, length, offset, writable: true, driver }
    }
}

/// Turns steps into operations, a part of a step at a time.
#[derive(Debug)]
pub(crate) struct Operations {
    window: Window,
    step: Option<Step>,
    /// Finished bytes of the step, or of its mapping.
    done: u64,
    /// Finished mappings of the step.
    mappings: usize,
    ready: VecDeque<Operation>,
}

impl Operations {
    /// Creates it without work.
    pub(crate) fn new(window: Window) -> Self {
        Self { window, step: None, done: 0, mappings: 0, ready: VecDeque::new() }
    }

    /// Begins a step. The previous step must have no operations left.
    pub(crate) fn begin(&mut self, step: Step) {
        (self.step, self.done, self.mappings) = (Some(step), 0, 0);
    }

    /// The next operation of the step, without taking it. `None` if the step has no more.
    pub(crate) fn peek(&mut self) -> Option<&Operation> {
        while self.ready.is_empty() {
            let step = self.step.take()?;
            if self.advance(&step) {
                self.step = Some(step);
            }
        }
        self.ready.front()
    }

    /// Takes the operation that [`Self::peek`] returned.
    pub(crate) fn pop(&mut self) -> Option<Operation> {
        self.ready.pop_front()
    }

    /// Drops the rest of the step.
    pub(crate) fn drop_step(&mut self) {
        self.step = None;
        self.ready.clear();
    }

    /// Prepares a part of a step. Returns whether the step has more.
    fn advance(&mut self, step: &Step) -> bool {
        match step {
            Step::Unmap { memory, mappings } => self.each_mapping(memory, mappings, false),
            Step::Map { memory, mappings } => self.each_mapping(memory, mappings, true),
            Step::Zero { memory, length } => {
                let chunk = self.chunk(*length, self.window.size.min(MAX_CHUNK));
                let destination = self.map_window(memory, self.done, chunk);
                self.ready.push_back(Operation::VirtualFill { destination, length: chunk });
                self.unmap_window(memory, destination, chunk);
                self.did(chunk, *length)
            }
            Step::Copy { from, to, length } => {
                // Source and destination must be mapped at once.
                let half = self.window.size / 2;
                let chunk = self.chunk(*length, (half - half % PAGE_SIZE).min(MAX_CHUNK));
                if 2 * chunk > self.window.size - self.window.used {
                    // One flush for both: a flush for the destination must not invalidate the source.
                    self.ready.push_back(Operation::FlushTlb(self.window.space));
                    self.window.used = 0;
                }
                let source = self.map_window(from, self.done, chunk);
                let destination = self.map_window(to, self.done, chunk);
                let transfer = Operation::VirtualTransfer { source, destination, length: chunk };
                self.ready.push_back(transfer);
                self.unmap_window(from, source, chunk);
                self.unmap_window(to, destination, chunk);
                self.did(chunk, *length)
            }
            Step::Discard { address, length } => {
                let chunk = self.chunk(*length, MAX_LENGTH);
                let address = address + self.done;
                self.ready.push_back(Operation::Discard { address, length: chunk });
                self.did(chunk, *length)
            }
            Step::NotifyResidency { allocation, address } => {
                let (allocation, address) = (*allocation, *address);
                self.ready.push_back(Operation::NotifyResidency { allocation, address });
                false
            }
            Step::NotifyEviction { allocation, memory, length } => {
                let chunk = self.chunk(*length, self.window.size);
                // "Dxgkrnl maps the allocation to the paging process's GPU virtual address space."
                let gpu_va = self.map_window(memory, self.done, chunk);
                // "Dxgkrnl calls DxgkDdiBuildPagingBuffer with the DXGK_OPERATION_NOTIFY_ALLOC operation and the
                // NotifyEviction flag." The driver builds commands, which are submitted in the system context.
                self.ready.push_back(Operation::NotifyAlloc {
                    allocation: *allocation,
                    notification: AllocationNotification::Eviction,
                    offset: self.done,
                    length: chunk,
                    gpu_va,
                    pages: Vec::new(),
                });
                // "Dxgkrnl unmaps the allocation from the paging process GPU VA space."
                self.unmap_window(memory, gpu_va, chunk);
                self.did(chunk, *length)
            }
            Step::NotifyIoMmuUnmap { allocation, memory, length } => {
                let most = self.chunk(*length, MAX_LENGTH);
                let pages: Vec<_> = memory.runs(self.done, most).take(MAX_PAGES).collect();
                let chunk = pages.iter().map(|run| run.length).sum();
                // Not mapped: only NotifyEviction "requires the corresponding allocation to be mapped to the paging
                // process GPU VA space".
                self.ready.push_back(Operation::NotifyAlloc {
                    allocation: *allocation,
                    notification: AllocationNotification::IoMmuUnmap,
                    offset: self.done,
                    length: chunk,
                    gpu_va: 0,
                    pages,
                });
                if self.did(chunk, *length) && chunk > 0 {
                    return true;
                }
                // "Dxgkrnl waits for all paging operations to finish."
                self.ready.push_back(Operation::Wait);
                false
            }
        }
    }

    fn chunk(&self, length: u64, most: u64) -> u64 {
        (length - self.done).min(most)
    }

    fn did(&mut self, chunk: u64, length: u64) -> bool {
        self.done += chunk;
        self.done < length
    }

    fn map_window(&mut self, memory: &Memory, offset: u64, length: u64) -> u64 {
        let gpu_va = self.window.take(length, &mut self.ready);
        let mapping = self.window.mapping(gpu_va, offset, length);
        write(&mut self.ready, memory, &mapping, true);
        gpu_va
    }

    fn unmap_window(&mut self, memory: &Memory, gpu_va: u64, length: u64) {
        let mapping = self.window.mapping(gpu_va, self.done, length);
        write(&mut self.ready, memory, &mapping, false);
    }

    /// Writes the entries of the next mapping. After the last, flushes if they became invalid.
    fn each_mapping(&mut self, memory: &Memory, mappings: &[Mapping], valid: bool) -> bool {
        if let Some(mapping) = mappings.get(self.mappings) {
            let length = self.chunk(mapping.length, MAX_CHUNK);
            let part = Mapping {
                gpu_va: mapping.gpu_va + self.done,
                offset: mapping.offset + self.done,
                length,
                ..*mapping
            };
            write(&mut self.ready, memory, &part, valid);
            if !self.did(length, mapping.length) {
                (self.mappings, self.done) = (self.mappings + 1, 0);
            }
            return true;
        }
        if !valid {
            let spaces: BTreeSet<u64> = mappings.iter().map(|mapping| mapping.space.0).collect();
            let flushes =
                spaces.into_iter().map(|space| Operation::FlushTlb(AddressSpaceId(space)));
            self.ready.extend(flushes);
        }
        false
    }
}

/// Writes the entries of a mapping: large ones where address and GPU virtual address allow it. Invalidating uses the
/// parts that validating used.
fn write(ready: &mut VecDeque<Operation>, memory: &Memory, mapping: &Mapping, valid: bool) {
    let large = PageSize::Large.bytes();
    let mut gpu_va = mapping.gpu_va;
    for run in memory.runs(mapping.offset, mapping.length) {
        let (mut address, mut left) = (run.address, run.length);
        while left > 0 {
            let may_be_large = gpu_va % large == address % large;
            let (page_size, length) =
                if may_be_large && gpu_va.is_multiple_of(large) && left >= large {
                    (PageSize::Large, left - left % large)
                } else if may_be_large && left > large - gpu_va % large {
                    (PageSize::Small, large - gpu_va % large)
                } else {
                    (PageSize::Small, left)
                };
            let length = length.min(MAX_ENTRIES * page_size.bytes());
            let page = |at| PhysicalPage { segment: memory.segment, address: at };
            let pages = (address..address + length).step_by(page_size.bytes() as usize);
            let entry = |at| {
                if valid {
                    Pte::new(page(at), mapping.writable).protected(mapping.driver)
                } else {
                    Pte::INVALID
                }
            };
            let entries = pages.map(entry).collect();
            let Mapping { gpus, space, .. } = *mapping;
            ready.push_back(Operation::UpdatePageTable { gpus, space, gpu_va, page_size, entries });
            (address, gpu_va, left) = (address + length, gpu_va + length, left - length);
        }
    }
}
