// SPDX-License-Identifier: MIT OR Apache-2.0

//! The part of Vulkan that kernels need, in types that destroy their objects on drop.

mod device;
mod instance;
mod kernel;
mod pages;
mod runner;

pub use device::{Device, Imported};
pub use instance::{Instance, PhysicalDevice, THREADS};
pub use kernel::{Kernel, Source};
pub use pages::Pages;
pub use runner::{Binding, Dispatch, Runner};

use ash::vk;

/// A Vulkan that cannot be used, or a call that failed.
#[derive(Debug, thiserror::Error)]
pub enum VulkanError {
    /// The Vulkan loader cannot be loaded.
    #[error("this machine has no Vulkan loader ({0})")]
    NoLoader(String),
    /// The loader finds no driver.
    #[error("this machine's Vulkan loader finds no driver")]
    NoDriver,
    /// A Vulkan call failed.
    #[error("{call} failed: {result}")]
    Call {
        /// The function.
        call: &'static str,
        /// Its result.
        result: vk::Result,
    },
    /// The device lacks something that kernels need.
    #[error("no {0}")]
    Lacks(&'static str),
}

/// Adds the function's name to a failed call.
trait Called<T> {
    fn called(self, call: &'static str) -> Result<T, VulkanError>;
}

impl<T> Called<T> for Result<T, vk::Result> {
    fn called(self, call: &'static str) -> Result<T, VulkanError> {
        self.map_err(|result| VulkanError::Call { call, result })
    }
}
