// SPDX-License-Identifier: MIT OR Apache-2.0

//! Where the fields of commands are.

use super::*;

crate::assert_layout!(Copy, 32, header at 0, source at 8, destination at 16, length at 24);
crate::assert_layout!(Fill, 24, header at 0, destination at 8, length at 16);
crate::assert_layout!(Update, 16, header at 0, destination at 8);
crate::assert_layout!(
    Dispatch, 56,
    header at 0, pipeline at 8, indirect at 16, base at 24, groups at 36, dynamic_offsets at 48, push_constants at 52,
);
crate::assert_layout!(Timestamp, 16, header at 0, destination at 8);
crate::assert_layout!(Wait, 16, header at 0, address at 8);
crate::assert_layout!(QueryCaps, 24, header at 0, destination at 8, length at 16);
crate::assert_layout!(
    CopyImage, 208,
    header at 0, source at 8, destination at 72, from at 136, to at 152, from_offset at 168, to_offset at 180,
    extent at 192, reserved at 204,
);
crate::assert_layout!(
    CopyMemoryToImage, 128,
    header at 0, address at 8, image at 16, layers at 80, offset at 96, extent at 108, row_length at 120, height at 124,
);
crate::assert_layout!(
    CopyImageToMemory, 128,
    header at 0, address at 8, image at 16, layers at 80, offset at 96, extent at 108, row_length at 120, height at 124,
);
crate::assert_layout!(ClearImage, 112, header at 0, image at 8, color at 72, range at 88);
crate::assert_layout!(QueryImage, 96, header at 0, destination at 8, image at 16, layers at 80);
crate::assert_layout!(QueryImageFormat, 80, header at 0, destination at 8, image at 16);
crate::assert_layout!(
    ResolveImage, 208,
    header at 0, source at 8, destination at 72, from at 136, to at 152, from_offset at 168, to_offset at 180,
    extent at 192, reserved at 204,
);
crate::assert_layout!(
    BlitImage, 216,
    header at 0, source at 8, destination at 72, from at 136, to at 152, from_corners at 168, to_corners at 192,
);
crate::assert_layout!(
    ClearDepthStencil, 104, header at 0, image at 8, value at 72, range at 80,
);
crate::assert_layout!(
    BeginRendering, 32, header at 0, offset at 8, extent at 16, layers at 24, view_mask at 28,
);
crate::assert_layout!(
    ClearAttachment, 56,
    header at 0, aspect at 8, value at 12, offset at 28, extent at 36, layer at 44, layers at 48, reserved at 52,
);
crate::assert_layout!(SetState, 16, header at 0, words at 8, reserved at 12);
crate::assert_layout!(SetVertexBuffers, 16, header at 0, count at 8, reserved at 12);
crate::assert_layout!(SetIndexBuffer, 24, header at 0, address at 8, length at 16);
crate::assert_layout!(
    BindGraphics, 24, header at 0, pipeline at 8, dynamic_offsets at 16, push_constants at 20,
);
crate::assert_layout!(
    Draw, 24, header at 0, vertices at 8, instances at 12, first_vertex at 16, first_instance at 20,
);
crate::assert_layout!(
    DrawIndexed, 32,
    header at 0, indices at 8, instances at 12, first_index at 16, vertex_offset at 20, first_instance at 24,
    reserved at 28,
);
crate::assert_layout!(
    DrawIndirect, 32, header at 0, address at 8, count at 16, most at 24, stride at 28,
);
crate::assert_layout!(
    BeginQuery, 24, header at 0, flags at 8, statistics at 12, stream at 16, reserved at 20,
);
crate::assert_layout!(EndQuery, 24, header at 0, destination at 8, stream at 16, reserved at 20);
crate::assert_layout!(
    DrawByteCount, 32,
    header at 0, counter at 8, offset at 16, stride at 20, instances at 24, first_instance at 28,
);
crate::assert_layout!(BeginConditional, 16, header at 0, address at 8);
crate::assert_layout!(Continue, 24, header at 0, address at 8, length at 16);
