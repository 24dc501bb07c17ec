// SPDX-License-Identifier: MIT OR Apache-2.0
// Looks at an image of an array through a sampler of another array, which push constants choose.
#version 460

layout(local_size_x = 1) in;
layout(set = 0, binding = 0) uniform texture2D images[3];
layout(set = 0, binding = 1) uniform sampler samplers[2];
layout(set = 0, binding = 2, std430) writeonly buffer Texels {
    vec4 texels[];
};
layout(push_constant) uniform Arguments {
    uint which;
    uint how;
    uint to;
};

void main() {
    texels[to] = textureLod(sampler2D(images[which], samplers[how]), vec2(0.5), 0);
}
