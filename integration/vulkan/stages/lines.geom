// SPDX-License-Identifier: MIT OR Apache-2.0
#version 450

// Makes a line from the first neighbour of a line to the second, and leaves out those whose first is blue.
layout(lines_adjacency) in;
layout(line_strip, max_vertices = 2) out;
layout(location = 0) in vec4 colour[];
layout(location = 0) out vec4 seen;

void main() {
    if (colour[0].b > 0.5)
        return;
    gl_Position = gl_in[0].gl_Position;
    seen = colour[1];
    EmitVertex();
    gl_Position = gl_in[3].gl_Position;
    seen = colour[1];
    EmitVertex();
}
