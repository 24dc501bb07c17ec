// SPDX-License-Identifier: MIT OR Apache-2.0

//! Displays: who shows what on which target, and the flips that wait. The driver knows what is possible.

pub(crate) mod counts;
pub(crate) mod describe;
pub(crate) mod flip;
pub(crate) mod paths;
pub(crate) mod primary;
pub(crate) mod source;
pub(crate) mod state;
