// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bellhopd`: serves virtual GPUs over vhost-user.

use bellhop_device::service::{Worker, cli};
use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main(std::env::args_os(), Worker::Installed)
}
