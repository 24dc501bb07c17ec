// SPDX-License-Identifier: MIT OR Apache-2.0
#version 450

// A point whose size is the first number of its colour.
layout(location = 0) in vec4 place;
layout(location = 1) in vec4 colour;
layout(location = 0) out vec4 seen;

void main() {
    gl_Position = place;
    gl_PointSize = colour.r;
    seen = vec4(1, 0, 0, 1);
}
