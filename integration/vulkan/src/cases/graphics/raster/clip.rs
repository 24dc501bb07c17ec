// SPDX-License-Identifier: MIT OR Apache-2.0

//! What is clipped beside depths ("Primitive Clipping").

use crate::case::{Case, case};
use crate::lab::{
    BLANK, Corner, GREEN, Lab, Outcome, Plan, RED, boxed, drawn, pictured, rectangle, sketch,
    whole_area,
};

pub(super) const CASES: &[Case] = &[
    case("raster.clip.behind", "what is behind the eye is left out", |lab| {
        let behind: Vec<Corner> = whole_area(RED)
            .into_iter()
            .map(|[x, y, z, w, r, g, b, a]| [-x, -y, z, -w, r, g, b, a])
            .collect();
        let all = [behind, rectangle([4.0, 4.0, 6.0, 6.0], GREEN)].concat();
        let seen = drawn(lab, |_| (), &all)?;
        pictured(&seen, boxed([4.0, 4.0, 6.0, 6.0], GREEN, BLANK))
    }),
    case(
        "raster.clip.through",
        "a triangle that goes on behind the eye is cut where it leaves the volume",
        through,
    ),
    case("raster.clip.distance", "what has a negative distance is cut away", |lab| {
        lab.needs("shaderClipDistance", lab.features().core.shader_clip_distance)?;
        distances(lab, "array<f32, 1>(place.x + 0.25)", |x, _| x > 6.0)
    }),
    case("raster.clip.distances", "what is cut away is what any distance says", |lab| {
        lab.needs("shaderClipDistance", lab.features().core.shader_clip_distance)?;
        distances(lab, "array<f32, 3>(place.x + 0.25, 0.5 - place.x, place.y)", |x, y| {
            x > 6.0 && x < 12.0 && y > 8.0
        })
    }),
    case(
        "raster.clip.all",
        "a triangle whose corners all have negative distances is not drawn",
        |lab| {
            lab.needs("shaderClipDistance", lab.features().core.shader_clip_distance)?;
            distances(lab, "array<f32, 1>(-0.5)", |_, _| false)
        },
    ),
];

/// A triangle of which one corner is behind the eye covers where all of its edges have a place on the same side, in coordinates
/// that are not divided.
fn through(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let corners = [[-0.9, 0.7, 1.0], [0.8, 0.6, 1.0], [0.2, 2.9, -1.0]];
    let given = corners.map(|[x, y, w]| [x, y, w * 0.5, w, 1.0, 0.0, 0.0, 1.0]);
    let seen = sketch(&gpu, &Plan::plain()?, &given)?;
    let cross =
        |[a, b, c]: [f32; 3], [d, e, f]: [f32; 3]| [b * f - c * e, c * d - a * f, a * e - b * d];
    let dot =
        |a: [f32; 3], b: [f32; 3]| a.iter().zip(b).map(|(one, other)| one * other).sum::<f32>();
    let edges = [0, 1, 2].map(|edge| cross(corners[(edge + 1) % 3], corners[(edge + 2) % 3]));
    let turned = dot(corners[0], edges[0]).signum();
    pictured(&seen, |x, y| {
        let place = [x / 8.0 - 1.0, y / 8.0 - 1.0, 1.0];
        if edges.iter().all(|edge| dot(*edge, place) * turned > 0.0) { RED } else { BLANK }
    })
}

fn distances(lab: &Lab, distances: &str, is_there: impl Fn(f32, f32) -> bool) -> Outcome {
    let gpu = lab.graphics()?;
    let count = distances.chars().nth(11).unwrap_or('1');
    let source = format!(
        "enable clip_distances;
        struct Seen {{ @builtin(position) place: vec4<f32>, @builtin(clip_distances) far: array<f32, {count}> }}
        @vertex fn vertex(@location(0) place: vec4<f32>) -> Seen {{ return Seen(place, {distances}); }}
        @fragment fn fragment() -> @location(0) vec4<f32> {{ return vec4(1.0, 0.0, 0.0, 1.0); }}"
    );
    let seen = sketch(&gpu, &Plan::of(&source)?, &whole_area(RED))?;
    pictured(&seen, |x, y| if is_there(x, y) { RED } else { BLANK })
}
