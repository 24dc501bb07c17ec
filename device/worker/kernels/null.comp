// SPDX-License-Identifier: MIT OR Apache-2.0
// Does nothing: what is left is the cost of a dispatch.
#version 460

layout(local_size_x = 1) in;

void main() {
}
