// SPDX-License-Identifier: MIT OR Apache-2.0
// Loads from one address, or stores to it.
#version 460
#extension GL_ARB_gpu_shader_int64 : require
#extension GL_EXT_buffer_reference : require

layout(buffer_reference, std430, buffer_reference_align = 8) buffer Value {
    uint64_t value;
};

layout(local_size_x = 1) in;
layout(push_constant) uniform Arguments {
    Value from;
    Value to;
};

void main() {
    uint64_t value = 42ul;
    if (uint64_t(from) != 0) {
        value = from.value;
    }
    if (uint64_t(to) != 0) {
        to.value = value;
    }
}
