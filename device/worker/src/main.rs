// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bellhop-worker`: Vulkan in a separate process, so that a faulty driver ends nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    bellhop_worker::cli::main(std::env::args_os())
}
