// SPDX-License-Identifier: MIT OR Apache-2.0
// Rings that run outwards over a gradient, in whole numbers: X8R8G8B8, little-endian.

struct Frame {
    width: u32,
    height: u32,
    // Pixels from one line to the next.
    pitch: u32,
    number: u32,
}

var<immediate> frame: Frame;
@group(0) @binding(0) var<storage, read_write> pixels: array<u32>;

@compute @workgroup_size(8, 8)
fn animation(@builtin(global_invocation_id) id: vec3u) {
    if id.x >= frame.width || id.y >= frame.height {
        return;
    }
    let x = i32(id.x) - i32(frame.width / 2u);
    let y = i32(id.y) - i32(frame.height / 2u);
    let ring = (u32(x * x + y * y) / 256u - frame.number * 3u) & 63u;
    let red = id.x * 255u / frame.width;
    let green = id.y * 255u / frame.height;
    let blue = 64u + ring * 3u;
    pixels[id.y * frame.pitch + id.x] = red << 16u | green << 8u | blue;
}
