// SPDX-License-Identifier: MIT OR Apache-2.0

//! Contexts: what executes on one node, one model of submission in each file.

pub(crate) mod basic;
pub(crate) mod basic_plus_plus;
pub(crate) mod hardware;
pub(crate) mod node;
pub(crate) mod virtual_addressing;
