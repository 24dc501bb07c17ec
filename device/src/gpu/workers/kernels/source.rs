// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a process wants compiled, copied from its memory.

use crate::gpu::memory::address_map::AddressMap;
use crate::gpu::memory::page_table::AddressSpace;
use bellhop_host_kmd::hardware::KernelSource;
use bellhop_protocol::control::kernel::MAX_SPIRV;

/// What a process wants compiled. It cannot be compared: that takes long, and is [`Remembered`]'s alone.
///
/// [`Remembered`]: super::remembered::Remembered
#[derive(Debug)]
pub struct Source {
    /// The SPIR-V.
    pub spirv: Vec<u8>,
    /// Name of the entry point.
    pub entry_point: String,
    /// Bytes of push constants.
    pub push_constants: u32,
    /// Number of descriptors.
    pub descriptors: u32,
    /// Specialisation constants: number and value.
    pub constants: Vec<[u32; 2]>,
}

impl Source {
    /// Control plane's hand: copies a kernel's source from a process's memory, once. What the process stores there meanwhile
    /// may be copied or not.
    ///
    /// # Errors
    /// The first address that kernels of the process cannot read.
    pub fn read(
        source: KernelSource,
        space: &AddressSpace,
        memory: &AddressMap,
    ) -> Result<Self, u64> {
        let KernelSource { spirv, length, entry_point, push_constants, descriptors, constants } =
            source;
        let mut bytes = vec![0; length.min(MAX_SPIRV) as usize];
        let mut done = 0;
        while let Some(rest) = bytes.get_mut(done..)
            && !rest.is_empty()
        {
            let address = spirv.checked_add(done as u64).ok_or(spirv)?;
            let page = space.shareable(address).ok_or(address)?;
            let place = memory.locate_shareable(page.page, page.size).ok_or(address)?;
            let into = address % page.size.bytes();
            let length = rest.len().min((page.size.bytes() - into) as usize);
            let slice = memory.slice(place.plus(into), length).ok_or(address)?;
            slice.copy_to(rest);
            done += length;
        }
        Ok(Self { spirv: bytes, entry_point, push_constants, descriptors, constants })
    }
}
