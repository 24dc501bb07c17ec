// SPDX-License-Identifier: MIT OR Apache-2.0
// One step of a sequence: dispatches in a row depend on each other.
#version 460

layout(local_size_x = 1) in;
layout(set = 0, binding = 0, std430) buffer State {
    uint state;
};

void main() {
    state = state * 1664525u + 1013904223u;
}
