// SPDX-License-Identifier: MIT OR Apache-2.0

//! What is drawn on, in dynamic rendering: formats, what is loaded and stored, layers, and several at once.

mod format;
mod layer;
mod load;
mod rendering;

use crate::case::Case;

pub(in crate::cases) const CASES: &[&[Case]] =
    &[format::CASES, load::CASES, layer::CASES, rendering::CASES];
