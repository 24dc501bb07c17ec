// SPDX-License-Identifier: MIT OR Apache-2.0

//! Images as the processor keeps them, and what copies do to these ("Copying Data Between Buffers and Images", "Copying Data
//! Between Images").

use crate::lab::{Block, Form, block, layers};
use ash::vk;

/// Bytes that differ from place to place, and from seed to seed.
pub(super) fn pattern(seed: u32, length: usize) -> Vec<u8> {
    let mixed = |place: u32| (place ^ seed.wrapping_mul(0x9e37_79b9)).wrapping_mul(0x85eb_ca6b);
    (0..length as u32).map(|place| (mixed(place) >> 24) as u8).collect()
}

/// A part of an image, whose rows follow each other in the buffer.
pub(super) fn part(
    level: u32,
    [first, count]: [u32; 2],
    [x, y, z]: [i32; 3],
    extent: [u32; 3],
) -> vk::BufferImageCopy {
    vk::BufferImageCopy::default()
        .image_subresource(layers(level, first, count))
        .image_offset(vk::Offset3D { x, y, z })
        .image_extent(extent_of(extent))
}

/// An extent, as Vulkan's structure.
pub(super) fn extent_of([width, height, depth]: [u32; 3]) -> vk::Extent3D {
    vk::Extent3D { width, height, depth }
}

/// An image.
#[derive(Clone)]
pub(super) struct Model {
    form: Form,
    block: Block,
    /// The bytes of each level: layers, planes, rows.
    pub(super) levels: Vec<Vec<u8>>,
}

/// A row of blocks: where it is in a buffer, and where in a level, in bytes.
struct Row {
    outside: usize,
    inside: usize,
    length: usize,
}

impl Model {
    /// An image with a pattern.
    pub(super) fn new(form: Form, seed: u32) -> Self {
        let levels = (0..form.levels).map(|level| pattern(seed + level, form.bytes(level)));
        Self { form, block: block(form.format), levels: levels.collect() }
    }

    /// Texels as blocks: whole ones, and what is left at an image's end.
    fn blocks(&self, texels: [u32; 3]) -> [usize; 3] {
        let [x, y, z] = texels;
        let [of_x, of_y, of_z] = self.block.extent;
        [x.div_ceil(of_x), y.div_ceil(of_y), z.div_ceil(of_z)].map(|blocks| blocks as usize)
    }

    /// The first byte of a block in a level. An image has several planes or several layers.
    fn place(&self, level: u32, slice: usize, [x, y]: [usize; 2]) -> usize {
        let [width, height, _] = self.blocks(self.form.extent_of(level));
        ((slice * height + y) * width + x) * self.block.bytes as usize
    }

    fn rows(&self, region: &vk::BufferImageCopy) -> Vec<Row> {
        let vk::BufferImageCopy { image_subresource: which, image_offset: offset, .. } = *region;
        let vk::Extent3D { width, height, depth } = region.image_extent;
        let or = |given: u32, otherwise| if given == 0 { otherwise } else { given };
        let (length, rows) =
            (or(region.buffer_row_length, width), or(region.buffer_image_height, height));
        let [length, rows, _] = self.blocks([length, rows, 1]);
        let [width, height, _] = self.blocks([width, height, 1]);
        let [x, y, z] = self.blocks([offset.x, offset.y, offset.z].map(|it| it as u32));
        let first = which.base_array_layer as usize + z;
        let bytes = self.block.bytes as usize;
        let row = |(slice, row): (usize, usize)| Row {
            outside: region.buffer_offset as usize + (slice * rows + row) * length * bytes,
            inside: self.place(which.mip_level, first + slice, [x, y + row]),
            length: width * bytes,
        };
        let slices = which.layer_count.max(depth) as usize;
        (0..slices).flat_map(|slice| (0..height).map(move |row| (slice, row))).map(row).collect()
    }

    fn level_of(region: &vk::BufferImageCopy) -> usize {
        region.image_subresource.mip_level as usize
    }

    /// Bytes that a buffer has for these regions.
    pub(super) fn outside(&self, regions: &[vk::BufferImageCopy]) -> usize {
        let ends = regions.iter().flat_map(|region| self.rows(region));
        ends.map(|row| row.outside + row.length).max().unwrap_or_default()
    }

    /// Takes a region from a buffer.
    pub(super) fn put(&mut self, region: &vk::BufferImageCopy, from: &[u8]) {
        for Row { outside, inside, length } in self.rows(region) {
            let level = &mut self.levels[Self::level_of(region)];
            level[inside..inside + length].copy_from_slice(&from[outside..outside + length]);
        }
    }

    /// Gives a region to a buffer.
    pub(super) fn take(&self, region: &vk::BufferImageCopy, to: &mut [u8]) {
        for Row { outside, inside, length } in self.rows(region) {
            let level = &self.levels[Self::level_of(region)];
            to[outside..outside + length].copy_from_slice(&level[inside..inside + length]);
        }
    }

    /// Takes a region from another image.
    pub(super) fn copy(&mut self, from: &Self, region: &vk::ImageCopy) {
        let (of, to) = (region.src_subresource, region.dst_subresource);
        let ends = |which: vk::ImageSubresourceLayers, offset: vk::Offset3D| {
            let part = vk::BufferImageCopy::default().image_subresource(which);
            part.image_offset(offset)
        };
        // As if through a buffer, where the texels of a compressed image's blocks are those of the other's texels.
        let read = ends(of, region.src_offset).image_extent(region.extent);
        let [width, height, _] = from.blocks([region.extent.width, region.extent.height, 1]);
        let [of_x, of_y, _] = self.block.extent;
        let slices = of.layer_count.max(region.extent.depth);
        let depth = slices.div_ceil(to.layer_count);
        let extent = extent_of([width as u32 * of_x, height as u32 * of_y, depth]);
        let written = ends(to, region.dst_offset).image_extent(extent);
        let mut between = vec![0; from.outside(&[read])];
        from.take(&read, &mut between);
        self.put(&written, &between);
    }
}
