// SPDX-License-Identifier: MIT OR Apache-2.0
// Counts at each work group's place, in a grid of 16 x 16 x 16, and stores the number of work groups at the end.
#version 460

layout(local_size_x = 2, local_size_y = 2) in;
layout(set = 0, binding = 0, std430) buffer Grid {
    uint count[4096];
    uint groups[3];
};

void main() {
    uvec3 group = gl_WorkGroupID;
    atomicAdd(count[group.x + 16 * (group.y + 16 * group.z)], 1);
    groups[0] = gl_NumWorkGroups.x;
    groups[1] = gl_NumWorkGroups.y;
    groups[2] = gl_NumWorkGroups.z;
}
