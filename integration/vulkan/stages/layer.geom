// SPDX-License-Identifier: MIT OR Apache-2.0
#version 450

// Draws each triangle on the layer, and in the viewport, that its number in the draw is, two by two.
layout(triangles) in;
layout(triangle_strip, max_vertices = 3) out;
layout(location = 0) in vec4 colour[];
layout(location = 0) out vec4 seen;
layout(constant_id = 0) const bool by_layer = true;

void main() {
    for (int corner = 0; corner < 3; corner++) {
        gl_Position = gl_in[corner].gl_Position;
        gl_Layer = by_layer ? gl_PrimitiveIDIn / 2 : 0;
        gl_ViewportIndex = by_layer ? 0 : gl_PrimitiveIDIn / 2;
        seen = colour[corner];
        EmitVertex();
    }
    EndPrimitive();
}
