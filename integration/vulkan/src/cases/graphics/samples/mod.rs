// SPDX-License-Identifier: MIT OR Apache-2.0

//! Texels of several samples: which of them are covered, and how they become one; and images that are scaled.

mod blit;
mod coverage;
mod resolve;
mod scene;
mod shading;

use crate::case::Case;

pub(in crate::cases) const CASES: &[&[Case]] =
    &[coverage::COUNTS, coverage::CASES, shading::CASES, resolve::CASES, blit::CASES];
