// SPDX-License-Identifier: MIT OR Apache-2.0

//! Doorbells: their models, and their pages.

mod dedicated;
mod global;
mod rotation;
