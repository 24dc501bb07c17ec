// SPDX-License-Identifier: MIT OR Apache-2.0
// Adds the numbers of each work group in shared memory.
#version 460

layout(local_size_x = 128) in;
layout(set = 0, binding = 0, std430) readonly buffer Numbers {
    uint numbers[];
};
layout(set = 0, binding = 1, std430) writeonly buffer Sums {
    uint sums[];
};
shared uint part[128];

void main() {
    uint place = gl_LocalInvocationID.x;
    part[place] = numbers[gl_GlobalInvocationID.x];
    for (uint half_size = 64; half_size > 0; half_size /= 2) {
        barrier();
        if (place < half_size) {
            part[place] += part[place + half_size];
        }
    }
    if (place == 0) {
        sums[gl_WorkGroupID.x] = part[0];
    }
}
