// SPDX-License-Identifier: MIT OR Apache-2.0
#version 450

// Gives fragments another number of their triangle.
layout(triangles) in;
layout(triangle_strip, max_vertices = 3) out;
layout(location = 0) in vec4 colour[];

void main() {
    for (int corner = 0; corner < 3; corner++) {
        gl_Position = gl_in[corner].gl_Position;
        gl_PrimitiveID = gl_PrimitiveIDIn * 10 + 7;
        EmitVertex();
    }
    EndPrimitive();
}
