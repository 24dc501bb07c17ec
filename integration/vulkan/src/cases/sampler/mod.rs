// SPDX-License-Identifier: MIT OR Apache-2.0

//! Images that shaders sample.

mod address;
mod apart;
mod binding;
mod format;
mod level;
mod model;
mod newer;
mod order;
mod probe;
mod scene;
mod shape;
mod way;

use crate::case::Case;

pub(super) const CASES: &[&[Case]] = &[
    address::CASES,
    level::CASES,
    way::CASES,
    order::CASES,
    format::CASES,
    shape::CASES,
    binding::CASES,
    newer::CASES,
];
