// SPDX-License-Identifier: MIT OR Apache-2.0

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
#![cfg_attr(not(test), deny(clippy::string_slice, clippy::unchecked_time_subtraction))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests wait for what they test"))]

//! AV1, by crates in Rust: rav1d decodes and rav1e encodes, with as many threads as they are given, all started before the
//! first data, and without assembly unless the feature `assembly` is on.
//!
//! rav1d is a translation of dav1d, so its pictures equal dav1d's bit by bit, film grain included. Its interface is dav1d's
//! for C; [`Decoder`] makes it safe. Streams are those of guests: a decoder may panic or hang on one, so only a worker in
//! its sandbox has decoders of guests.

mod decoder;
mod encoder;
mod obu;
mod picture;

pub use decoder::{DecodeError, Decoder};
pub use encoder::{Encoded, Encoder, EncoderSettings, Rate, SettingsError};
pub use picture::{Layout, Picture};
pub use rayon::ThreadPoolBuildError;

use std::error::Error;

/// Makes the encoder's libraries run everything on so many threads, of which the calling one is the first. To be called before
/// the first encoder is made, by the thread that encodes; without it, a library starts a thread for each processor. The threads
/// have started when this returns, as those of [`Decoder::with_threads`]. Once there are some, it changes nothing.
///
/// # Errors
/// When Linux refuses a thread.
pub fn start_threads(threads: u32) -> Result<(), ThreadPoolBuildError> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.max(1) as usize);
    match pool.use_current_thread().build_global() {
        // Of Linux's errors alone it says which: the other one is that there are threads.
        Err(error) if error.source().is_some() => Err(error),
        _ => Ok(()),
    }
}
