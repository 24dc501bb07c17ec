// SPDX-License-Identifier: MIT OR Apache-2.0

//! One file for each rule that spans several subsystems.

pub(crate) mod agent;
mod compilation;
pub(crate) mod connect;
pub(crate) mod display;
pub(crate) mod fence_log;
pub(crate) mod fence_signals;
pub(crate) mod gpu_power;
pub(crate) mod migration;
pub(crate) mod paging;
pub(crate) mod power;
pub(crate) mod queue_loss;
pub(crate) mod recovery;
pub(crate) mod retirement;
pub(crate) mod software_queue;
pub(crate) mod submission;
pub(crate) mod termination;
