// SPDX-License-Identifier: MIT OR Apache-2.0
// Does atomic operations of each invocation's number on texels of buffers.
#version 460

layout(local_size_x = 16) in;
layout(set = 0, binding = 0, r32ui) uniform uimageBuffer words;
layout(set = 0, binding = 1, r32i) uniform iimageBuffer integers;

void main() {
    uint number = gl_GlobalInvocationID.x + 1;
    imageAtomicAdd(words, 0, number);
    imageAtomicMax(words, 1, number);
    imageAtomicXor(words, 2, number);
    imageAtomicOr(words, 3, 1u << (number & 31));
    imageAtomicAdd(integers, 0, -int(number));
    imageAtomicMin(integers, 1, -int(number));
    imageAtomicMax(integers, 2, -int(number));
}
