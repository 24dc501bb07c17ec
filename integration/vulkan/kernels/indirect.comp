// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes how many work groups the next dispatch has.
#version 460

layout(local_size_x = 1) in;
layout(set = 0, binding = 0, std430) writeonly buffer Command {
    uint x;
    uint y;
    uint z;
};
layout(push_constant) uniform Arguments {
    uvec3 groups;
};

void main() {
    x = groups.x;
    y = groups.y;
    z = groups.z;
}
