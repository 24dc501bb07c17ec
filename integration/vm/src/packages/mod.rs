// SPDX-License-Identifier: MIT OR Apache-2.0

//! Debian's packages: fetches, caches and unpacks them, and runs programs with their libraries.

pub mod alternatives;
pub mod cache;
pub mod debian;
pub mod programs;
pub mod unpacked;
