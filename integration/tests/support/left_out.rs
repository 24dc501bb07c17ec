// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a test leaves out. A test cannot end otherwise than well or badly, and what one that ends well prints is not
//! shown; so `cargo xtask test` names a file for it, and tells at its end what is there.

use std::fs::OpenOptions;
use std::io::Write;

/// Tells what is not tested, why, and how to have it; a failure where everything must be tested.
pub fn skip(why: &str, loss: &str, how: &str) {
    let required = ["CI", "BELLHOP_REQUIRE_ALL"].map(std::env::var_os).iter().any(Option::is_some);
    assert!(!required, "{why}");
    eprintln!("skipped: {why}, so {loss}; to have it: {how}");
    let Some(file) = std::env::var_os("BELLHOP_LEFT_OUT") else { return };
    let thread = std::thread::current();
    let test = thread.name().unwrap_or_default();
    // One write each: many tests append to the file.
    let words = [test, loss, why, how].map(|words| words.replace(['\t', '\n'], " "));
    let line = words.join("\t") + "\n";
    let mut file = OpenOptions::new().create(true).append(true).open(file).unwrap();
    file.write_all(line.as_bytes()).unwrap();
}
