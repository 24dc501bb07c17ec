// SPDX-License-Identifier: MIT OR Apache-2.0
// Loads texels of a buffer, and stores multiples of them in the other one of its kind.
#version 460

layout(local_size_x = 1) in;
layout(set = 0, binding = 0, rgba32f) readonly uniform imageBuffer from_wide;
layout(set = 0, binding = 1, rgba32f) writeonly uniform imageBuffer to_wide;
layout(set = 0, binding = 2, rgba16f) readonly uniform imageBuffer from_half;
layout(set = 0, binding = 3, rgba16f) writeonly uniform imageBuffer to_half;

void main() {
    int at = int(gl_GlobalInvocationID.x);
    imageStore(to_wide, at, imageLoad(from_wide, at) * 2.0);
    imageStore(to_half, at, imageLoad(from_half, at) * 0.5);
}
