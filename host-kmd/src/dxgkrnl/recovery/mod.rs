// SPDX-License-Identifier: MIT OR Apache-2.0

//! Terminations and recoveries as state machines: TDR, terminations, retirements, passed tickets.

pub(crate) mod quiesced;
pub(crate) mod retirement;
pub(crate) mod tdr;
pub(crate) mod termination;
