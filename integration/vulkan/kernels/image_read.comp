// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads each texel of an image of any format with whole numbers.
#version 460
#extension GL_EXT_shader_image_load_formatted : require

layout(local_size_x = 4, local_size_y = 4) in;
layout(set = 0, binding = 0) readonly uniform uimage2D image;
layout(set = 0, binding = 1, std430) writeonly buffer Result {
    uvec4 texels[];
};

void main() {
    ivec2 at = ivec2(gl_GlobalInvocationID.xy);
    texels[at.x + 4 * at.y] = imageLoad(image, at);
}
