// SPDX-License-Identifier: MIT OR Apache-2.0
// Follows a list through memory that no buffer covers, and leaves in each node where it was found.
#version 460
#extension GL_ARB_gpu_shader_int64 : require
#extension GL_EXT_buffer_reference : require

layout(buffer_reference) buffer Node;
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Node {
    Node next;
    uint64_t value;
    uint64_t place;
};

layout(local_size_x = 1) in;
layout(push_constant) uniform Arguments {
    Node first;
};

void main() {
    uint64_t place = 0;
    for (Node node = first; uint64_t(node) != 0; node = node.next) {
        place = place * 3 + node.value;
        node.place = place;
    }
}
