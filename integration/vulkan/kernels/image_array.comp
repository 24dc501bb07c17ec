// SPDX-License-Identifier: MIT OR Apache-2.0
// Adds numbers to texels of images of an array, which push constants choose.
#version 460

layout(local_size_x = 4, local_size_y = 4) in;
layout(set = 0, binding = 0, r32ui) uniform uimage2D images[4];
layout(push_constant) uniform Arguments {
    uint from;
    uint to;
    uint by;
};

void main() {
    ivec2 at = ivec2(gl_GlobalInvocationID.xy);
    uvec4 texel = imageLoad(images[from], at);
    imageStore(images[to], at, texel + by);
}
