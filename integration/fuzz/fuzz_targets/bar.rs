#![no_main]
//! See [`bellhop_fuzz::bar`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| bellhop_fuzz::bar(data));
