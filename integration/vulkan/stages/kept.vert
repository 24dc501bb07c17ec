// SPDX-License-Identifier: MIT OR Apache-2.0
#version 450

// A corner that is kept as its mirror.
layout(location = 0) in vec4 place;
layout(location = 1) in vec4 colour;
layout(location = 0, xfb_buffer = 0, xfb_offset = 16, xfb_stride = 32) out vec4 seen;
layout(location = 1, xfb_buffer = 0, xfb_offset = 0) out vec4 kept;

void main() {
    gl_Position = place;
    seen = colour;
    kept = vec4(-place.x, place.yzw);
}
