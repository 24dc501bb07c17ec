// SPDX-License-Identifier: MIT OR Apache-2.0

//! Drawing: vertices and what is assembled of them, texels that they cover, what becomes of these, and where it is stored.

pub(super) mod blend;
pub(super) mod depth;
mod draw;
pub(super) mod fragment;
mod indirect;
pub(super) mod raster;
pub(super) mod samples;
pub(super) mod target;
pub(super) mod vertex;

use crate::case::Case;

pub(super) const CASES: &[&[Case]] = &[draw::CASES, indirect::CASES];
