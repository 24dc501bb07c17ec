// SPDX-License-Identifier: MIT OR Apache-2.0

//! Kernels that guests bring: what they are made from, which are being compiled, and which exist.

pub(crate) mod compilations;
pub(crate) mod guest_kernel;
pub(crate) mod source;
