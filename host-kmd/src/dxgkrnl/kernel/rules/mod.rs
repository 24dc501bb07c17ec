// SPDX-License-Identifier: MIT OR Apache-2.0

//! One file for each rule that spans several subsystems.

mod agent;
mod compilation;
pub(crate) mod connect;
mod consent;
mod contexts;
mod display;
mod fence_log;
mod fence_signals;
mod gpu_power;
pub(crate) mod migration;
mod paging;
mod power;
mod queue_loss;
mod recovery;
mod release;
mod retirement;
mod software_queue;
mod submission;
mod termination;
