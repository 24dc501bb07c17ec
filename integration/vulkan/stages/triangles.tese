// SPDX-License-Identifier: MIT OR Apache-2.0
#version 450

// Puts a patch's places between its first three corners, in the colour that is the whole patch's.
layout(triangles, equal_spacing, ccw) in;
layout(location = 1) patch in vec4 of_all;
layout(location = 0) out vec4 seen;

void main() {
    gl_Position = gl_TessCoord.x * gl_in[0].gl_Position + gl_TessCoord.y * gl_in[1].gl_Position
        + gl_TessCoord.z * gl_in[2].gl_Position;
    seen = of_all;
}
