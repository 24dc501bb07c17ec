// SPDX-License-Identifier: MIT OR Apache-2.0
// Takes what commands can give: sets with a gap between them, an array of buffers, a uniform buffer, push constants, a
// specialisation constant, and a first work group.
#version 460

layout(local_size_x = 16) in;
layout(constant_id = 3) const uint FACTOR = 1;
layout(set = 0, binding = 2, std140) uniform Uniform {
    uvec4 added;
};
layout(set = 2, binding = 1, std430) buffer Words {
    uint words[];
} all[3];
layout(push_constant) uniform Arguments {
    uint first;
    uint which;
};

void main() {
    uint index = gl_GlobalInvocationID.x;
    all[which].words[index] = all[which].words[index] * FACTOR + added.y + first + gl_WorkGroupID.x;
}
