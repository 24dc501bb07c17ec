// SPDX-License-Identifier: MIT OR Apache-2.0
#version 450

// Puts a patch's places between its corners, in the first corner's colour.
layout(quads, equal_spacing, ccw) in;
layout(location = 0) in vec4 given[];
layout(location = 0) out vec4 seen;

void main() {
    vec4 upper = mix(gl_in[0].gl_Position, gl_in[1].gl_Position, gl_TessCoord.x);
    vec4 lower = mix(gl_in[2].gl_Position, gl_in[3].gl_Position, gl_TessCoord.x);
    gl_Position = mix(upper, lower, gl_TessCoord.y);
    seen = given[0];
}
