// SPDX-License-Identifier: MIT OR Apache-2.0

//! What transforms chunks on the GPU: a kernel of the guest's own where the device runs such, and otherwise the built-in
//! one. Both compute [`xor_stream`](bellhop_protocol::packet::dispatch::xor_stream).

use bellhop_guest_umd::{Adapter, Arguments, CommandBuffer, Error, Kernel, KernelError};
use bellhop_protocol::control::kernel::unpadded;
use bellhop_protocol::packet::dispatch;
use serde::Serialize;
use std::fmt;

/// The guest's own kernel, from `xor_stream.comp`.
const SPIRV: &[u8] = include_bytes!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../device/worker/kernels/xor_stream.spv"
));
/// Words that a work group of it transforms.
const WORK_GROUP: u64 = 256;

/// What transforms chunks.
#[derive(Debug, Clone)]
pub enum Transformation {
    /// The built-in kernel.
    BuiltIn,
    /// A kernel of the guest's own.
    Own(Kernel),
}

/// What transformed chunks, for reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum TransformedBy {
    /// A kernel of the guest's own.
    OwnKernel {
        /// The Vulkan device that ran it.
        device: String,
        /// That device's driver.
        driver: String,
    },
    /// The built-in kernel.
    BuiltInKernel {
        /// Why the device ran none of the guest's own, and what to do about it.
        why: String,
    },
}

impl Transformation {
    /// A kernel of the guest's own, if the device compiles it.
    #[must_use]
    pub fn of(adapter: &Adapter) -> (Self, TransformedBy) {
        match Self::own(adapter) {
            Ok(own) => own,
            Err(KernelError::NotOffered { missing: why }) => {
                (Self::BuiltIn, TransformedBy::BuiltInKernel { why })
            }
            Err(error) => (Self::BuiltIn, TransformedBy::BuiltInKernel { why: error.to_string() }),
        }
    }

    fn own(adapter: &Adapter) -> Result<(Self, TransformedBy), KernelError> {
        let caps = adapter.kernel_caps()?;
        if !caps.are_supported() {
            return Err(KernelError::NotOffered { missing: unpadded(&caps.missing).to_owned() });
        }
        let device = adapter.create_device()?;
        let kernel = Kernel::from_spirv(&device, SPIRV, "main").name("xor_stream");
        let kernel = kernel.push_constants(size_of::<u64>() as u32).descriptors(1).create()?;
        let [device, driver] = [&caps.device, &caps.driver].map(|text| unpadded(text).to_owned());
        Ok((Self::Own(kernel), TransformedBy::OwnKernel { device, driver }))
    }

    /// Appends the transformation of `length` bytes, a multiple of 8, in place.
    pub(super) fn append<'a>(
        &self,
        commands: &'a mut CommandBuffer,
        gpu_va: u64,
        length: u64,
        key: u64,
    ) -> Result<&'a mut CommandBuffer, Error> {
        match self {
            Self::BuiltIn => {
                commands.dispatch(dispatch::Kernel::XOR_STREAM, gpu_va, gpu_va, length, key)
            }
            Self::Own(kernel) => {
                let words = length / size_of::<u64>() as u64;
                let groups = u32::try_from(words.div_ceil(WORK_GROUP)).unwrap_or(u32::MAX);
                let mut arguments = Arguments::new();
                arguments.u64(key).descriptor(gpu_va, length);
                commands.dispatch_kernel(kernel, [groups, 1, 1], &arguments)
            }
        }
    }
}

impl fmt::Display for TransformedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OwnKernel { device, driver } => {
                write!(f, "a kernel of the guest's own, on {device}, driver {driver}")
            }
            Self::BuiltInKernel { why } => {
                write!(f, "the built-in kernel; the device runs none of the guest's own: {why}")
            }
        }
    }
}
