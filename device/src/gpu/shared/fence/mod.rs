// SPDX-License-Identifier: MIT OR Apache-2.0

//! Fences: which packets may name which, who waits for them, and what is logged of them.

pub mod handle;
pub mod logs;
pub mod table;
