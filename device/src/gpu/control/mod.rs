// SPDX-License-Identifier: MIT OR Apache-2.0

//! The control plane's side: the kernel's calls, interrupts and the registry.

pub mod hand;
pub mod isr;
pub mod kernel_calls;
pub mod observe;
pub mod registry;
