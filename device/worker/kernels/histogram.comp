// SPDX-License-Identifier: MIT OR Apache-2.0
// Counts bytes by their value, first within each work group.
#version 460

layout(local_size_x = 256) in;
layout(set = 0, binding = 0, std430) readonly buffer Words {
    uint words[];
};
layout(set = 0, binding = 1, std430) buffer Bins {
    uint bins[256];
};
layout(push_constant) uniform Arguments {
    uint count;
};

shared uint own[256];

void main() {
    uint lane = gl_LocalInvocationIndex;
    own[lane] = 0;
    barrier();
    uint stride = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    for (uint index = gl_GlobalInvocationID.x; index < count; index += stride) {
        uint word = words[index];
        for (uint part = 0; part < 4; part++) {
            atomicAdd(own[(word >> (8 * part)) & 0xff], 1);
        }
    }
    barrier();
    atomicAdd(bins[lane], own[lane]);
}
