// SPDX-License-Identifier: MIT OR Apache-2.0
// Follows many lists at once, so many steps in each, and tells where it arrived.
#version 460
#extension GL_ARB_gpu_shader_int64 : require
#extension GL_EXT_buffer_reference : require

layout(buffer_reference) buffer Node;
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Node {
    Node next;
};
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Starts {
    Node at[];
};

layout(local_size_x = 32) in;
layout(push_constant) uniform Arguments {
    Starts starts;
    uint steps;
};

void main() {
    uint index = gl_GlobalInvocationID.x;
    Node node = starts.at[index];
    for (uint step = 0; step < steps; step++) {
        node = node.next;
    }
    starts.at[index] = node;
}
