// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests' agents: what they are asked for, and by whom.

pub(crate) mod consent;
pub(crate) mod leave;
pub(crate) mod state;
