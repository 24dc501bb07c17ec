// SPDX-License-Identifier: MIT OR Apache-2.0
// A loop whose result tells that every iteration took place, and that no more did.
#version 460

layout(local_size_x = 1) in;
layout(set = 0, binding = 0, std430) buffer Result {
    uint iterations;
    uint state;
};
layout(push_constant) uniform Arguments {
    uint limit;
};

void main() {
    uint x = state;
    uint i = 0;
    for (; i < limit; i++) {
        x = x * 1664525u + 1013904223u;
        x ^= x >> 15;
    }
    iterations = i;
    state = x;
}
