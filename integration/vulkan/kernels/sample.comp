// SPDX-License-Identifier: MIT OR Apache-2.0
// Looks at an image through its sampler, in one of several ways.
#version 460

layout(local_size_x = 1) in;
layout(set = 0, binding = 0) uniform sampler2D image;
layout(set = 0, binding = 1, std430) readonly buffer Places {
    vec4 places[];
};
layout(set = 0, binding = 2, std430) writeonly buffer Texels {
    vec4 texels[];
};
layout(push_constant) uniform Arguments {
    uint way;
};

vec4 look(vec4 place) {
    switch (way) {
    case 0: return textureLod(image, place.xy, place.z);
    case 1: return textureGather(image, place.xy, 0);
    case 2: return textureGather(image, place.xy, 2);
    case 3: return texelFetch(image, ivec2(place.xy), int(place.z));
    case 4: return vec4(textureSize(image, int(place.z)), textureQueryLevels(image), 0);
    case 5: return textureGrad(image, place.xy, place.zz, vec2(0, place.w));
    case 6: return textureLodOffset(image, place.xy, place.z, ivec2(3, -2));
    default: return textureGatherOffset(image, place.xy, ivec2(-3, 2), 1);
    }
}

void main() {
    uint number = gl_GlobalInvocationID.x;
    texels[number] = look(places[number]);
}
