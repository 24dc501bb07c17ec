// SPDX-License-Identifier: MIT OR Apache-2.0

//! Depths and stencils of texels ("Depth Bounds Test", "Stencil Test", "Depth Test").

mod bounds;
mod compare;
mod export;
mod format;
mod image;
mod stencil;
mod stencil_state;

use crate::case::Case;

pub(in crate::cases) const CASES: &[&[Case]] = &[
    compare::COMPARED,
    compare::CASES,
    format::CASES,
    bounds::CASES,
    image::CASES,
    stencil::COMPARED,
    stencil::OPERATIONS,
    stencil_state::CASES,
    export::CASES,
];
