// SPDX-License-Identifier: MIT OR Apache-2.0

//! Reads what a stream names, and has it made.

use super::described::Known;
use super::descriptors::Descriptors;
use super::images::Images;
use super::wrong::Why;
use crate::serve::memory::Memory;
use crate::vulkan::{Bounds, Point};
use bellhop_protocol::vulkan::{Binding, Descriptor, Image};
use std::rc::Rc;
use zerocopy::IntoBytes;

/// What makes what a stream names, or has it.
pub trait Maker {
    /// What is made of a pipeline.
    type Pipeline;
    /// What is made of an image.
    type Image;

    /// Returns the pipeline for dispatches or draws whose description is at an address.
    ///
    /// # Errors
    /// What is wrong with it, or why it cannot be made.
    fn pipeline(&mut self, point: Point, address: u64) -> Result<Rc<Known<Self::Pipeline>>, Why>;

    /// Returns the image of a description that Vulkan allows, in the window.
    ///
    /// # Errors
    /// What the device does not take of it, or why it cannot be made.
    fn image(&mut self, of: &Image) -> Result<Rc<Self::Image>, Why>;
}

/// Reads what a plan consists of.
pub struct Reader<'a, M> {
    /// The memory that it reads.
    pub memory: &'a Memory,
    /// What the device takes.
    pub bounds: &'a Bounds,
    /// What makes it.
    pub maker: &'a mut M,
}

impl<M: Maker> Reader<'_, M> {
    /// Has the image of a description made, which has been checked.
    ///
    /// # Errors
    /// When the device makes none, or it cannot be made.
    pub fn image(&mut self, image: &Image, images: &mut Images<M::Image>) -> Result<(), Why> {
        if !self.bounds.formats.are_there() {
            return Err("an image, and the device makes none of a process's memory".into());
        }
        images.add(image, |image| self.maker.image(image))
    }

    /// Reads the descriptors of a set. One without an address has none.
    ///
    /// # Errors
    /// What is wrong with one of them.
    pub fn set(
        &mut self,
        address: u64,
        bindings: &[Binding],
        offsets: &[u32],
        descriptors: &mut Descriptors,
        images: &mut Images<M::Image>,
    ) -> Result<(), Why> {
        let (memory, bounds) = (self.memory, self.bounds);
        let mut offsets = offsets.iter();
        for binding in bindings {
            let count = binding.count as usize;
            if descriptors.are_full(count) {
                return Err("more descriptors than a stream may have".into());
            }
            let mut read = vec![Descriptor::default(); count];
            if address != 0 {
                let first = u64::from(binding.first) * size_of::<Descriptor>() as u64;
                let first = address.checked_add(first).ok_or("a set at an impossible address")?;
                memory.read(first, read.as_mut_bytes())?;
            }
            for descriptor in read {
                let offset = if binding.kind.is_dynamic() { offsets.next() } else { None };
                let offset = offset.copied().unwrap_or_default();
                let image = |image: &Image| self.image(image, images);
                descriptors.add(descriptor, binding.kind, offset, memory, bounds, image)?;
            }
        }
        Ok(())
    }
}
