// SPDX-License-Identifier: MIT OR Apache-2.0
// Waits for a store that nobody does.
#version 460

layout(local_size_x = 1) in;
layout(set = 0, binding = 0, std430) volatile buffer Flag {
    uint flag;
};

void main() {
    while (flag == 0) {
    }
}
