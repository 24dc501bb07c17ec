// SPDX-License-Identifier: MIT OR Apache-2.0
// Takes buffers from four sets: some are uniform, one has a gap before it.
#version 460

layout(local_size_x = 16) in;
layout(set = 0, binding = 0, std430) readonly buffer First {
    uint first[];
};
layout(set = 1, binding = 0, std140) uniform Scale {
    uvec4 scale;
};
layout(set = 1, binding = 7, std430) readonly buffer Second {
    uint second[];
};
layout(set = 2, binding = 3, std140) uniform Offset {
    uvec4 offset;
};
layout(set = 3, binding = 1, std430) writeonly buffer Result {
    uint result[];
};

void main() {
    uint index = gl_GlobalInvocationID.x;
    result[index] = first[index] * scale.y + second[index] * scale.w + offset.z;
}
