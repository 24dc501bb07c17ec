// SPDX-License-Identifier: MIT OR Apache-2.0

//! Allocations: memory that a device's queues can work on.

use crate::ddi::paging::AllocationId;
use crate::dxgkrnl::object::error::RequestError;
use crate::hardware::{DriverProtection, GuestId, Hardware, Reported as _};
use crate::vidmm::pool::{PageRange, is_whole_pages};
use crate::vidmm::segment::Memory;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::Extent;
use bellhop_protocol::control::gpu_va::Protection;
use std::collections::BTreeSet;

/// An allocation.
#[derive(Debug)]
pub(crate) struct Allocation {
    /// The devices that it is open on.
    opened: BTreeSet<Handle>,
    /// Its size in bytes, a multiple of the page size and not 0.
    size: u64,
    /// How many doorbells' rings use it.
    doorbells: u32,
    /// How many submissions that are not done list it, and contexts have it as command buffer.
    users: u32,
    /// Where it is in the aperture, which submissions with physical addresses reach it through.
    aperture: Option<PageRange>,
    /// Whether it is in the aperture as long as it is resident: it is accessed physically, and its own
    /// pages or the host's may be anywhere.
    stays_in_aperture: bool,
    /// First bytes of the guest's mappings of it.
    mappings: BTreeSet<u64>,
    /// The host's mappings of it, for rings.
    host_mappings: Vec<HostMapping>,
    /// Whether page tables lead to it as far as it is not paged: see `residency`.
    resident: bool,
    /// What it is made of.
    content: Content,
    /// What the driver adds to page-table entries that lead to it.
    driver: DriverProtection,
    /// How many extents the guest's quota was charged for.
    extents: u64,
}

/// What an allocation is made of.
#[derive(Debug)]
pub(crate) enum Content {
    /// Memory that stays where it is. The range is the part of local memory that it takes.
    Fixed(Memory, Option<PageRange>),
    /// What VidMm knows by this name.
    Paged(AllocationId),
}

/// A mapping of an allocation's start that the host made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostMapping {
    /// The allocation.
    pub(crate) allocation: Handle,
    /// The addresses.
    pub(crate) range: PageRange,
    /// What it allows.
    pub(crate) protection: Protection,
}

impl Allocation {
    /// One that is open on a device, and not used yet.
    pub(crate) fn new(
        device: Handle,
        size: u64,
        content: Content,
        driver: DriverProtection,
    ) -> Self {
        Self {
            opened: BTreeSet::from([device]),
            size,
            doorbells: 0,
            users: 0,
            aperture: None,
            stays_in_aperture: false,
            mappings: BTreeSet::new(),
            host_mappings: Vec::new(),
            resident: true,
            content,
            driver,
            extents: 0,
        }
    }

    /// Sets whether it stays in the aperture while it is resident, and how many extents its own pages have.
    pub(crate) fn with_pages(self, stays_in_aperture: bool, extents: u64) -> Self {
        Self { stays_in_aperture, extents, ..self }
    }

    /// These bytes as another process has them, on a device of that process.
    pub(crate) fn open_elsewhere(&self, id: AllocationId, device: Handle) -> Self {
        Self::new(device, self.size, Content::Paged(id), self.driver)
    }

    /// Its size in bytes, a multiple of the page size and not 0.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// What it is made of.
    pub(crate) fn content(&self) -> &Content {
        &self.content
    }

    /// What the driver adds to page-table entries that lead to it.
    pub(crate) fn driver(&self) -> DriverProtection {
        self.driver
    }

    /// The devices that it is open on.
    pub(crate) fn devices(&self) -> impl Iterator<Item = Handle> {
        self.opened.iter().copied()
    }

    /// Whether it is open on a device.
    pub(crate) fn is_open_on(&self, device: Handle) -> bool {
        self.opened.contains(&device)
    }

    /// It is open on a device from now on. False when it was.
    pub(crate) fn open_on(&mut self, device: Handle) -> bool {
        self.opened.insert(device)
    }

    /// It is open on a device no more. Whether that was the last.
    pub(crate) fn close_on(&mut self, device: Handle) -> bool {
        self.opened.remove(&device);
        self.opened.is_empty()
    }

    /// How many doorbells' rings use it.
    pub(crate) fn doorbells(&self) -> u32 {
        self.doorbells
    }

    /// One more doorbell's ring uses it.
    pub(crate) fn add_doorbell(&mut self) {
        self.doorbells += 1;
    }

