// SPDX-License-Identifier: MIT OR Apache-2.0
// The product of two square matrices, tile by tile through shared memory.
#version 460

const uint TILE = 16;

layout(local_size_x = TILE, local_size_y = TILE) in;
layout(set = 0, binding = 0, std430) readonly buffer Left {
    float left[];
};
layout(set = 0, binding = 1, std430) readonly buffer Right {
    float right[];
};
layout(set = 0, binding = 2, std430) writeonly buffer Product {
    float product[];
};
layout(push_constant) uniform Arguments {
    uint size;
};

shared float left_tile[TILE][TILE];
shared float right_tile[TILE][TILE];

void main() {
    uvec2 at = gl_GlobalInvocationID.xy;
    uvec2 lane = gl_LocalInvocationID.xy;
    float sum = 0.0;
    for (uint tile = 0; tile < size; tile += TILE) {
        left_tile[lane.y][lane.x] = left[at.y * size + tile + lane.x];
        right_tile[lane.y][lane.x] = right[(tile + lane.y) * size + at.x];
        barrier();
        for (uint k = 0; k < TILE; k++) {
            sum += left_tile[lane.y][k] * right_tile[k][lane.x];
        }
        barrier();
    }
    product[at.y * size + at.x] = sum;
}
