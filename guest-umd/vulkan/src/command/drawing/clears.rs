// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! The command that clears parts of attachments.

use super::super::buffer::CommandBuffer;
use super::super::stream::HEADER;
use crate::raw;
use ash::vk;
use bellhop_protocol::vulkan::ClearAttachment;

/// A clear of a part of an attachment.
fn clear(aspect: vk::ImageAspectFlags, value: [u32; 4], part: &vk::ClearRect) -> ClearAttachment {
    let vk::Rect2D { offset, extent } = part.rect;
    ClearAttachment {
        header: HEADER,
        aspect: aspect.as_raw(),
        value,
        offset: [offset.x as u32, offset.y as u32],
        extent: [extent.width, extent.height],
        layer: part.base_array_layer,
        layers: part.layer_count,
        reserved: 0,
    }
}

unsafe extern "system" fn clear_attachments(
    buffer: vk::CommandBuffer,
    count: u32,
    attachments: *const vk::ClearAttachment,
    part_count: u32,
    parts: *const vk::ClearRect,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it. Whatever numbers a value has are bits.
    unsafe {
        let recording = CommandBuffer::record(buffer);
        for attachment in raw::slice(attachments, count) {
            let vk::ClearAttachment { aspect_mask, color_attachment, clear_value } = *attachment;
            let is_color = aspect_mask.contains(vk::ImageAspectFlags::COLOR);
            let index = if is_color { color_attachment } else { 0 };
            if is_color && index == vk::ATTACHMENT_UNUSED {
                continue;
            }
            for part in raw::slice(parts, part_count) {
                recording.push(index, clear(aspect_mask, clear_value.color.uint32, part), []);
            }
        }
    }
}

crate::entry::entry_points! {
    vkCmdClearAttachments = clear_attachments,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clear_has_vulkan_s_numbers() {
        let part = vk::ClearRect {
            rect: vk::Rect2D {
                offset: vk::Offset2D { x: 1, y: 2 },
                extent: vk::Extent2D { width: 3, height: 4 },
            },
            base_array_layer: 5,
            layer_count: 6,
        };
        let clear = clear(vk::ImageAspectFlags::DEPTH, [7, 8, 0, 0], &part);
        assert_eq!((clear.aspect, clear.value), (2, [7, 8, 0, 0]));
        assert_eq!((clear.offset, clear.extent), ([1, 2], [3, 4]));
        assert_eq!((clear.layer, clear.layers), (5, 6));
    }
}
