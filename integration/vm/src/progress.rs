// SPDX-License-Identifier: MIT OR Apache-2.0

//! Progress bars for long steps.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;

/// A bar on standard error that disappears when it is dropped; without a terminal, one line that names the step.
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
