// SPDX-License-Identifier: MIT OR Apache-2.0
#version 450

// Gives the number of its triangle as red.
layout(location = 0) out vec4 target;

void main() {
    target = vec4(float(gl_PrimitiveID) / 255, 0, 0, 1);
}