    /// One doorbell's ring less uses it.
    pub(crate) fn drop_doorbell(&mut self) {
        self.doorbells = self.doorbells.saturating_sub(1);
    }

    /// Whether submissions that are not done list it, or a context has it as command buffer.
    pub(crate) fn has_users(&self) -> bool {
        self.users > 0
    }

    /// One more submission lists it, or a context has it as command buffer.
    pub(crate) fn add_user(&mut self) {
        self.users += 1;
    }

    /// One submission less lists it.
    pub(crate) fn drop_user(&mut self) {
        self.users = self.users.saturating_sub(1);
    }

    /// Where it is in the aperture.
    pub(crate) fn aperture(&self) -> Option<PageRange> {
        self.aperture
    }

    /// It is in the aperture here from now on.
    pub(crate) fn put_into_aperture(&mut self, range: PageRange) {
        self.aperture = Some(range);
    }

    /// It is in the aperture no more. Returns where it was.
    pub(crate) fn take_out_of_aperture(&mut self) -> Option<PageRange> {
        self.aperture.take()
    }

    /// Whether it is in the aperture as long as it is resident.
    pub(crate) fn stays_in_aperture(&self) -> bool {
        self.stays_in_aperture
    }

    /// First bytes of the guest's mappings of it.
    pub(crate) fn mappings(&self) -> impl Iterator<Item = u64> {
        self.mappings.iter().copied()
    }

    /// The guest has mapped it at an address.
    pub(crate) fn add_mapping(&mut self, start: u64) {
        self.mappings.insert(start);
    }

    /// The guest has it mapped at an address no more.
    pub(crate) fn remove_mapping(&mut self, start: u64) {
        self.mappings.remove(&start);
    }

    /// The host's mappings of it.
    pub(crate) fn host_mappings(&self) -> &[HostMapping] {
        &self.host_mappings
    }

    /// The host has mapped it.
    pub(crate) fn add_host_mapping(&mut self, mapping: HostMapping) {
        self.host_mappings.push(mapping);
    }

    /// The host has unmapped some of what it had mapped.
    pub(crate) fn remove_host_mappings(&mut self, is_gone: impl Fn(&HostMapping) -> bool) {
        self.host_mappings.retain(|mapping| !is_gone(mapping));
    }

    /// How often it is mapped.
    pub(crate) fn mapping_count(&self) -> u64 {
        (self.mappings.len() + self.host_mappings.len()) as u64
    }

    /// Whether page tables lead to it as far as it is not paged.
    pub(crate) fn is_resident(&self) -> bool {
        self.resident
    }

    /// Page tables lead to it from now on, or no more. Returns whether they did.
    pub(crate) fn set_resident(&mut self, resident: bool) -> bool {
        std::mem::replace(&mut self.resident, resident)
    }

    /// What VidMm knows it by, if it is paged.
    pub(crate) fn paged(&self) -> Option<AllocationId> {
        match self.content {
            Content::Fixed(..) => None,
            Content::Paged(id) => Some(id),
        }
    }

    /// In how many pieces its own pages are.
    pub(crate) fn extent_count(&self) -> u64 {
        self.extents
    }

    /// What VidMm knows it by.
    pub(crate) fn must_be_paged(&self) -> Result<AllocationId, RequestError> {
        self.paged().ok_or(RequestError::NotSupported("the allocation is not paged"))
    }

    /// Whether it may neither be evicted by its owner nor go.
    pub(crate) fn is_in_use(&self) -> bool {
        self.doorbells > 0 || self.users > 0
    }
}

/// How many bytes extents name together, once each is whole pages of the guest's own memory.
pub(crate) fn total_length(
    hardware: &dyn Hardware,
    guest: GuestId,
    extents: &[Extent],
) -> Result<u64, RequestError> {
    let mut total = 0u64;
    for extent in extents {
        let Extent { address, length } = *extent;
        let is_guests = |length| {
            address.checked_add(length).is_some()
                && hardware.is_guest_memory(guest, address, length).reported()
        };
        if !address.is_multiple_of(PAGE_SIZE) || !is_guests(PAGE_SIZE) {
            return Err(RequestError::parameter("an extent's address", address));
        }
        let wrong_length = RequestError::parameter("an extent's length", length);
        if !is_whole_pages(length) || !is_guests(length) {
            return Err(wrong_length);
        }
        total = total.checked_add(length).ok_or(wrong_length)?;
    }
    Ok(total)
}
