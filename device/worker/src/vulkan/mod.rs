// SPDX-License-Identifier: MIT OR Apache-2.0

//! As much of Vulkan as kernels need, with owners that end what they began.

mod device;
mod instance;
mod kernel;
mod pages;

pub use device::Device;
pub use instance::{Instance, PhysicalDevice};
pub use kernel::{Binding, Kernel, Source};
pub use pages::Pages;

use ash::vk;

/// A Vulkan that cannot be used, or a call that failed.
#[derive(Debug, thiserror::Error)]
pub enum VulkanError {
    /// No loader.
    #[error("this machine has no Vulkan loader ({0})")]
    NoLoader(String),
    /// A loader without a driver.
    #[error("this machine's Vulkan loader finds no driver")]
    NoDriver,
    /// Vulkan said no.
    #[error("{call} failed: {result}")]
    Call {
        /// What was called.
        call: &'static str,
        /// What it returned.
        result: vk::Result,
    },
    /// What a kernel needs is not there.
    #[error("no {0}")]
    Lacks(&'static str),
}

/// Names the call that failed.
trait Called<T> {
    fn called(self, call: &'static str) -> Result<T, VulkanError>;
}

impl<T> Called<T> for Result<T, vk::Result> {
    fn called(self, call: &'static str) -> Result<T, VulkanError> {
        self.map_err(|result| VulkanError::Call { call, result })
    }
}
