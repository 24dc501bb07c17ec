// SPDX-License-Identifier: MIT OR Apache-2.0

//! Programs that use a guest's GPU through Vulkan.

pub mod driver;
pub mod figures;
pub mod peers;
pub mod program;
pub mod validation;
