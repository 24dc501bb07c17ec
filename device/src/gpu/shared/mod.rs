// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the engines and the control plane share.

pub mod account;
pub mod busy;
pub mod chain;
pub mod chip;
pub mod config;
pub mod event;
pub mod fence;
pub mod hw_queue;
pub mod interrupt;
pub mod nudge;
pub mod paging;
pub mod partition;
pub mod rank;
pub mod rotation;
pub mod statistics;
pub mod thread;
pub mod trace_log;
pub mod uses;
pub mod wake;
pub mod watching;
