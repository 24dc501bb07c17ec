// SPDX-License-Identifier: MIT OR Apache-2.0
// Transforms all the words of its descriptor, and tells each how many they are.
#version 460

layout(local_size_x = 64) in;
layout(set = 0, binding = 0, std430) buffer Words {
    uint words[];
};

void main() {
    uint index = gl_GlobalInvocationID.x;
    if (index < words.length()) {
        words[index] = words[index] * 2654435761u + words.length() + index;
    }
}
