// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bellhop`: the main job, the conformance suite, and the other commands for a Bellhop GPU.

use std::process::ExitCode;

fn main() -> ExitCode {
    bellhop_integration::cli::main()
}
