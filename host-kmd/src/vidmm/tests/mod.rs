// SPDX-License-Identifier: MIT OR Apache-2.0

//! VidMm against a simple model: memory as pages with one content each, page tables as maps, engines that cache every
//! translation until they are told to forget it.

mod chain;
mod migration;
mod operations;
mod placement;
mod property;

use super::VidMm;
use super::allocation::Description;
use super::error::VidMmError;
use super::operations::{Operation, Operations, Window};
use super::pool::PageRange;
use super::segment::{EvictionOrder, Group, LocalSegment, Memory, Place};
use super::step::{Mapping, Notice, Plan, Step};
use crate::ddi::paging::{
    APERTURE_START, AllocationId, AllocationNotification, LOCAL_START, PRIVATE_START, PageSize,
};
use crate::hardware::{
    AddressSpaceId, DriverProtection, GpuOrdinal, GpuSet, PhysicalPage, Segment,
};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::{Extent, SegmentSet};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

const SYSTEM: AddressSpaceId = AddressSpaceId(1000);
const LOCAL_ONLY: SegmentSet = SegmentSet::LOCAL;
const ANYWHERE: SegmentSet = SegmentSet::all();

/// The content of a page; 0 is zeroes.
type Content = u64;

#[derive(Default)]
struct Machine {
    pages: HashMap<PhysicalPage, Content>,
    /// Pages that engines have encoded.
    encoded: HashSet<PhysicalPage>,
    tables: HashMap<(AddressSpaceId, u64), (PhysicalPage, bool, PageSize)>,
    tlb: HashMap<(AddressSpaceId, u64), PhysicalPage>,
    steps: VecDeque<Step>,
    freed: Vec<PageRange>,
    /// Physical addresses that the driver was told of physically accessed allocations.
    residency: HashMap<AllocationId, Option<u64>>,
    log: Vec<Operation>,
}

impl Machine {
    /// The page that an engine accesses: by its cached translation, otherwise by the page tables.
    fn translate(&mut self, space: AddressSpaceId, gpu_va: u64) -> Option<PhysicalPage> {
        let walked = self.tables.get(&(space, gpu_va)).map(|(page, ..)| *page);
        match self.tlb.get(&(space, gpu_va)) {
            Some(page) => Some(*page),
            None => {
                self.tlb.insert((space, gpu_va), walked?);
                walked
            }
        }
    }

    /// The page that an engine accesses at a physical address.
    fn physical_page(&mut self, address: u64) -> PhysicalPage {
        match address {
            APERTURE_START.. => self.translate(SYSTEM, address).expect("a page of the aperture"),
            PRIVATE_START.. => {
                PhysicalPage { segment: Segment::Private, address: address - PRIVATE_START }
            }
            _ => PhysicalPage { segment: Segment::Local, address: address - LOCAL_START },
        }
    }

    /// Sets whether a page holds encoded or plain bytes.
    fn set_encoded(&mut self, page: PhysicalPage, encoded: bool) {
        if encoded {
            self.encoded.insert(page);
        } else {
            self.encoded.remove(&page);
        }
    }

