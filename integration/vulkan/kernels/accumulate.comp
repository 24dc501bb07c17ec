// SPDX-License-Identifier: MIT OR Apache-2.0
// Multiplies the one number and adds to it: dispatches in a row depend on each other.
#version 460

layout(local_size_x = 1) in;
layout(set = 0, binding = 0, std430) buffer State {
    uint state;
};
layout(push_constant) uniform Arguments {
    uint factor;
    uint summand;
};

void main() {
    state = state * factor + summand;
}
