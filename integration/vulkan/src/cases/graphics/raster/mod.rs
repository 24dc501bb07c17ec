// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which texels primitives cover, and what is left out before ("Primitive Topologies", "Fixed-Function Vertex Post-Processing",
//! "Rasterization").

mod bias;
mod clip;
mod cover;
mod cull;
mod depths;
mod line;
mod provoking;
mod topology;
mod viewport;

use crate::case::Case;

pub(in crate::cases) const CASES: &[&[Case]] = &[
    topology::CASES,
    provoking::CASES,
    cover::CASES,
    cull::FACES,
    cull::CASES,
    viewport::CASES,
    line::CASES,
    bias::CASES,
    clip::CASES,
    depths::CASES,
];
