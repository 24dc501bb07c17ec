// SPDX-License-Identifier: MIT OR Apache-2.0
// Specialisation constants of each type, one of which is the size of a work group.
#version 460

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint FACTOR = 1;
layout(constant_id = 2) const int OFFSET = 0;
layout(constant_id = 3) const float SCALE = 1.0;
layout(constant_id = 4) const bool NEGATE = false;

layout(set = 0, binding = 0, std430) readonly buffer Input {
    uint from[];
};
layout(set = 0, binding = 1, std430) writeonly buffer Output {
    uint to[];
};
layout(set = 0, binding = 2, std430) writeonly buffer Floats {
    float scaled[];
};

void main() {
    uint index = gl_GlobalInvocationID.x;
    uint value = from[index] * FACTOR + uint(OFFSET);
    to[index] = (NEGATE ? ~value : value) ^ (gl_WorkGroupSize.x << 24);
    scaled[index] = float(index) * SCALE;
}
