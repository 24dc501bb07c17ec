// SPDX-License-Identifier: MIT OR Apache-2.0
// Adds what the buffers of an array hold, in the order that a push constant gives.
#version 460

layout(local_size_x = 1) in;
layout(set = 0, binding = 0, std430) readonly buffer Parts {
    uint values[];
} parts[4];
layout(set = 0, binding = 1, std430) writeonly buffer Result {
    uint result[];
};
layout(push_constant) uniform Arguments {
    uvec4 order;
};

void main() {
    for (uint place = 0; place < 4; place++) {
        uint part = order[place];
        result[place] = parts[part].values[0] + uint(parts[part].values.length());
    }
}
