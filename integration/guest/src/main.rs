// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bellhop-guest`: what a guest does with its Bellhop GPU, as one static program.

use std::process::ExitCode;

fn main() -> ExitCode {
    bellhop_guest::cli::main(std::env::args_os(), None, &[])
}
