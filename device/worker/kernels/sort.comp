// SPDX-License-Identifier: MIT OR Apache-2.0
// One step of a bitonic sort: compares and exchanges words that are `distance` apart, in runs of `run`.
#version 460

layout(local_size_x = 64) in;
layout(set = 0, binding = 0, std430) buffer Words {
    uint words[];
};
layout(push_constant) uniform Arguments {
    uint run;
    uint distance;
};

void main() {
    uint index = gl_GlobalInvocationID.x;
    uint other = index ^ distance;
    if (other > index && other < words.length()) {
        uint a = words[index];
        uint b = words[other];
        bool ascending = (index & run) == 0;
        if ((a > b) == ascending) {
            words[index] = b;
            words[other] = a;
        }
    }
}
