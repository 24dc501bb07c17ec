// SPDX-License-Identifier: MIT OR Apache-2.0

//! What is wrong with a value.

use crate::place::KeyPath;

/// An invalid value of a key: one line, which says what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} is {value}; it must be {expected}")]
pub struct Fault {
    /// The key.
    pub key: KeyPath,
    /// Another key at fault, which the file may contain when it leaves `key` at its default.
    pub cause: Option<KeyPath>,
    /// Its value.
    pub value: String,
    /// The allowed values.
    pub expected: String,
}

impl Fault {
    /// A fault of one key.
    pub fn new(key: KeyPath, value: impl ToString, expected: impl Into<String>) -> Self {
        Self { key, cause: None, value: value.to_string(), expected: expected.into() }
    }
}
