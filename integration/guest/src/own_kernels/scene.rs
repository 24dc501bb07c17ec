// SPDX-License-Identifier: MIT OR Apache-2.0

//! The picture on the processor: every line has its line in `scene.wgsl`.

type Vector = [f32; 3];

const STEPS: u32 = 128;
const FAR: f32 = 30.0;
const LIGHT: Vector = [-0.48, 0.8, -0.36];
const EYE: Vector = [0.0, 1.7, -5.0];

fn each(one: Vector, other: Vector, operation: impl Fn(f32, f32) -> f32) -> Vector {
    [operation(one[0], other[0]), operation(one[1], other[1]), operation(one[2], other[2])]
}

fn add(one: Vector, other: Vector) -> Vector {
    each(one, other, |one, other| one + other)
}

fn sub(one: Vector, other: Vector) -> Vector {
    each(one, other, |one, other| one - other)
}

fn times(vector: Vector, factor: f32) -> Vector {
    vector.map(|part| part * factor)
}

fn dot(one: Vector, other: Vector) -> f32 {
    let [x, y, z] = each(one, other, |one, other| one * other);
    x + y + z
}

fn length(vector: Vector) -> f32 {
    dot(vector, vector).sqrt()
}

fn normalize(vector: Vector) -> Vector {
    times(vector, 1.0 / length(vector))
}

fn mix(one: Vector, other: Vector, share: f32) -> Vector {
    each(one, other, |one, other| one * (1.0 - share) + other * share)
}

fn melted(one: f32, other: f32) -> f32 {
    let near = (0.6 - (one - other).abs()).max(0.0) / 0.6;
    one.min(other) - near * near * 0.15
}

fn balls(at: Vector) -> f32 {
    let first = length(sub(at, [-1.1, 0.9, 0.3])) - 0.9;
    let second = length(sub(at, [0.5, 0.7, -0.4])) - 0.7;
    let third = length(sub(at, [1.5, 1.2, 0.9])) - 0.8;
    melted(melted(first, second), third)
}

fn scene(at: Vector) -> f32 {
    balls(at).min(at[1])
}

fn normal(at: Vector) -> Vector {
    let step = 0.002;
    let along = |axis: Vector| scene(add(at, axis)) - scene(sub(at, axis));
    normalize([along([step, 0.0, 0.0]), along([0.0, step, 0.0]), along([0.0, 0.0, step])])
}

fn shadow(start: Vector) -> f32 {
    let mut lit = 1.0f32;
    let mut along = 0.05f32;
    for _ in 0..48 {
        let free = balls(add(start, times(LIGHT, along)));
        lit = lit.min(10.0 * free / along);
        along += free.clamp(0.03, 0.4);
    }
    lit.clamp(0.0, 1.0)
}

fn wave(x: f32) -> f32 {
    (x - x.floor() - 0.5).abs() - 0.25
}

fn colour(at: Vector) -> Vector {
    if balls(at) < at[1] {
        return mix([0.85, 0.3, 0.15], [0.2, 0.45, 0.8], (at[0] * 0.4 + 0.5).clamp(0.0, 1.0));
    }
    let tile = (wave(at[0] * 0.5) * wave(at[2] * 0.5) * 64.0 + 0.5).clamp(0.0, 1.0);
    mix([0.25, 0.27, 0.3], [0.8, 0.78, 0.72], tile)
}

fn seen(direction: Vector) -> Vector {
    let sky = mix([0.75, 0.82, 0.9], [0.25, 0.45, 0.75], (direction[1] * 1.5).clamp(0.0, 1.0));
    let mut along = 0.0f32;
    for _ in 0..STEPS {
        let free = scene(add(EYE, times(direction, along)));
        along += free;
        if free < 0.0005 || along > FAR {
            break;
        }
    }
    if along > FAR {
        return sky;
    }
    let at = add(EYE, times(direction, along));
    let facing = normal(at);
    let light = dot(facing, LIGHT).max(0.0) * shadow(add(at, times(facing, 0.01)));
    let around = times([0.6, 0.75, 1.0], 0.3 + 0.2 * facing[1]);
    let lit = add(times([1.0, 0.95, 0.85], light), around);
    let lit = each(colour(at), lit, |colour, lit| colour * lit);
    let haze = (along * along / (FAR * FAR) * 2.0).clamp(0.0, 1.0);
    mix(lit, sky, haze)
}

/// A pixel: red, green, blue and opacity.
pub(super) fn pixel([column, row]: [u32; 2], [width, height]: [u32; 2]) -> [u8; 4] {
    let height = height as f32;
    let x = (column as f32 + 0.5 - 0.5 * width as f32) / height;
    let y = (0.5 * height - row as f32 - 0.5) / height;
    let linear = seen(normalize([x, y - 0.12, 1.0])).map(|part| part.clamp(0.0, 1.0));
    let [red, green, blue] = linear.map(|part| (part.sqrt() * 255.0 + 0.5) as u8);
    [red, green, blue, 255]
}
