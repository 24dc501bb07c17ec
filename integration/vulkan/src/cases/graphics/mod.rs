// SPDX-License-Identifier: MIT OR Apache-2.0

//! Drawing: vertices and what is assembled of them, texels that they cover, what becomes of these, and where it is stored.

pub(super) mod attachment;
pub(super) mod blend;
mod condition;
pub(super) mod depth;
mod draw;
pub(super) mod fragment;
mod geometry;
mod indirect;
mod limit;
mod order;
pub(super) mod pass;
mod query;
pub(super) mod raster;
pub(super) mod samples;
mod taken;
mod tessellation;
mod transform;
pub(super) mod vertex;

use crate::case::Case;

pub(super) const CASES: &[&[Case]] = &[
    limit::CASES,
    draw::CASES,
    taken::CASES,
    indirect::CASES,
    geometry::CASES,
    tessellation::CASES,
    transform::CASES,
    condition::CASES,
    query::CASES,
    order::CASES,
];
