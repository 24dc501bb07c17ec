// SPDX-License-Identifier: MIT OR Apache-2.0

//! Declaring sections of the daemon's configuration.

/// Declares a section, as [`bellhop_config::section!`]; in tests of this crate with a generator of arbitrary values.
macro_rules! section {
    ($($declaration:tt)*) => {
        bellhop_config::section! { $($declaration)* }

        #[cfg(test)]
        sampled! { $($declaration)* }
    };
}
