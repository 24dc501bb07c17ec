// SPDX-License-Identifier: MIT OR Apache-2.0

//! `memory.*` and `paging.*`: allocations, and what moves them.

pub(super) mod fixed;
pub(super) mod paging;
pub(super) mod sharing;
pub(super) mod taken_away;
