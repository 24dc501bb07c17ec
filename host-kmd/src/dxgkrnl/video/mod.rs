// SPDX-License-Identifier: MIT OR Apache-2.0

//! Video sessions: what they are made from, and which exist.

pub(crate) mod session;
pub(crate) mod settings;
