// SPDX-License-Identifier: MIT OR Apache-2.0
#version 450

// Gives what the attachment has at the same texel, with its red and green exchanged.
layout(input_attachment_index = 0, set = 0, binding = 0) uniform subpassInput before;
layout(location = 0) out vec4 target;

void main() {
    target = subpassLoad(before).grba;
}
