// SPDX-License-Identifier: MIT OR Apache-2.0

//! Page tables: "OS manages page tables", and each GPU of the chain has its own, with the same entries.

use super::LinkedHardware;
use crate::hardware::{
    AddressSpaceId, GuestId, HardwareError, PageSize, PageTableRange, PageTables, Pte, UnknownId,
};

impl PageTables for LinkedHardware {
    fn create_address_space(&self, guest: GuestId) -> Result<AddressSpaceId, HardwareError> {
        let mut spaces: Vec<AddressSpaceId> = Vec::with_capacity(self.gpus.len());
        for gpu in &self.gpus {
            match gpu.create_address_space(guest) {
                Ok(space) => spaces.push(space),
                Err(error) => {
                    for (gpu, space) in self.gpus.iter().zip(spaces) {
                        gpu.destroy_address_space(space)?;
                    }
                    return Err(error);
                }
            }
        }
        let master = spaces.remove(0);
        self.shared.insert_space(master, spaces);
        Ok(master)
    }

    fn destroy_address_space(&self, space: AddressSpaceId) -> Result<(), UnknownId> {
        let slaves = self.shared.remove_space(space);
        let mut outcome = self.master().destroy_address_space(space);
        for ((_, _, gpu), space) in self.each().skip(1).zip(slaves) {
            outcome = outcome.and(gpu.destroy_address_space(space));
        }
        outcome
    }

    fn page_table_root(&self, space: AddressSpaceId) -> Result<u64, UnknownId> {
        self.master().page_table_root(space)
    }

    fn locate_page_table(
        &self,
        space: AddressSpaceId,
        gpu_va: u64,
        page_size: PageSize,
        pages: u64,
        create: bool,
    ) -> Result<Vec<PageTableRange>, HardwareError> {
        self.master().locate_page_table(space, gpu_va, page_size, pages, create)
    }

    fn update_page_table(
        &self,
        space: AddressSpaceId,
        gpu_va: u64,
        page_size: PageSize,
        entries: &[Pte],
    ) -> Result<(), HardwareError> {
        for (ordinal, _, gpu) in self.each() {
            let own = self.shared.space(space, ordinal);
            gpu.update_page_table(own, gpu_va, page_size, entries)?;
        }
        Ok(())
    }

    fn take_accessed(
        &self,
        space: AddressSpaceId,
        gpu_va: u64,
        length: u64,
    ) -> Result<bool, UnknownId> {
        let mut was_used = false;
        for (ordinal, _, gpu) in self.each() {
            // Every GPU's bits are cleared, whichever used the pages.
            was_used |= gpu.take_accessed(self.shared.space(space, ordinal), gpu_va, length)?;
        }
        Ok(was_used)
    }

    fn forget_translations(&self) {
        self.gpus.iter().for_each(|gpu| gpu.forget_translations());
    }
}
