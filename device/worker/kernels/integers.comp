// SPDX-License-Identifier: MIT OR Apache-2.0
// Arithmetic of 64 bits whose high halves matter.
#version 460
#extension GL_ARB_gpu_shader_int64 : require

layout(local_size_x = 64) in;
layout(set = 0, binding = 0, std430) buffer Values {
    uint64_t values[];
};

void main() {
    uint index = gl_GlobalInvocationID.x;
    uint64_t x = values[index];
    x = x * 6364136223846793005ul + 1442695040888963407ul;
    x ^= x >> 33;
    x = (x << 7) - (x >> 57);
    // Signed, and more than 32 bits apart.
    if (int64_t(x) < int64_t(-1099511627776l)) {
        x += 1099511627777ul;
    }
    values[index] = x;
}
