// SPDX-License-Identifier: MIT OR Apache-2.0

//! Allocations: memory that a device's queues can use.

use crate::ddi::paging::AllocationId;
use crate::dxgkrnl::object::error::RequestError;
use crate::hardware::{DriverProtection, GuestId, Platform, Reported as _};
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
    /// Number of doorbells with a ring that uses it.
    doorbells: u32,
    /// Number of unfinished submissions that list it and of contexts that use it as command buffer.
    users: u32,
    /// Its place in the aperture, where submissions reach it by physical address.
    aperture: Option<PageRange>,
    /// Whether it is in the aperture while it is resident: it is accessed physically, and its pages in system memory
    /// may be anywhere.
    stays_in_aperture: bool,
    /// Start addresses of the guest's mappings of it.
    mappings: BTreeSet<u64>,
    /// The host's mappings of it, for rings.
    host_mappings: Vec<HostMapping>,
    /// Whether page tables map it, unless it is paged: see `residency`.
    resident: bool,
    /// Its memory.
    content: Content,
    /// What the driver adds to page-table entries that map it.
    driver: DriverProtection,
    /// Number of extents charged to the guest's quota.
    extents: u64,
    /// Whether a display may show it.
    primary: bool,
}

/// The memory of an allocation.
#[derive(Debug)]
pub(crate) enum Content {
    /// Memory that does not move. The range is the part of local memory that it takes.
    Fixed(Memory, Option<PageRange>),
    /// Memory that VidMm manages under this id.
    Paged(AllocationId),
}

/// A mapping of an allocation's start, made by the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostMapping {
    /// The allocation.
    pub(crate) allocation: Handle,
    /// The GPU virtual addresses.
    pub(crate) range: PageRange,
    /// The allowed accesses.
    pub(crate) protection: Protection,
}

impl Allocation {
    /// Creates an unused allocation, open on a device.
    pub(crate) fn new(
        device: Handle,
        size: u64,
        content: Content,
        driver: DriverProtection,
    ) -> Self {
        // What is in local memory and never moves can be shown without more.
        let primary = matches!(content, Content::Fixed(_, Some(_)));
        Self {
            primary,
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

    /// Creates another process's allocation of the same bytes, open on a device of that process.
    pub(crate) fn open_elsewhere(&self, id: AllocationId, device: Handle) -> Self {
        let primary = self.primary;
        Self { primary, ..Self::new(device, self.size, Content::Paged(id), self.driver) }
    }

    /// Lets a display show it.
    pub(crate) fn for_displays(self, primary: bool) -> Self {
        Self { primary: self.primary || primary, ..self }
    }

    /// Whether a display may show it.
    pub(crate) fn is_primary(&self) -> bool {
        self.primary
    }

    /// Its size in bytes, a multiple of the page size and not 0.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Its memory.
    pub(crate) fn content(&self) -> &Content {
        &self.content
    }

    /// What the driver adds to page-table entries that map it.
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

    /// Opens it on a device. Returns false if it was open there.
    pub(crate) fn open_on(&mut self, device: Handle) -> bool {
        self.opened.insert(device)
    }

    /// Closes it on a device. Returns whether that was the last.
    pub(crate) fn close_on(&mut self, device: Handle) -> bool {
        self.opened.remove(&device);
        self.opened.is_empty()
    }

    /// Number of doorbells with a ring that uses it.
    pub(crate) fn doorbells(&self) -> u32 {
        self.doorbells
    }

    /// Counts a doorbell with a ring that uses it.
    pub(crate) fn add_doorbell(&mut self) {
        self.doorbells += 1;
    }

    /// A doorbell's ring no longer uses it.
    pub(crate) fn drop_doorbell(&mut self) {
        self.doorbells = self.doorbells.saturating_sub(1);
    }

    /// Whether an unfinished submission lists it, or a context uses it as command buffer.
    pub(crate) fn has_users(&self) -> bool {
        self.users > 0
    }

    /// Counts a submission that lists it, or a context that uses it as command buffer.
    pub(crate) fn add_user(&mut self) {
        self.users += 1;
    }

    /// A submission that listed it is done.
    pub(crate) fn drop_user(&mut self) {
        self.users = self.users.saturating_sub(1);
    }

    /// Its place in the aperture.
    pub(crate) fn aperture(&self) -> Option<PageRange> {
        self.aperture
    }

    /// Sets its place in the aperture.
    pub(crate) fn put_into_aperture(&mut self, range: PageRange) {
        self.aperture = Some(range);
    }

    /// Takes it out of the aperture. Returns its place there.
    pub(crate) fn take_out_of_aperture(&mut self) -> Option<PageRange> {
        self.aperture.take()
    }

    /// Whether it is in the aperture while it is resident.
    pub(crate) fn stays_in_aperture(&self) -> bool {
        self.stays_in_aperture
    }

    /// Start addresses of the guest's mappings of it.
    pub(crate) fn mappings(&self) -> impl Iterator<Item = u64> {
        self.mappings.iter().copied()
    }

    /// Adds a mapping of the guest.
    pub(crate) fn add_mapping(&mut self, start: u64) {
        self.mappings.insert(start);
    }

    /// Removes a mapping of the guest.
    pub(crate) fn remove_mapping(&mut self, start: u64) {
        self.mappings.remove(&start);
    }

    /// The host's mappings of it.
    pub(crate) fn host_mappings(&self) -> &[HostMapping] {
        &self.host_mappings
    }

    /// Adds a mapping of the host.
    pub(crate) fn add_host_mapping(&mut self, mapping: HostMapping) {
        self.host_mappings.push(mapping);
    }

    /// Removes the host's mappings that `is_gone` selects.
    pub(crate) fn remove_host_mappings(&mut self, is_gone: impl Fn(&HostMapping) -> bool) {
        self.host_mappings.retain(|mapping| !is_gone(mapping));
    }

    /// Number of mappings of the guest and the host.
    pub(crate) fn mapping_count(&self) -> u64 {
        (self.mappings.len() + self.host_mappings.len()) as u64
    }

    /// Whether page tables map it, unless it is paged.
    pub(crate) fn is_resident(&self) -> bool {
        self.resident
    }

    /// Sets whether page tables map it. Returns whether they did.
    pub(crate) fn set_resident(&mut self, resident: bool) -> bool {
        std::mem::replace(&mut self.resident, resident)
    }

    /// Its id in VidMm, if it is paged.
    pub(crate) fn paged(&self) -> Option<AllocationId> {
        match self.content {
            Content::Fixed(..) => None,
            Content::Paged(id) => Some(id),
        }
    }

    /// Number of extents of its own pages.
    pub(crate) fn extent_count(&self) -> u64 {
        self.extents
    }

    /// Its id in VidMm. Fails if it is not paged.
    pub(crate) fn must_be_paged(&self) -> Result<AllocationId, RequestError> {
        self.paged().ok_or(RequestError::NotSupported("the allocation is not paged"))
    }

    /// Whether its owner may neither evict nor destroy it.
    pub(crate) fn is_in_use(&self) -> bool {
        self.doorbells > 0 || self.users > 0
    }
}

/// Total bytes of extents. Fails unless each is whole pages of the guest's own memory.
pub(crate) fn total_length(
    platform: &dyn Platform,
    guest: GuestId,
    extents: &[Extent],
) -> Result<u64, RequestError> {
    let mut total = 0u64;
    for extent in extents {
        let Extent { address, length } = *extent;
        let is_guests = |length| {
            address.checked_add(length).is_some()
                && platform.is_guest_memory(guest, address, length).reported()
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
