// SPDX-License-Identifier: MIT OR Apache-2.0
// Every atomic operation on words of 32 bits, by descriptor, and an addition of 64 bits, by pointer.
#version 460
#extension GL_ARB_gpu_shader_int64 : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_atomic_int64 : require

layout(buffer_reference, std430, buffer_reference_align = 8) buffer Counter {
    uint64_t value;
};

layout(local_size_x = 64) in;
layout(set = 0, binding = 0, std430) buffer Words {
    uint added;
    uint least;
    uint greatest;
    uint all_bits;
    uint common_bits;
    uint odd_bits;
    uint exchanged;
    uint locked;
};
layout(push_constant) uniform Arguments {
    Counter counter;
};

void main() {
    uint index = gl_GlobalInvocationID.x;
    uint mixed = index * 2654435761u;
    atomicAdd(added, index);
    atomicMin(least, mixed);
    atomicMax(greatest, mixed);
    atomicOr(all_bits, 1u << (index & 15));
    atomicAnd(common_bits, ~(1u << (index & 7)));
    atomicXor(odd_bits, mixed);
    atomicExchange(exchanged, index | 0x80000000u);
    // Addition by comparison: each invocation tries until it has exchanged once.
    uint seen = locked;
    for (;;) {
        uint before = atomicCompSwap(locked, seen, seen + 3);
        if (before == seen) {
            break;
        }
        seen = before;
    }
    atomicAdd(counter.value, uint64_t(mixed) << 16);
}
