// SPDX-License-Identifier: MIT OR Apache-2.0
#version 450

// Makes a square of four texels of each point.
layout(points) in;
layout(triangle_strip, max_vertices = 4) out;
layout(location = 0) in vec4 colour[];
layout(location = 0) out vec4 seen;

void main() {
    for (int corner = 0; corner < 4; corner++) {
        vec2 side = vec2(corner & 1, corner >> 1) * 0.5 - 0.25;
        gl_Position = gl_in[0].gl_Position + vec4(side, 0, 0);
        seen = colour[0];
        EmitVertex();
    }
    EndPrimitive();
}
