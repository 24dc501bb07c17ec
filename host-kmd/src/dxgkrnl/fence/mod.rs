// SPDX-License-Identifier: MIT OR Apache-2.0

//! Fences: values, slots, waits, logs, and the fences that several guests share.

pub(crate) mod cross;
pub(crate) mod features;
pub(crate) mod log;
pub(crate) mod pages;
pub(crate) mod scan;
pub(crate) mod signals;
pub(crate) mod state;
pub(crate) mod storage;
pub(crate) mod table;
pub(crate) mod waits;
