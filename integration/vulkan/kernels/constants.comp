// SPDX-License-Identifier: MIT OR Apache-2.0
// Stores what specialisation constants are, of which one is the size of a work group.
#version 460

layout(local_size_x_id = 0) in;
layout(constant_id = 10) const uint WORD = 1;
layout(constant_id = 20) const int SIGNED = -2;
layout(constant_id = 30) const float REAL = 0.5;
layout(constant_id = 40) const bool FLAG = false;
layout(set = 0, binding = 0, std430) writeonly buffer Result {
    uint result[];
};

void main() {
    if (gl_LocalInvocationID.x + 1 == gl_WorkGroupSize.x) {
        result[0] = gl_WorkGroupSize.x;
        result[1] = WORD;
        result[2] = uint(SIGNED);
        result[3] = floatBitsToUint(REAL);
        result[4] = FLAG ? 1 : 0;
    }
}
