// SPDX-License-Identifier: MIT OR Apache-2.0
// Waits for a store that no kernel does.
#version 460
#extension GL_ARB_gpu_shader_int64 : require
#extension GL_EXT_buffer_reference : require

layout(buffer_reference, std430, buffer_reference_align = 8) volatile buffer Flag {
    uint value;
};

layout(local_size_x = 1) in;
layout(push_constant) uniform Arguments {
    Flag flag;
};

void main() {
    while (flag.value == 0) {
    }
}
