// SPDX-License-Identifier: MIT OR Apache-2.0
#version 450

// Gives a patch of four corners on, with levels that are constants.
layout(vertices = 4) out;
layout(location = 0) in vec4 colour[];
layout(location = 0) out vec4 given[];
layout(location = 1) patch out vec4 of_all;
layout(constant_id = 0) const float outer = 1;
layout(constant_id = 1) const float inner = 1;

void main() {
    gl_out[gl_InvocationID].gl_Position = gl_in[gl_InvocationID].gl_Position;
    given[gl_InvocationID] = colour[gl_InvocationID];
    if (gl_InvocationID == 0) {
        of_all = colour[3];
        for (int side = 0; side < 4; side++)
            gl_TessLevelOuter[side] = outer;
        gl_TessLevelInner[0] = inner;
        gl_TessLevelInner[1] = inner;
    }
}
