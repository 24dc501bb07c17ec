// SPDX-License-Identifier: MIT OR Apache-2.0

//! The checks of `cargo xtask check` beyond those of cargo's own tools.

pub mod deny;
pub mod documents;
pub mod orderings;
pub mod rooms;
pub mod sleeps;
mod sources;
pub mod spdx;
pub mod waits;
