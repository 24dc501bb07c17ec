// SPDX-License-Identifier: MIT OR Apache-2.0
#version 450

// Gives each triangle twice, by two invocations: as it is, and mirrored in blue.
layout(triangles, invocations = 2) in;
layout(triangle_strip, max_vertices = 3) out;
layout(location = 0) in vec4 colour[];
layout(location = 0) out vec4 seen;

void main() {
    for (int corner = 0; corner < 3; corner++) {
        bool first = gl_InvocationID == 0;
        gl_Position = gl_in[corner].gl_Position * vec4(first ? 1 : -1, 1, 1, 1);
        seen = first ? colour[corner] : vec4(0, 0, 1, 1);
        EmitVertex();
    }
    EndPrimitive();
}
