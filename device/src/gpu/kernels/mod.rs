// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests' own kernels, which worker processes execute.

pub mod config;
