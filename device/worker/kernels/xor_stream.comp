// SPDX-License-Identifier: MIT OR Apache-2.0
// The protocol's `xor_stream`, as the built-in kernel XOR_STREAM applies it: each word is combined with its word of a key
// stream, the finaliser of SplitMix64.
#version 460
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

layout(local_size_x = 256) in;
layout(set = 0, binding = 0, std430) buffer Words {
    uint64_t words[];
};
layout(push_constant) uniform Arguments {
    uint64_t key;
};

void main() {
    uint index = gl_GlobalInvocationID.x;
    if (index >= words.length()) {
        return;
    }
    uint64_t z = key + uint64_t(index) * 0x9E3779B97F4A7C15UL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9UL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBUL;
    words[index] ^= z ^ (z >> 31);
}
