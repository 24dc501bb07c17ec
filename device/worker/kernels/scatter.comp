// SPDX-License-Identifier: MIT OR Apache-2.0
// Each invocation takes a pointer from a table, and transforms the value that it finds there.
#version 460
#extension GL_ARB_gpu_shader_int64 : require
#extension GL_EXT_buffer_reference : require

layout(constant_id = 7) const uint FACTOR = 1;

layout(buffer_reference, std430, buffer_reference_align = 8) buffer Value {
    uint64_t value;
};
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Table {
    Value at[];
};

layout(local_size_x = 64) in;
layout(push_constant) uniform Arguments {
    Table table;
    uint count;
};

void main() {
    uint index = gl_GlobalInvocationID.x;
    if (index < count) {
        Value there = table.at[index];
        there.value = there.value * FACTOR + index;
    }
}
