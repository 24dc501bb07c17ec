// SPDX-License-Identifier: MIT OR Apache-2.0

//! Kernels that guests bring.

use super::Gpu;
use crate::gpu::shared::partition::Partition;
use crate::gpu::workers::kernels::source::Source;
use bellhop_host_kmd::hardware::{
    AddressSpaceId, KernelNumber, KernelRefusal, KernelSource, Kernels, UnknownId,
};
use bellhop_protocol::control::kernel::KernelCaps;
use std::sync::Arc;

impl Kernels for Gpu {
    fn kernel_caps(&self) -> KernelCaps {
        self.kernel_caps
    }

    fn create_kernel(
        &self,
        space: AddressSpaceId,
        source: KernelSource,
        number: Option<KernelNumber>,
    ) -> Result<KernelNumber, KernelRefusal> {
        let unknown = UnknownId::AddressSpace(space);
        let (guest, space) = self.registry().spaces.get(&space).cloned().ok_or(unknown)?;
        let partition = self.guest(guest)?;
        let Some(kernels) = &self.kernels else { return Err(KernelRefusal::NoKernels) };
        let (start, id) = (source.spirv, space.id());
        let read =
            move |partition: &Arc<Partition>| Source::read(source, &space, &partition.memory());
        let source = self.hand.touch(&partition, read).unwrap_or(Err(start));
        let source = source.map_err(KernelRefusal::Unreadable)?;
        kernels.create(guest, id, source, number)
    }

    fn destroy_kernel(&self, space: AddressSpaceId, kernel: KernelNumber) -> Result<(), UnknownId> {
        self.space(space)?;
        let destroyed = self.kernels.as_ref().is_some_and(|kernels| kernels.destroy(space, kernel));
        destroyed.then_some(()).ok_or(UnknownId::Kernel { space, kernel })
    }
}
