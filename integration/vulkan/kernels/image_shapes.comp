// SPDX-License-Identifier: MIT OR Apache-2.0
// Stores where each texel is in images whose layers are rows or faces, and the sizes of these.
#version 460

layout(local_size_x = 1) in;
layout(set = 0, binding = 0, std430) buffer Result {
    uint sizes[];
};
layout(set = 0, binding = 1, r32ui) uniform uimage1DArray rows;
layout(set = 0, binding = 2, r32ui) uniform uimageCube cube;

void main() {
    ivec2 size = imageSize(rows);
    for (int layer = 0; layer < size.y; layer++) {
        for (int x = 0; x < size.x; x++) {
            uint before = imageLoad(rows, ivec2(x, layer)).x;
            imageStore(rows, ivec2(x, layer), uvec4(before + x + 100 * layer));
        }
    }
    ivec2 face = imageSize(cube);
    for (int z = 0; z < 6; z++) {
        for (int y = 0; y < face.y; y++) {
            for (int x = 0; x < face.x; x++) {
                uint before = imageLoad(cube, ivec3(x, y, z)).x;
                imageStore(cube, ivec3(x, y, z), uvec4(before + x + 100 * y + 10000 * z));
            }
        }
    }
    sizes[0] = size.x;
    sizes[1] = size.y;
    sizes[2] = face.x;
    sizes[3] = face.y;
}
