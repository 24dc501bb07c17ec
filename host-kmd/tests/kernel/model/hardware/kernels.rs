// SPDX-License-Identifier: MIT OR Apache-2.0

//! The model's kernels. It compiles none by itself: tests say when and how that ends.

use crate::model::{Call, Model};
use bellhop_host_kmd::hardware::{
    AddressSpaceId, Interrupt, KernelNumber, KernelOutcome, KernelRefusal, KernelSource, Kernels,
    UnknownId,
};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::kernel::{KERNELS_SUPPORTED, KernelCaps};

/// A kernel of the model.
#[derive(Debug)]
pub struct ModelKernel {
    /// What it is made from.
    pub source: KernelSource,
    /// Whether it is compiled.
    pub compiled: bool,
}

impl Kernels for Model {
    fn kernel_caps(&self) -> KernelCaps {
        if self.state().has_no_kernels {
            return KernelCaps::none("the model has no kernels");
        }
        KernelCaps {
            flags: KERNELS_SUPPORTED,
            max_push_constants: 128,
            max_descriptors: 4,
            max_spirv: 4096,
            max_kernels: 1000,
            ..KernelCaps::none("")
        }
    }

    fn create_kernel(
        &self,
        space: AddressSpaceId,
        source: KernelSource,
        number: Option<KernelNumber>,
    ) -> Result<KernelNumber, KernelRefusal> {
        self.known(UnknownId::AddressSpace(space))?;
        let mut state = self.state();
        assert!(!state.has_no_kernels, "its caps said so");
        if state.kernel_room == 0 {
            return Err(KernelRefusal::Full);
        }
        let (first, end) = (source.spirv, source.spirv + u64::from(source.length));
        for page in (first / PAGE_SIZE..end.div_ceil(PAGE_SIZE)).map(|page| page * PAGE_SIZE) {
            if state.mapped(space, page).is_none() {
                return Err(KernelRefusal::Unreadable(page.max(first)));
            }
        }
        let number = number.unwrap_or_else(|| KernelNumber(state.id() as u32));
        state.kernel_room -= 1;
        state.kernels.insert((space, number), ModelKernel { source, compiled: false });
        Ok(number)
    }

    fn destroy_kernel(&self, space: AddressSpaceId, kernel: KernelNumber) -> Result<(), UnknownId> {
        let mut state = self.state();
        if state.kernels.remove(&(space, kernel)).is_some() {
            state.kernel_room += 1;
            state.log.push(Call::DestroyKernel(kernel));
            return Ok(());
        }
        let is_it = |interrupt: &Interrupt| {
            matches!(interrupt, Interrupt::KernelCompiled { space: of, kernel: number, .. }
                if (*of, *number) == (space, kernel))
        };
        // The kernel cannot know yet that this one failed.
        assert!(state.interrupts.iter().any(is_it), "a kernel that exists, or has just failed");
        Err(UnknownId::Kernel { space, kernel })
    }
}

impl Model {
    /// The kernels that are being compiled.
    pub fn compiling(&self) -> Vec<(AddressSpaceId, KernelNumber)> {
        let state = self.state();
        let compiling = state.kernels.iter().filter(|(_, kernel)| !kernel.compiled);
        compiling.map(|(kernel, _)| *kernel).collect()
    }

    /// The hardware is done with a kernel.
    pub fn end_compiling(
        &self,
        (space, kernel): (AddressSpaceId, KernelNumber),
        outcome: KernelOutcome,
    ) {
        let mut state = self.state();
        if outcome == KernelOutcome::Compiled {
            state.kernels.get_mut(&(space, kernel)).expect("a kernel that exists").compiled = true;
        } else {
            state.kernels.remove(&(space, kernel)).expect("a kernel that exists");
            state.kernel_room += 1;
        }
        state.interrupts.push(Interrupt::KernelCompiled { space, kernel, outcome });
    }
}
