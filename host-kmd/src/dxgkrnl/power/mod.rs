// SPDX-License-Identifier: MIT OR Apache-2.0

//! Power of the device, of the GPUs of a chain, and of engines.

pub(crate) mod gpus;
pub(crate) mod state;
