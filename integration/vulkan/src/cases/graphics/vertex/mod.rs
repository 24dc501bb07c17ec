// SPDX-License-Identifier: MIT OR Apache-2.0

//! What vertices are read from: buffers, formats, and indices.

mod binding;
mod format;
mod index;
mod newer;

use crate::case::Case;

pub(in crate::cases) const CASES: &[&[Case]] =
    &[binding::CASES, format::CASES, format::PACKED, index::CASES, newer::CASES];
