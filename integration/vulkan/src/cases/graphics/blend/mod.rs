// SPDX-License-Identifier: MIT OR Apache-2.0

//! What becomes of a fragment's colour and what was there ("The Framebuffer").

mod factor;
mod logic;
mod model;
mod state;

use crate::case::Case;

pub(in crate::cases) const CASES: &[&[Case]] = &[
    factor::SOURCE,
    factor::DESTINATION,
    factor::ALPHA,
    factor::OPERATIONS,
    factor::TWO_SOURCES,
    state::CASES,
    logic::CASES,
];
