// SPDX-License-Identifier: MIT OR Apache-2.0

//! Terminations and recoveries as state machines: TDR, terminations, retirements.

pub(crate) mod retirement;
pub(crate) mod tdr;
pub(crate) mod termination;
