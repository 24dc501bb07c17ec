// SPDX-License-Identifier: MIT OR Apache-2.0
#version 450

// A point of the first stream, and two of the second, each in a buffer of its own.
layout(points) in;
layout(points, max_vertices = 3) out;
layout(location = 0, stream = 0, xfb_buffer = 0, xfb_offset = 0, xfb_stride = 4) out float one;
layout(location = 1, stream = 1, xfb_buffer = 1, xfb_offset = 0, xfb_stride = 4) out float other;

void main() {
    one = 1.5;
    gl_PointSize = 1;
    EmitStreamVertex(0);
    EndStreamPrimitive(0);
    for (int number = 0; number < 2; number++) {
        other = 2.5 + number;
        EmitStreamVertex(1);
        EndStreamPrimitive(1);
    }
}
