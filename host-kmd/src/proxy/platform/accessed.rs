// SPDX-License-Identifier: MIT OR Apache-2.0

//! Accessed bits: the proxy mirrors page tables, and any GPU of the chain may have used a page.

use super::LinkedPlatform;
use crate::hardware::{AccessedBits, AddressSpaceId, UnknownId};

impl AccessedBits for LinkedPlatform {
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
