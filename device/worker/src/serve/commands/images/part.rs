// SPDX-License-Identifier: MIT OR Apache-2.0

//! Parts of images that a command reaches.

use super::description::{check_aspects, extent_of};
use bellhop_protocol::vulkan::{Image, ImageKind, Layers, Texel};

/// Texels of an image: of some layers of a level.
pub struct Part<'c> {
    /// The image, whose description has been checked.
    pub image: &'c Image,
    /// The layers.
    pub layers: &'c Layers,
    /// The first texel.
    pub offset: [u32; 3],
}

impl Part<'_> {
    /// Checks the part that has so many texels in each dimension, and returns its number of blocks in each: of texels,
    /// where the format is not compressed.
    ///
    /// # Errors
    /// The first rule of Vulkan that it breaks.
    pub fn of_texels(&self, extent: [u32; 3]) -> Result<[u32; 3], &'static str> {
        let (block, level) = (self.block(), extent_of(self.image, self.layers.level));
        let mut blocks = [0; 3];
        for (at, blocks) in blocks.iter_mut().enumerate() {
            let [offset, extent, level, block] =
                [self.offset[at], extent[at], level[at], block[at]];
            if !extent.is_multiple_of(block) && offset.checked_add(extent) != Some(level) {
                return Err("part of a block of texels");
            }
            *blocks = extent.div_ceil(block);
        }
        self.of_blocks(blocks)
    }

    /// As [`Self::of_texels`], of the part that has so many blocks.
    ///
    /// # Errors
    /// The first rule of Vulkan that it breaks.
    pub fn of_blocks(&self, blocks: [u32; 3]) -> Result<[u32; 3], &'static str> {
        let Layers { aspect, level, first, count } = *self.layers;
        check_aspects(self.image, aspect)?;
        let end = first.checked_add(count).filter(|_| count > 0);
        if level >= self.image.levels || end.is_none_or(|end| end > self.image.layers) {
            return Err("a level or layer that the image does not have");
        }
        let (block, level) = (self.block(), extent_of(self.image, level));
        for at in 0..3 {
            if !self.offset[at].is_multiple_of(block[at]) {
                return Err("part of a block of texels");
            }
            let end = (self.offset[at] / block[at]).checked_add(blocks[at]);
            let is_inside = end.is_some_and(|end| end <= level[at].div_ceil(block[at]));
            if blocks[at] == 0 || !is_inside {
                return Err("texels that the image does not have");
            }
        }
        Ok(blocks)
    }

    /// Whether this part of an image, with so many blocks, has texels in common with another of the same image.
    pub fn overlaps(&self, other: &Self, blocks: [u32; 3]) -> bool {
        let block = self.block();
        let is_near =
            |at: usize| self.offset[at].abs_diff(other.offset[at]) / block[at] < blocks[at];
        let (one, two) = (self.layers, other.layers);
        let in_layers = one.first.abs_diff(two.first) < one.count;
        one.level == two.level && in_layers && (0..3).all(is_near)
    }

    /// Planes that a copy counts: planes of texels, or layers.
    pub fn planes(&self, depth: u32) -> u32 {
        if self.image.kind == ImageKind::THREE { depth } else { self.layers.count }
    }

    /// Texels of a block in each dimension.
    fn block(&self) -> [u32; 3] {
        Texel::of(self.image.format).map_or([1; 3], |texel| [texel.width, texel.height, 1])
    }
}
