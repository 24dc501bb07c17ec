// SPDX-License-Identifier: MIT OR Apache-2.0
// Adds the first texels of buffers of an array, in the order that push constants give.
#version 460

layout(local_size_x = 1) in;
layout(set = 0, binding = 0, std430) writeonly buffer Result {
    uint result[];
};
layout(set = 0, binding = 1) uniform usamplerBuffer parts[3];
layout(push_constant) uniform Arguments {
    uvec3 order;
};

void main() {
    for (uint place = 0; place < 3; place++) {
        uint part = order[place];
        result[place] = texelFetch(parts[part], 0).x + textureSize(parts[part]);
    }
}
