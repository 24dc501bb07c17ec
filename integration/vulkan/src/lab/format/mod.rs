// SPDX-License-Identifier: MIT OR Apache-2.0

//! The formats that behaviours use: how large texels are, and how they store what shaders see.

mod block;
mod code;
mod stored;

pub(crate) use block::{Block, aspects, block};
pub(crate) use code::{Code, Kind, srgb};
pub(crate) use stored::STORED;
