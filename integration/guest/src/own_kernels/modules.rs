// SPDX-License-Identifier: MIT OR Apache-2.0

//! The repository's own kernels, in SPIR-V.

use bellhop_guest_umd::{Device, Kernel, KernelError};

/// A module of the repository's, and what it takes.
pub(crate) struct Module {
    pub(crate) name: &'static str,
    pub(crate) spirv: &'static [u8],
    pub(crate) push_constants: u32,
    pub(crate) descriptors: u32,
}

macro_rules! module {
    ($name:literal, push constants $push_constants:literal, descriptors $descriptors:literal) => {
        $crate::own_kernels::modules::Module {
            name: $name,
            spirv: include_bytes!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../device/worker/kernels/",
                $name,
                ".spv"
            )),
            push_constants: $push_constants,
            descriptors: $descriptors,
        }
    };
}
pub(crate) use module;

impl Module {
    /// Compiles it.
    pub(crate) fn create(&self, device: &Device) -> Result<Kernel, KernelError> {
        let kernel = Kernel::from_spirv(device, self.spirv, "main").name(self.name);
        kernel.push_constants(self.push_constants).descriptors(self.descriptors).create()
    }
}
