// SPDX-License-Identifier: MIT OR Apache-2.0

//! `fence.*`: fences.

pub(super) mod cpu;
pub(super) mod cross;
pub(super) mod log;
pub(super) mod monitored;
pub(super) mod native;
pub(super) mod rewind;
pub(super) mod sharing;
pub(super) mod types;
