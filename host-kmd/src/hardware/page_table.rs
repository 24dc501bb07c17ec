// SPDX-License-Identifier: MIT OR Apache-2.0

//! Address spaces and their page tables.

use super::{AddressSpaceId, GuestId, HardwareError, Pte, UnknownId};
use crate::hardware::addressing::PageSize;

/// Where entries of consecutive pages are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageTableRange {
    /// Of the first, in bytes from the start of page-table memory; `None` where there is no table.
    pub address: Option<u64>,
    /// How many there are, in one table.
    pub entries: u32,
}

/// Address spaces and their page tables.
pub trait PageTables {
    /// Makes an empty address space.
    ///
    /// # Errors
    /// When there is no page-table memory left.
    /// For a guest that does not exist.
    fn create_address_space(&self, guest: GuestId) -> Result<AddressSpaceId, HardwareError>;

    /// Frees an address space. No queue may use it, and a ticket taken after the last of them
    /// went must have passed. Paging buffers that are submitted may still write its page tables;
    /// none that is submitted from now on may.
    ///
    /// # Errors
    /// For an address space that does not exist.
    fn destroy_address_space(&self, space: AddressSpaceId) -> Result<(), UnknownId>;

    /// Where the root of an address space's page tables is, in bytes from the start of page-table
    /// memory.
    ///
    /// # Errors
    /// For an address space that does not exist.
    fn page_table_root(&self, space: AddressSpaceId) -> Result<u64, UnknownId>;

    /// Where the entries of consecutive pages from `gpu_va` are, for packets to write. The tables are
    /// made if `create`; they stay where they are for the address space's life.
    ///
    /// # Errors
    /// When there is no page-table memory left; tables made so far stay.
    /// For an address space that does not exist.
    fn locate_page_table(
        &self,
        space: AddressSpaceId,
        gpu_va: u64,
        page_size: PageSize,
        pages: u64,
        create: bool,
    ) -> Result<Vec<PageTableRange>, HardwareError>;

    /// Writes the entries of consecutive pages from `gpu_va`, now. An entry that was valid before
    /// counts as changed for an engine only when a later [`Engines::quiesce`](super::Engines::quiesce) has passed.
    ///
    /// # Errors
    /// When there is no page-table memory left; entries written so far stay.
    /// For an address space that does not exist.
    fn update_page_table(
        &self,
        space: AddressSpaceId,
        gpu_va: u64,
        page_size: PageSize,
        entries: &[Pte],
    ) -> Result<(), HardwareError>;

    /// Whether engines have accessed a page of a range, which is whole pages, since this was last asked
    /// of it, as far as they did not remember it from before: see [`Self::forget_translations`].
    ///
    /// # Errors
    /// For an address space that does not exist.
    fn take_accessed(
        &self,
        space: AddressSpaceId,
        gpu_va: u64,
        length: u64,
    ) -> Result<bool, UnknownId>;

    /// Has engines that are awake walk page tables anew, and others when they wake. Nothing waits for
    /// it, and nothing may depend on it but what [`Self::take_accessed`] tells.
    fn forget_translations(&self);
}
