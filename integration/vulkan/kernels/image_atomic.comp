// SPDX-License-Identifier: MIT OR Apache-2.0
// Does an atomic operation of each work group's number on one texel, and stores what was there.
#version 460

layout(local_size_x = 16) in;
layout(set = 0, binding = 0, std430) buffer Result {
    uint before[];
};
layout(set = 0, binding = 1, r32ui) uniform uimage2D words;
layout(set = 0, binding = 2, r32i) uniform iimage2D integers;
layout(push_constant) uniform Arguments {
    uint operation;
};

uint whole(ivec2 at, uint by) {
    switch (operation) {
    case 0: return imageAtomicAdd(words, at, by);
    case 1: return imageAtomicMin(words, at, by);
    case 2: return imageAtomicMax(words, at, by);
    case 3: return imageAtomicAnd(words, at, ~by);
    case 4: return imageAtomicOr(words, at, by);
    case 5: return imageAtomicXor(words, at, by);
    case 6: return imageAtomicExchange(words, at, by);
    default: return imageAtomicCompSwap(words, at, by - 1, by);
    }
}

int negative(ivec2 at, int by) {
    switch (operation - 8) {
    case 0: return imageAtomicAdd(integers, at, by);
    case 1: return imageAtomicMin(integers, at, by);
    default: return imageAtomicMax(integers, at, by);
    }
}

void main() {
    uint number = gl_GlobalInvocationID.x;
    ivec2 at = ivec2(1, 2);
    before[number] = operation < 8 ? whole(at, number + 1) : uint(negative(at, -1 - int(number)));
}
