// SPDX-License-Identifier: MIT OR Apache-2.0
// Adds two arrays, as many numbers as a push constant says.
#version 460

layout(local_size_x = 64) in;
layout(set = 0, binding = 0, std430) readonly buffer First {
    uint first[];
};
layout(set = 0, binding = 1, std430) readonly buffer Second {
    uint second[];
};
layout(set = 0, binding = 2, std430) writeonly buffer Sum {
    uint sum[];
};
layout(push_constant) uniform Arguments {
    uint count;
};

void main() {
    uint index = gl_GlobalInvocationID.x;
    if (index < count) {
        sum[index] = first[index] + second[index];
    }
}
