// SPDX-License-Identifier: MIT OR Apache-2.0

//! Pictures, drawn and looked at.

use super::super::{Buffer, Failure, Gpu, Lab, Outcome, require};
use super::{Corner, Plan, Rendering, SIZE};

impl Gpu<'_> {
    /// A buffer with corners.
    pub(crate) fn corners(&self, corners: &[Corner]) -> Outcome<Buffer<'_>> {
        let words: Vec<_> = corners.as_flattened().iter().map(|number| number.to_bits()).collect();
        self.buffer_of(&words)
    }
}

/// Draws corners in a rendering.
pub(crate) fn sketch_on(
    gpu: &Gpu<'_>,
    rendering: &Rendering,
    plan: &Plan<'_>,
    corners: &[Corner],
) -> Outcome {
    let (brush, vertices) = (gpu.drawer(plan)?, gpu.corners(corners)?);
    gpu.run(|commands| {
        commands.begin(rendering).brush(&brush).vertices(&vertices);
        commands.draw(corners.len() as u32).end();
    })
}

/// Draws corners on a new canvas that was blank. Returns what it holds then.
pub(crate) fn sketch(gpu: &Gpu<'_>, plan: &Plan<'_>, corners: &[Corner]) -> Outcome<Vec<u32>> {
    let canvas = gpu.colours()?;
    sketch_on(gpu, &Rendering::blank(canvas), plan, corners)?;
    gpu.words(canvas)
}

/// Draws corners with a plan that differs in something from the plain one, on a new canvas that was blank.
pub(crate) fn drawn(
    lab: &Lab,
    differ: impl FnOnce(&mut Plan<'_>),
    corners: &[Corner],
) -> Outcome<Vec<u32>> {
    let gpu = lab.graphics()?;
    let mut plan = Plan::plain()?;
    differ(&mut plan);
    sketch(&gpu, &plan, corners)
}

/// Requires that a canvas has the right colour at each place, which is that of a texel's centre.
pub(crate) fn pictured(seen: &[u32], right: impl Fn(f32, f32) -> u32) -> Outcome {
    pictured_nearly(seen, 0, right)
}

/// The same, but for so much in each byte.
pub(crate) fn pictured_nearly(seen: &[u32], off: u8, right: impl Fn(f32, f32) -> u32) -> Outcome {
    require!(seen.len() == (SIZE * SIZE) as usize, "there are {} texels", seen.len());
    let place = |index: u32| [index % SIZE, index / SIZE];
    let right_at = |index: u32| {
        let [x, y] = place(index).map(|texel| texel as f32 + 0.5);
        right(x, y)
    };
    let is_wrong = |(index, seen): &(u32, &u32)| !are_near(**seen, right_at(*index), off);
    let mut wrong = (0..).zip(seen).filter(is_wrong);
    let Some((index, seen)) = wrong.next() else { return Ok(()) };
    Err(Failure::seen(format!(
        "texel {:?} is {seen:08x}, not {:08x}, and {} more are wrong",
        place(index),
        right_at(index),
        wrong.count()
    )))
}

/// Whether two colours are the same but for so much in each byte.
fn are_near(one: u32, other: u32, off: u8) -> bool {
    one.to_le_bytes().into_iter().zip(other.to_le_bytes()).all(|(a, b)| a.abs_diff(b) <= off)
}

/// Whether a place is in a rectangle.
pub(crate) fn is_in(x: f32, y: f32, [left, top, right, bottom]: [f32; 4]) -> bool {
    (left..right).contains(&x) && (top..bottom).contains(&y)
}

/// A colour in a rectangle, and another around it.
pub(crate) fn boxed(area: [f32; 4], inside: u32, outside: u32) -> impl Fn(f32, f32) -> u32 {
    move |x, y| if is_in(x, y, area) { inside } else { outside }
}
