// SPDX-License-Identifier: MIT OR Apache-2.0

//! What people do with a security node: seal a file, open it again, and ask for a statement.

mod on_files;
pub mod verify;

pub use on_files::{attest, key, open, seal};
