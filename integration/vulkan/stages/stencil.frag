// SPDX-License-Identifier: MIT OR Apache-2.0
#version 450
#extension GL_ARB_shader_stencil_export : require

// A fragment that brings its own stencil.
layout(location = 0) in vec4 seen;
layout(location = 0) out vec4 colour;

void main() {
    colour = seen;
    gl_FragStencilRefARB = 5;
}
