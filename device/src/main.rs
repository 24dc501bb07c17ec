// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bellhopd`: serves virtual GPUs over vhost-user.

use std::process::ExitCode;

fn main() -> ExitCode {
    bellhop_device::service::cli::main(std::env::args_os())
}
