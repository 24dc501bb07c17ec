// SPDX-License-Identifier: MIT OR Apache-2.0
#version 450

// Puts a point at each of a patch's places, moved to the middles of texels.
layout(quads, equal_spacing, ccw, point_mode) in;
layout(location = 0) in vec4 given[];
layout(location = 0) out vec4 seen;

void main() {
    gl_Position = vec4(gl_TessCoord.xy * 0.5 - 15.0 / 16, 0, 1);
    gl_PointSize = 1;
    seen = given[0];
}
