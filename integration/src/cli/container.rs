// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bellhop container`.

use super::vulkan::Whose;
use crate::container::{self, Options};
use crate::guest_binary;
use crate::hosted::Outcome;
use anyhow::Context;
use bellhop_guest::cli::{Carried, Delivery, Output};
use bellhop_guest::output::put_line;
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// The arguments of `bellhop container`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  bellhop container                           the main job, in a container
  bellhop container -- selftest               the conformance suite in a container
  bellhop container --vulkan debian-13 -- kernel my.wgsl --in a --out b
                                              your kernel on files of this machine
  bellhop container --vulkan debian-13 -- picture
                                              a picture that a kernel draws: picture.png
  bellhop container --memory 64m              a limit on memory, which covers what the guest maps
  bellhop container --image-only              the image, for your own containers
  bellhop container --print-command           the podman command, with the options that this host needs")]
pub struct ContainerArguments {
    /// The most memory that the container may use, such as 512m
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Use the bellhopd that listens on this socket instead of starting one
    #[arg(long, value_name = "PATH", conflicts_with = "config")]
    socket_path: Option<PathBuf>,
    /// The configuration file for the bellhopd that this starts
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Whose Vulkan runs kernels, in the bellhopd that this starts
    #[arg(long, value_enum, value_name = "WHOSE", default_value_t = Whose::System, conflicts_with = "socket_path")]
    vulkan: Whose,
    /// Put this file into the container's folder /files; may be given several times
    ///
    /// The files of `kernel` and `picture` need none of this: they go into the container, and come back, by themselves.
    #[arg(long, value_name = "PATH")]
    file: Vec<PathBuf>,
    /// The image's program, instead of the one that $BELLHOP_GUEST_BINARY names, or the bellhop-guest that belongs to
    /// this bellhop
    #[arg(long, value_name = "PATH")]
    guest_binary: Option<PathBuf>,
    /// Build the image in your own storage, print its name, and exit
    #[arg(long, conflicts_with_all = ["memory", "socket_path", "config", "vulkan", "file", "task"])]
    image_only: bool,
    /// Print the podman command that runs a container with the device, and exit
    ///
    /// Its device is the one at --socket-path, or the service's at /run/bellhop/gpu.sock.
    #[arg(long, conflicts_with_all = ["image_only", "guest_binary", "config", "vulkan"])]
    print_command: bool,
    /// What bellhop-guest does in the container
    #[arg(last = true, value_name = "GUEST-COMMAND", default_value = "run")]
    task: Vec<OsString>,
}

impl ContainerArguments {
    /// Runs the command.
    ///
    /// # Errors
    /// When podman fails, or the container does not complete its task.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let worker = self.vulkan.worker(None)?;
        let Carried { task, files, output } = Carried::new(&self.file, self.task)?;
        let mut options = Options {
            socket: self.socket_path,
            config: self.config,
            worker,
            memory: self.memory,
            task,
            files,
            output: None,
        };
        if self.print_command {
            let file = output.as_ref().map(|output| {
                output
                    .as_file()
                    .context("podman alone makes no folder of PNGs: ask for --y4m, and not --png")
            });
            put_line(container::command_line(options, file.transpose()?)?)?;
            return Ok(ExitCode::SUCCESS);
        }
        let program = guest_binary::find(self.guest_binary.as_deref())?;
        let output = output.as_ref().map(Output::create).transpose()?;
        options.output = output.as_ref().map(Delivery::handle).transpose()?;
        let outcome = if self.image_only {
            container::make_image(&program)?
        } else {
            container::run(options, &program)?
        };
        if let (Some(output), Outcome::Succeeded) = (output, outcome) {
            output.finish()?;
        }
        Ok(outcome.exit_code())
    }
}
