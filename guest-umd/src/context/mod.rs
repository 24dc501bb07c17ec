// SPDX-License-Identifier: MIT OR Apache-2.0

//! Contexts of one node, one model of submission per file.

pub(crate) mod basic;
pub(crate) mod basic_plus_plus;
pub(crate) mod hardware;
pub(crate) mod node;
pub(crate) mod virtual_addressing;
