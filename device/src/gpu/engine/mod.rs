// SPDX-License-Identifier: MIT OR Apache-2.0

//! The data plane: one thread for each engine, from a doorbell to a fence.

mod aside;
pub mod command_processor;
pub mod doorbells;
pub mod executor;
pub mod fetch;
pub mod hints;
pub mod idleness;
pub mod index_queue;
pub mod main_loop;
pub mod others;
pub mod packets;
pub mod run_list;
pub mod sampling;
pub mod scans;
pub mod schedule;
pub mod turn_clock;
#[cfg(test)]
pub mod visits;
pub mod watches;
pub mod workers;
