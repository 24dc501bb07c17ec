// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests' agents: what they are asked for, and by whom.

pub(crate) mod state;
