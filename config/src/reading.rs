// SPDX-License-Identifier: MIT OR Apache-2.0

//! Reads TOML into what [`section!`](crate::section) declares, and reports in one line what is wrong and where.

use crate::declare::{Kind, Setting};
use crate::fault::Fault;
use crate::place::{KeyPath, Position};
use serde::de::DeserializeOwned;

/// A flaw of a text and its place: one line, which says what to change.
#[derive(Debug, thiserror::Error)]
#[error("{position}: {why}")]
pub struct Flaw {
    /// The place in the text.
    pub position: Position,
    /// The flaw.
    pub why: Why,
}

/// The kinds of flaws.
#[derive(Debug, thiserror::Error)]
pub enum Why {
    /// A key has an invalid value.
    #[error(transparent)]
    Value(Box<Fault>),
    /// It is not TOML, or has a key that does not exist.
    #[error("{0}")]
    Text(String),
}

/// Reads a section from a text.
///
/// # Errors
/// See [`Why`].
pub fn read<T: DeserializeOwned + Setting>(text: &str) -> Result<T, Flaw> {
    toml::from_str(text).map_err(|error| {
        let span = error.span().unwrap_or_default();
        let position = Position::at(text, span.start);
        let line = text.lines().nth(position.line - 1).unwrap_or_default().trim();
        let why = match fault(text, span, T::KIND) {
            Some(fault) => Why::Value(Box::new(fault)),
            None => Why::Text(format!("{}, in {line:?}", error.message().replace('\n', "; "))),
        };
        Flaw { position, why }
    })
}

/// The fault of the value at `span`; `None` if any value of the right type is allowed.
fn fault(text: &str, span: std::ops::Range<usize>, keys: Kind) -> Option<Fault> {
    let key = KeyPath::containing(text, span.start)?;
    let Kind::Value { expected, .. } = keys.find(&key.names())? else { return None };
    let expected = Some(expected()).filter(|expected| !expected.is_empty())?;
    let value = text.get(span)?.lines().next().unwrap_or_default().to_owned();
    Some(Fault::new(key, value, expected))
}
