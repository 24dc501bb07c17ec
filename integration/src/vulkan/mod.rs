// SPDX-License-Identifier: MIT OR Apache-2.0

//! Programs that use a guest's GPU through Vulkan.

pub mod busy;
pub mod driver;
pub mod figures;
mod log;
pub mod named;
pub mod opengl;
pub mod peers;
pub mod program;
pub mod validation;

use anyhow::bail;
use bellhop_vulkan_suite::{Failure, Lab};

/// This process's first Vulkan device.
///
/// # Errors
/// When there is none.
pub fn lab(device: usize) -> anyhow::Result<Lab> {
    match Lab::open(device) {
        Ok(lab) => Ok(lab),
        Err(Failure::NotOffered(why) | Failure::Seen(why)) => {
            bail!("there is no Vulkan device: {why}")
        }
    }
}
