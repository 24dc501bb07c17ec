// SPDX-License-Identifier: MIT OR Apache-2.0
// Reverses an array of which it has the address.
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Numbers {
    uint at[];
};

layout(local_size_x = 32) in;
layout(push_constant) uniform Arguments {
    Numbers from;
    Numbers to;
    uint count;
};

void main() {
    uint index = gl_GlobalInvocationID.x;
    if (index < count) {
        to.at[count - 1 - index] = from.at[index];
    }
}