    fn perform(&mut self, operation: &Operation) {
        match operation {
            Operation::UpdatePageTable { space, gpu_va, page_size, entries, .. } => {
                assert_eq!(gpu_va % page_size.bytes(), 0);
                for (index, entry) in entries.iter().enumerate() {
                    let at = gpu_va + index as u64 * page_size.bytes();
                    for page in (0..page_size.bytes()).step_by(PAGE_SIZE as usize) {
                        let key = (*space, at + page);
                        let before = self.tables.remove(&key);
                        if let Some(PhysicalPage { segment, address }) = entry.page() {
                            assert_eq!(address % page_size.bytes(), 0);
                            let to = PhysicalPage { segment, address: address + page };
                            let value = (to, entry.is_writable(), *page_size);
                            assert!(before.is_none_or(|before| before == value), "{key:x?}");
                            self.tables.insert(key, value);
                        } else if let Some((.., size)) = before {
                            assert_eq!(size, *page_size, "divided otherwise: {key:x?}");
                        }
                    }
                }
            }
            Operation::FlushTlb(space) => self.tlb.retain(|(of, _), _| of != space),
            Operation::VirtualFill { destination, length } => {
                for at in (0..*length).step_by(PAGE_SIZE as usize) {
                    let page = self.translate(SYSTEM, destination + at).expect("a mapped window");
                    self.pages.remove(&page);
                    self.encoded.remove(&page);
                }
            }
            Operation::VirtualTransfer { source, destination, length } => {
                for at in (0..*length).step_by(PAGE_SIZE as usize) {
                    let from = self.translate(SYSTEM, source + at).expect("a mapped source");
                    let to = self.translate(SYSTEM, destination + at).expect("a mapped target");
                    let content = self.pages.get(&from).copied().unwrap_or(0);
                    self.pages.insert(to, content);
                    self.set_encoded(to, self.encoded.contains(&from));
                }
            }
            Operation::NotifyAlloc { notification, gpu_va, length, pages, .. } => {
                if *notification == AllocationNotification::Eviction {
                    for at in (0..*length).step_by(PAGE_SIZE as usize) {
                        let page = self.translate(SYSTEM, gpu_va + at).expect("a mapped page");
                        self.encoded.remove(&page);
                    }
                }
                let memory = Memory { segment: Segment::System, extents: pages.as_slice().into() };
                for page in memory.pages(0, *length) {
                    self.encoded.remove(&page);
                }
            }
            Operation::Discard { address, length } => {
                // A process that still needed the content would notice.
                for at in (0..*length).step_by(PAGE_SIZE as usize) {
                    let page = self.physical_page(address + at);
                    self.pages.insert(page, Content::MAX);
                }
            }
            Operation::NotifyResidency { allocation, address } => {
                self.residency.insert(*allocation, *address);
            }
            Operation::Wait => {}
        }
        self.log.push(operation.clone());
    }

    /// Performs at most `most` operations.
    fn run(&mut self, operations: &mut Operations, mut most: usize) {
        loop {
            while let Some(operation) = operations.peek().cloned() {
                if most == 0 {
                    return;
                }
                most -= 1;
                operations.pop();
                self.perform(&operation);
            }
            match self.steps.pop_front() {
                Some(step) => operations.begin(step),
                None => return,
            }
        }
    }
}

fn description(process: u32, pages: u64, supported: SegmentSet) -> Description {
    Description {
        gpu: GpuOrdinal::MASTER,
        process,
        size: pages * PAGE_SIZE,
        supported,
        preferred: SegmentSet::LOCAL,
        eviction: SegmentSet::empty(),
        keeps_copy: false,
        cpu_visible: true,
        priority: 100,
        accessed_physically: false,
        notify_eviction: false,
        notify_io_mmu_unmap: false,
        system: None,
    }
}

/// The first `length` bytes of an allocation, mapped writable.
fn mapping(space: AddressSpaceId, gpu_va: u64, length: u64) -> Mapping {
    let driver = DriverProtection::default();
    let gpus = GpuSet::ALL;
    Mapping { gpus, space, gpu_va, length, offset: 0, writable: true, driver }
}

fn own_pages(first: u64, pages: u64) -> Memory {
    // In reverse order, so that no two neighbours are contiguous.
    let extents = (first..first + pages)
        .rev()
        .map(|page| Extent { address: page * PAGE_SIZE, length: PAGE_SIZE })
        .collect();
    Memory { segment: Segment::System, extents }
}

fn vidmm(visible: u64, private: u64, processes: u32) -> VidMm {
    let mut vidmm = VidMm::new(visible * PAGE_SIZE, private * PAGE_SIZE, 1 << 30);
    for process in 1..=processes {
        vidmm.add_process(process);
    }
    vidmm
}

fn device(process: u32) -> Handle {
    Handle(process.into())
}

fn is_local(vidmm: &VidMm, id: AllocationId) -> bool {
    matches!(vidmm.allocations[&id].place, Place::Local(LocalSegment::Visible, _))
}

fn is_private(vidmm: &VidMm, id: AllocationId) -> bool {
    matches!(vidmm.allocations[&id].place, Place::Local(LocalSegment::Private(_), _))
}

fn resident(vidmm: &mut VidMm, description: Description) -> AllocationId {
    let process = description.process;
    let id = vidmm.create(description);
    vidmm.make_resident(process, device(process), &[id]).unwrap();
    id
}

/// The operations of all steps so far.
fn operations(vidmm: &mut VidMm, window: u64) -> Vec<Operation> {
    let mut operations = Operations::new(Window::new(SYSTEM, window));
    let mut machine = Machine::default();
    machine.steps.extend(vidmm.take_plan().steps);
    machine.run(&mut operations, usize::MAX);
    machine.log
}
