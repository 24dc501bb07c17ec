// SPDX-License-Identifier: MIT OR Apache-2.0

#![no_main]
//! See [`bellhop_fuzz::secrets`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| bellhop_fuzz::secrets(data));
