// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads texels of a buffer as numbers of one of three kinds, and stores how many there are behind them.
#version 460

layout(local_size_x = 1) in;
layout(set = 0, binding = 0, std430) writeonly buffer Result {
    uvec4 result[];
};
layout(set = 0, binding = 1) uniform samplerBuffer reals;
layout(set = 0, binding = 2) uniform usamplerBuffer words;
layout(set = 0, binding = 3) uniform isamplerBuffer integers;
layout(push_constant) uniform Arguments {
    uint kind;
    uint count;
};

uvec4 texel(int at) {
    switch (kind) {
    case 0: return floatBitsToUint(texelFetch(reals, at));
    case 1: return texelFetch(words, at);
    default: return uvec4(texelFetch(integers, at));
    }
}

uint size() {
    switch (kind) {
    case 0: return textureSize(reals);
    case 1: return textureSize(words);
    default: return textureSize(integers);
    }
}

void main() {
    uint at = gl_GlobalInvocationID.x;
    result[at] = at < count ? texel(int(at)) : uvec4(size());
}
