// SPDX-License-Identifier: MIT OR Apache-2.0

//! Kernels: programs in SPIR-V that the device compiles, and their arguments.

pub(crate) mod arguments;
pub(crate) mod builder;
pub(crate) mod caps;
pub(crate) mod error;
pub(crate) mod object;
pub(crate) mod spirv;
#[cfg(feature = "wgsl")]
pub(crate) mod wgsl;
