// SPDX-License-Identifier: MIT OR Apache-2.0
// Loads and stores each word once: memory is what limits it.
#version 460

layout(local_size_x = 256) in;
layout(set = 0, binding = 0, std430) buffer Words {
    uvec4 words[];
};

void main() {
    uint index = gl_GlobalInvocationID.x;
    words[index] = words[index] + 1u;
}
