// SPDX-License-Identifier: MIT OR Apache-2.0

//! Doorbells: which there are, and what state each has.

pub(crate) mod connect;
pub(crate) mod object;
pub(crate) mod state;
pub(crate) mod table;
