// SPDX-License-Identifier: MIT OR Apache-2.0

//! The doorbells and their states.

pub(crate) mod connect;
pub(crate) mod object;
pub(crate) mod state;
pub(crate) mod table;
