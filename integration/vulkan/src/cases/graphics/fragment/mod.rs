// SPDX-License-Identifier: MIT OR Apache-2.0

//! What fragments see, and what they do beside giving colours.

mod built_in;
mod input;
mod store;
mod texture;

use crate::case::Case;

pub(in crate::cases) const CASES: &[&[Case]] =
    &[input::CASES, built_in::CASES, store::CASES, texture::CASES];
