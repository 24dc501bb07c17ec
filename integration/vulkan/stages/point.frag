// SPDX-License-Identifier: MIT OR Apache-2.0
#version 450

// Where a fragment is in its point.
layout(location = 0) out vec4 target;

void main() {
    target = vec4(gl_PointCoord, 0, 1);
}
