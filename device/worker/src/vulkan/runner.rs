// SPDX-License-Identifier: MIT OR Apache-2.0

//! Dispatches of kernels: one command buffer, which may be run again as it was recorded.

use super::{
    Binding, Counts, Device, Groups, Kernel, Needs, Point, Recorder, Resource, VulkanError,
};
use crate::messages::MAX_DESCRIPTORS;

/// A dispatch of a kernel.
pub struct Dispatch<'a, 'd> {
    /// The kernel.
    pub kernel: &'a Kernel<'d>,
    /// Its storage buffers, as many as it has.
    pub bindings: &'a [Binding<'d>],
    /// Its push constants, as many bytes as it has.
    pub push_constants: &'a [u8],
    /// Number of work groups, by dimension.
    pub groups: [u32; 3],
    /// Whether it waits for the dispatches before it, and sees their stores.
    pub barrier: bool,
}

/// A command buffer with dispatches, and what they use.
pub struct Runner<'d> {
    recorder: Recorder<'d>,
    needs: Needs,
}

impl<'d> Runner<'d> {
    /// Makes a command buffer for so many dispatches at most.
    ///
    /// # Errors
    /// When a Vulkan call fails.
    pub fn new(device: &'d Device<'d>, most: u32) -> Result<Self, VulkanError> {
        let needs = Needs::storage_buffers(most, most * MAX_DESCRIPTORS as u32);
        Ok(Self { recorder: Recorder::new(device)?, needs })
    }

    /// Runs a dispatch, and waits until it is done.
    ///
    /// # Errors
    /// When a Vulkan call fails, or the device is lost.
    pub fn run(&mut self, dispatch: &Dispatch<'_, 'd>) -> Result<(), VulkanError> {
        self.begin()?;
        self.add(dispatch)?;
        self.end()?;
        self.again()
    }

    /// Forgets what was recorded, and begins anew.
    ///
    /// # Errors
    /// When a Vulkan call fails.
    pub fn begin(&mut self) -> Result<(), VulkanError> {
        self.recorder.begin(self.needs, &Counts::new(), &[])
    }

    /// Records a dispatch.
    ///
    /// # Errors
    /// When a Vulkan call fails.
    pub fn add(&mut self, dispatch: &Dispatch<'_, 'd>) -> Result<(), VulkanError> {
        let Dispatch { kernel, bindings, push_constants, groups, barrier } = *dispatch;
        assert_eq!(bindings.len(), kernel.bindings());
        assert_eq!(push_constants.len(), kernel.push_constants());
        if barrier {
            self.recorder.barrier();
        }
        self.recorder.bind(&kernel.pipeline);
        if !bindings.is_empty() {
            let resources: Vec<_> = bindings.iter().cloned().map(Resource::Buffer).collect();
            let set = self.recorder.set(&kernel.pipeline, 0, &kernel.bindings, &resources)?;
            self.recorder.bind_set(Point::Compute, 0, set);
        }
        self.recorder.push_constants(Point::Compute, push_constants);
        self.recorder.dispatch(&Groups::Are { base: [0; 3], groups })
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// When a Vulkan call fails.
    pub fn end(&mut self) -> Result<(), VulkanError> {
        self.recorder.end()
    }

    /// Runs what was recorded, and waits until it is done.
    ///
    /// # Errors
    /// When a Vulkan call fails, or the device is lost.
    pub fn again(&mut self) -> Result<(), VulkanError> {
        self.recorder.run()
    }
}
