// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packages of Debian: fetched, kept, unpacked, used from where they are.

pub mod cache;
pub mod debian;
pub mod unpacked;
