// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the kernel does to fences.

mod cross;
mod lifetime;
mod logs;
mod slots;
pub(crate) mod values;
mod waits;
