// SPDX-License-Identifier: MIT OR Apache-2.0

//! Render passes and framebuffers, what is drawn in secondary command buffers, and several views ("Render Pass").

mod framebuffer;
mod newer;
mod secondary;
mod simple;
mod subpass;
mod view;

use crate::case::Case;

pub(in crate::cases) const CASES: &[&[Case]] = &[
    simple::CASES,
    framebuffer::CASES,
    subpass::CASES,
    newer::CASES,
    secondary::CASES,
    view::CASES,
];
