// SPDX-License-Identifier: MIT OR Apache-2.0
// Sums and finds the greatest word: a tree within each work group, and a result of each.
#version 460

layout(local_size_x = 128) in;
layout(set = 0, binding = 0, std430) readonly buffer Words {
    uint words[];
};
layout(set = 0, binding = 1, std430) writeonly buffer Results {
    uvec2 results[];
};
layout(push_constant) uniform Arguments {
    uint count;
};

shared uvec2 partial[128];

void main() {
    uint lane = gl_LocalInvocationIndex;
    uint index = gl_GlobalInvocationID.x;
    uint word = index < count ? words[index] : 0;
    partial[lane] = uvec2(word);
    barrier();
    for (uint half_of = gl_WorkGroupSize.x / 2; half_of > 0; half_of /= 2) {
        if (lane < half_of) {
            uvec2 other = partial[lane + half_of];
            partial[lane] = uvec2(partial[lane].x + other.x, max(partial[lane].y, other.y));
        }
        barrier();
    }
    if (lane == 0) {
        results[gl_WorkGroupID.x] = partial[0];
    }
}
