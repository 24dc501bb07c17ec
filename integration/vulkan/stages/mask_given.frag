// SPDX-License-Identifier: MIT OR Apache-2.0
#version 450

// Writes one sample of four, by its column.
layout(location = 0) out vec4 target;

void main() {
    target = vec4(1, 0, 0, 1);
    gl_SampleMask[0] = 1 << (int(gl_FragCoord.x) % 4);
}
