// SPDX-License-Identifier: MIT OR Apache-2.0

//! Progress bars for what takes a while.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;

/// A bar on standard error that goes when it is dropped; where there is no terminal, one line
/// that says what begins.
#[must_use]
pub fn bar(length: u64, what: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        bellhop_guest::output::note(format_args!("bellhop: {what}"));
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg} {wide_bar} {percent:>3} %");
    let bar = ProgressBar::new(length).with_message(what.to_owned());
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_finish(indicatif::ProgressFinish::AndClear)
}
