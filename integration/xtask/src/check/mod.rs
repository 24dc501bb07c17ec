// SPDX-License-Identifier: MIT OR Apache-2.0

//! What `cargo xtask check` asks of the sources, beyond what cargo's own tools do.

pub mod deny;
pub mod orderings;
pub mod rooms;
pub mod spdx;
