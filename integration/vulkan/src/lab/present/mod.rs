// SPDX-License-Identifier: MIT OR Apache-2.0

//! Surfaces and swap chains.

mod chain;
mod group;
pub(super) mod loaded;
mod monitor;

pub(crate) use chain::{Chain, SIDE};
