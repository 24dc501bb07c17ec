// SPDX-License-Identifier: MIT OR Apache-2.0

//! Address spaces and their page tables.

use super::{AddressSpaceId, GuestId, HardwareError, Pte, UnknownId};
use crate::hardware::addressing::PageSize;

/// Where the entries of consecutive pages are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageTableRange {
    /// Address of the first, in bytes from the start of page-table memory; `None` if there is no table.
    pub address: Option<u64>,
    /// Number of entries, in one table.
    pub entries: u32,
}

/// Address spaces and their page tables.
pub trait PageTables {
    /// Creates an empty address space.
    ///
    /// # Errors
    /// Fails if no page-table memory is left, or for a guest that does not exist.
    fn create_address_space(&self, guest: GuestId) -> Result<AddressSpaceId, HardwareError>;

    /// Frees an address space. No queue may use it, and a ticket taken after the last such queue was destroyed must
    /// have passed. Paging buffers already submitted may still write its page tables; later ones may not.
    ///
    /// # Errors
    /// Fails for an address space that does not exist.
    fn destroy_address_space(&self, space: AddressSpaceId) -> Result<(), UnknownId>;

    /// Where the root of an address space's page tables is, in bytes from the start of page-table
    /// memory.
    ///
    /// # Errors
    /// Fails for an address space that does not exist.
    fn page_table_root(&self, space: AddressSpaceId) -> Result<u64, UnknownId>;

    /// Where the entries of consecutive pages from `gpu_va` are, for packets to write. Creates missing tables if
    /// `create`; tables do not move during the address space's life.
    ///
    /// # Errors
    /// Fails if no page-table memory is left; tables made so far stay. Fails for an address space that does not
    /// exist.
    fn locate_page_table(
        &self,
        space: AddressSpaceId,
        gpu_va: u64,
        page_size: PageSize,
        pages: u64,
        create: bool,
    ) -> Result<Vec<PageTableRange>, HardwareError>;

    /// Writes the entries of consecutive pages from `gpu_va` immediately. Engines may use a previously valid entry
    /// until a later [`Quiescence::quiesce`](super::Quiescence::quiesce) has passed.
    ///
    /// # Errors
    /// Fails if no page-table memory is left; entries written so far stay. Fails for an address space that does not
    /// exist.
    fn update_page_table(
        &self,
        space: AddressSpaceId,
        gpu_va: u64,
        page_size: PageSize,
        entries: &[Pte],
    ) -> Result<(), HardwareError>;
}

/// The accessed bits of page tables.
pub trait AccessedBits {
    /// Whether engines have accessed a page of a range of whole pages since the last call for it. Accesses through
    /// cached translations do not count: see [`Self::forget_translations`].
    ///
    /// # Errors
    /// Fails for an address space that does not exist.
    fn take_accessed(
        &self,
        space: AddressSpaceId,
        gpu_va: u64,
        length: u64,
    ) -> Result<bool, UnknownId>;

    /// Makes awake engines walk page tables anew, and the others when they wake. Nothing waits for it, and only
    /// [`Self::take_accessed`] may depend on it.
    fn forget_translations(&self);
}
