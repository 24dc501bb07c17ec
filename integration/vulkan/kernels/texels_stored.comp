// SPDX-License-Identifier: MIT OR Apache-2.0
// Loads texels of a buffer, and stores them, with a sum in between, in the other one of its kind.
#version 460

layout(local_size_x = 1) in;
layout(set = 0, binding = 0, std430) writeonly buffer Result {
    uint result[];
};
layout(set = 0, binding = 1, r32ui) readonly uniform uimageBuffer from_words;
layout(set = 0, binding = 2, r32ui) writeonly uniform uimageBuffer to_words;
layout(set = 0, binding = 3, rgba8) readonly uniform imageBuffer from_reals;
layout(set = 0, binding = 4, rgba8) writeonly uniform imageBuffer to_reals;

void main() {
    int at = int(gl_GlobalInvocationID.x);
    imageStore(to_words, at, imageLoad(from_words, at) + 1000u);
    imageStore(to_reals, at, imageLoad(from_reals, at).wzyx);
    result[0] = imageSize(from_words);
    result[1] = imageSize(to_words);
    result[2] = imageSize(from_reals);
    result[3] = imageSize(to_reals);
}
