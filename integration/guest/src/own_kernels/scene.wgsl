// SPDX-License-Identifier: MIT OR Apache-2.0
// Three balls that melt into each other on a tiled floor, by marching along each pixel's ray. `scene.rs` computes the
// same on the processor: every line here has its line there. There is no function that devices compute differently,
// such as a sine, so both pictures are equal but for rounding.

struct Image {
    width: u32,
    height: u32,
}

var<immediate> image: Image;
@group(0) @binding(0) var<storage, read_write> pixels: array<u32>;

const STEPS = 128;
const FAR = 30.0;
const LIGHT = vec3f(-0.48, 0.8, -0.36);
const EYE = vec3f(0.0, 1.7, -5.0);

fn melted(one: f32, other: f32) -> f32 {
    let near = max(0.6 - abs(one - other), 0.0) / 0.6;
    return min(one, other) - near * near * 0.15;
}

fn balls(at: vec3f) -> f32 {
    let first = length(at - vec3f(-1.1, 0.9, 0.3)) - 0.9;
    let second = length(at - vec3f(0.5, 0.7, -0.4)) - 0.7;
    let third = length(at - vec3f(1.5, 1.2, 0.9)) - 0.8;
    return melted(melted(first, second), third);
}

fn scene(at: vec3f) -> f32 {
    return min(balls(at), at.y);
}

fn normal(at: vec3f) -> vec3f {
    let step = vec2f(0.002, 0.0);
    return normalize(vec3f(
        scene(at + step.xyy) - scene(at - step.xyy),
        scene(at + step.yxy) - scene(at - step.yxy),
        scene(at + step.yyx) - scene(at - step.yyx),
    ));
}

fn shadow(start: vec3f) -> f32 {
    var lit = 1.0;
    var along = 0.05;
    for (var step = 0; step < 48; step += 1) {
        let free = balls(start + LIGHT * along);
        lit = min(lit, 10.0 * free / along);
        along += clamp(free, 0.03, 0.4);
    }
    return clamp(lit, 0.0, 1.0);
}

fn wave(x: f32) -> f32 {
    return abs(x - floor(x) - 0.5) - 0.25;
}

fn colour(at: vec3f) -> vec3f {
    if balls(at) < at.y {
        return mix(vec3f(0.85, 0.3, 0.15), vec3f(0.2, 0.45, 0.8), clamp(at.x * 0.4 + 0.5, 0.0, 1.0));
    }
    let tile = clamp(wave(at.x * 0.5) * wave(at.z * 0.5) * 64.0 + 0.5, 0.0, 1.0);
    return mix(vec3f(0.25, 0.27, 0.3), vec3f(0.8, 0.78, 0.72), tile);
}

fn seen(direction: vec3f) -> vec3f {
    let sky = mix(vec3f(0.75, 0.82, 0.9), vec3f(0.25, 0.45, 0.75), clamp(direction.y * 1.5, 0.0, 1.0));
    var along = 0.0;
    for (var step = 0; step < STEPS; step += 1) {
        let free = scene(EYE + direction * along);
        along += free;
        if free < 0.0005 || along > FAR {
            break;
        }
    }
    if along > FAR {
        return sky;
    }
    let at = EYE + direction * along;
    let facing = normal(at);
    let light = max(dot(facing, LIGHT), 0.0) * shadow(at + facing * 0.01);
    let lit = colour(at) * (light * vec3f(1.0, 0.95, 0.85) + (0.3 + 0.2 * facing.y) * vec3f(0.6, 0.75, 1.0));
    let haze = clamp(along * along / (FAR * FAR) * 2.0, 0.0, 1.0);
    return mix(lit, sky, haze);
}

@compute @workgroup_size(8, 8)
fn picture(@builtin(global_invocation_id) id: vec3u) {
    if id.x >= image.width || id.y >= image.height {
        return;
    }
    let height = f32(image.height);
    let x = (f32(id.x) + 0.5 - 0.5 * f32(image.width)) / height;
    let y = (0.5 * height - f32(id.y) - 0.5) / height;
    let linear = clamp(seen(normalize(vec3f(x, y - 0.12, 1.0))), vec3f(0.0), vec3f(1.0));
    let shown = vec3u(sqrt(linear) * 255.0 + 0.5);
    pixels[id.y * image.width + id.x] = shown.x | shown.y << 8 | shown.z << 16 | 0xff000000;
}
