// SPDX-License-Identifier: MIT OR Apache-2.0

//! The part of Vulkan that kernels and commands need, in types that destroy their objects on drop.

mod bounds;
mod caps;
mod command_buffer;
mod descriptor_sets;
mod device;
mod dispatches;
mod drawing;
mod formats;
mod image;
mod image_transfers;
mod instance;
mod kernel;
mod pages;
mod pipeline;
mod queries;
mod recorder;
mod runner;
mod sampler;
mod transfers;
mod view;

pub use bounds::{Bounds, OfBuffers, OfSamplers};
pub use descriptor_sets::{DescriptorSet, Needs, Resource};
pub use device::{Binding, Device, Imported};
pub use dispatches::Groups;
pub use drawing::{Attached, Module, OfGraphics, OfTransform, Rendering, Stored, is_state};
pub use formats::{Formats, aspects};
pub use image::Image;
pub use image_transfers::Region;
pub use instance::{Instance, PhysicalDevice, THREADS};
pub use kernel::{Kernel, Source};
pub use pages::Pages;
pub use pipeline::{Pipeline, Point};
pub use queries::{Counter, Counts};
pub use recorder::Recorder;
pub use runner::{Dispatch, Runner};
pub use sampler::Sampler;
pub use view::{Texels, View};

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
