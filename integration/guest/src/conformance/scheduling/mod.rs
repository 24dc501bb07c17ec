// SPDX-License-Identifier: MIT OR Apache-2.0

//! `context.*`, `sched.*` and `tdr.*`: turns on an engine, suspension, and time-outs.

pub(super) mod context;
pub(super) mod sched;
pub(super) mod tdr;
