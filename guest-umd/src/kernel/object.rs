// SPDX-License-Identifier: MIT OR Apache-2.0

//! A compiled kernel.

use crate::device::Device;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::kernel::DestroyKernel;
use std::sync::Arc;

/// A kernel that the device has compiled. Clones name one kernel. It is destroyed when the last clone is dropped, and
/// the last [`CommandBuffer`](crate::CommandBuffer) that dispatches it.
#[derive(Clone)]
pub struct Kernel(Arc<Inner>);

pub(super) struct Inner {
    pub(super) device: Device,
    pub(super) handle: Handle,
    pub(super) number: u32,
    pub(super) name: String,
    pub(super) push_constants: u32,
    pub(super) descriptors: u32,
    pub(super) work_group: Option<[u32; 3]>,
}

impl Kernel {
    pub(super) fn new(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }

    /// The kernel's name, for people: that of its builder, or of its entry point.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The kernel's handle.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.0.handle
    }

    /// The number by which packets name the kernel.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.0.number
    }

    /// Bytes of push constants that each dispatch passes.
    #[must_use]
    pub fn push_constants(&self) -> u32 {
        self.0.push_constants
    }

    /// Number of descriptors that each dispatch passes.
    #[must_use]
    pub fn descriptors(&self) -> u32 {
        self.0.descriptors
    }

    /// The size of a work group, if its source gives one.
    #[must_use]
    pub fn work_group(&self) -> Option<[u32; 3]> {
        self.0.work_group
    }

    /// The fewest work groups that have this many invocations in each dimension. `None` if the size of a work group
    /// is not known.
    #[must_use]
    pub fn groups_for(&self, invocations: [u32; 3]) -> Option<[u32; 3]> {
        let [x, y, z] = self.work_group()?;
        let [width, height, depth] = invocations;
        Some([width.div_ceil(x.max(1)), height.div_ceil(y.max(1)), depth.div_ceil(z.max(1))])
    }
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kernel({}, {})", self.name(), self.number())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // An unreachable device has already forgotten it.
        let _ = self.device.session().call(&DestroyKernel { kernel: self.handle });
    }
}
