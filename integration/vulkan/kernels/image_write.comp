// SPDX-License-Identifier: MIT OR Apache-2.0
// Stores four numbers in each texel of an image of any format with whole numbers.
#version 460

layout(local_size_x = 4, local_size_y = 4) in;
layout(set = 0, binding = 0) writeonly uniform uimage2D image;
layout(push_constant) uniform Arguments {
    uvec4 texel;
};

void main() {
    ivec2 at = ivec2(gl_GlobalInvocationID.xy);
    imageStore(image, at, texel + at.x + 16 * at.y);
}
