// SPDX-License-Identifier: MIT OR Apache-2.0
// Computes for as many steps as a push constant says.
#version 460

layout(local_size_x = 1) in;
layout(set = 0, binding = 0, std430) buffer State {
    uint state;
};
layout(push_constant) uniform Arguments {
    uint steps;
};

void main() {
    uint value = state;
    for (uint step = 0; step < steps; step++) {
        value = value * 1664525u + 1013904223u;
    }
    state = value;
}
