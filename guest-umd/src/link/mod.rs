// SPDX-License-Identifier: MIT OR Apache-2.0

//! What every object of the driver needs from its transport: requests, events, and the memory that driver and
//! device share.

pub(crate) mod agent_events;
pub(crate) mod areas;
pub(crate) mod display_events;
pub(crate) mod donation;
pub(crate) mod events;
pub(crate) mod placement;
pub(crate) mod session;
pub(crate) mod spread;
pub(crate) mod words;
