// SPDX-License-Identifier: MIT OR Apache-2.0

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
#![cfg_attr(not(test), deny(clippy::string_slice, clippy::unchecked_time_subtraction))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

//! Configurations in TOML, of the daemon, of the guest's broker and of scenarios.
//!
//! A program declares each key once with [`section!`]: its name, description, type with unit and range, and default. From that
//! come the reader, errors that name line and key and say what is allowed, and the [`reference`](mod@reference) for people.

mod bounded;
mod declare;
mod fault;
mod file;
mod place;
mod reading;
pub mod reference;

pub use bounded::{Bounded, Bytes, Count, Kib, Mib, Micros, Millis, Secs, Unit, at};
pub use declare::{Key, Kind, Setting, choices, key_name};
pub use fault::Fault;
pub use file::{ConfigError, ConfigFile, Configuration};
pub use place::{KeyPath, Position};
pub use reading::{Flaw, Why, read};
