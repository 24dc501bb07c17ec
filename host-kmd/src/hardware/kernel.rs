// SPDX-License-Identifier: MIT OR Apache-2.0

//! Kernels: programs that guests bring.

use super::{AddressSpaceId, UnknownId};
use bellhop_protocol::control::kernel::{KernelCaps, KernelResult};

/// A kernel's number: unique in its address space, and never used again there. Packets name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelNumber(pub u32);

/// What a kernel is made from. The caller has checked lengths and numbers against the protocol's limits and
/// [`Kernels::kernel_caps`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelSource {
    /// GPU virtual address of the SPIR-V.
    pub spirv: u64,
    /// Its length in bytes, a multiple of 4.
    pub length: u32,
    /// Name of the entry point, without zero.
    pub entry_point: String,
    /// Bytes of push constants.
    pub push_constants: u32,
    /// Number of descriptors.
    pub descriptors: u32,
    /// Specialisation constants: number and value.
    pub constants: Vec<[u32; 2]>,
}

/// Why the hardware does not begin to compile a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KernelRefusal {
    /// A bug of the caller.
    #[error(transparent)]
    Unknown(#[from] UnknownId),
    /// The hardware has no kernels.
    #[error("the hardware has no kernels")]
    NoKernels,
    /// The address space has no memory to read at this address.
    #[error("no memory can be read at {0:#x}")]
    Unreadable(u64),
    /// Too many kernels exist.
    #[error("the hardware has no room for another kernel")]
    Full,
}

/// What came of compiling a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelOutcome {
    /// It can be dispatched.
    Compiled,
    /// It cannot, and the hardware has forgotten it; with what the compiler said.
    Failed(KernelResult, String),
}

/// Kernels that guests bring. An address space that is destroyed takes its kernels with it.
pub trait Kernels {
    /// What kernels can be. It never changes, and is about no guest: `max_kernels` is the hardware's limit for one.
    fn kernel_caps(&self) -> KernelCaps;

    /// Copies a kernel's SPIR-V, and begins to compile it. [`Interrupt::KernelCompiled`](super::Interrupt) follows, once,
    /// unless the kernel or its address space is destroyed before. Its number is `number`, if one is given, which is
    /// greater than all that the hardware has given or been given for the guest; so the GPUs of a chain agree on it.
    ///
    /// # Errors
    /// If there can be no such kernel; nothing was done.
    fn create_kernel(
        &self,
        space: AddressSpaceId,
        source: KernelSource,
        number: Option<KernelNumber>,
    ) -> Result<KernelNumber, KernelRefusal>;

    /// Destroys a kernel, or stops compiling it. A dispatch that executes finishes; later ones are faults.
    ///
    /// # Errors
    /// Fails for an address space or kernel that does not exist.
    fn destroy_kernel(&self, space: AddressSpaceId, kernel: KernelNumber) -> Result<(), UnknownId>;

    /// Frees what is left of a kernel that has failed, after the interrupt that says so. One GPU has nothing left of it.
    fn forget_failed_kernel(&self, _space: AddressSpaceId, _kernel: KernelNumber) {}
}
