// SPDX-License-Identifier: MIT OR Apache-2.0

//! The worker of a security node: the process that has the keys.
//!
//! * `keys`: what is derived from the root key, and what is done with it: sealing, opening, attestation.
//! * `messages`: what it and its owner say to each other.
//! * `serve`: the process. It reads the root key from a descriptor, gives up everything but two, and obeys.
//! * [`owner`]: the owner's side, in the daemon.
//!
//! The process gets no memory of any guest. Its owner copies what is to be sealed or opened into a buffer that both have,
//! and what came of it out of there: so the process with the keys parses nothing but lengths and a header of fixed layout,
//! and one that is taken over has no guest's memory.

mod keys;
mod messages;
pub mod owner;
mod serve;

pub use keys::digest;
pub use messages::Identity;
pub use serve::serve;

use bellhop_protocol::security::{MAX_ASSOCIATED, MAX_SEALED, SEALED_OVERHEAD};

/// Bytes of the root key.
pub const ROOT_SIZE: usize = 32;
/// Where the data is in the buffer; the associated data is before it.
const DATA: usize = MAX_ASSOCIATED as usize;
/// Most bytes of data.
const MAX_DATA: usize = MAX_SEALED as usize + SEALED_OVERHEAD;
/// Bytes of the buffer.
const BUFFER: usize = DATA + MAX_DATA;
