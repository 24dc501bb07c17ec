// SPDX-License-Identifier: MIT OR Apache-2.0
// Stores the push constants.
#version 460

layout(local_size_x = 1) in;
layout(set = 0, binding = 0, std430) writeonly buffer Result {
    uvec4 result[8];
};
layout(push_constant) uniform Arguments {
    uvec4 arguments[8];
};

void main() {
    for (uint part = 0; part < 8; part++) {
        result[part] = arguments[part];
    }
}
