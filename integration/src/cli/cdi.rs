//! `bellhop cdi`.

use crate::container::{SOCKET_OF_SERVICE, cdi};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// What is done with devices' names.
#[derive(Debug, Clone, Args)]
pub struct CdiArguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Subcommand)]
enum Command {
    /// Print the specification (CDI), or write it where engines look
    #[command(after_help = "\
Examples:
  bellhop cdi generate --output /etc/cdi/bellhop.json
  podman run --device bellhop.local/gpu=0 localhost/bellhop-guest")]
    Generate {
        /// The socket of a device: the first is bellhop.local/gpu=0, the next is gpu=1, ...
        #[arg(long, value_name = "PATH", default_value = SOCKET_OF_SERVICE)]
        socket_path: Vec<PathBuf>,
        /// Write to this file; engines read /etc/cdi and /var/run/cdi
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

impl CdiArguments {
    /// Does it.
    ///
    /// # Errors
    /// When the specification cannot be written.
    pub fn run(self) -> anyhow::Result<()> {
        let Command::Generate { socket_path, output } = self.command;
        let specification = cdi::specification(&socket_path)?;
        match output {
            Some(path) => cdi::write(&path, &specification)?,
            None => print!("{specification}"),
        }
        Ok(())
    }
}
