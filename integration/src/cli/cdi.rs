// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bellhop cdi`.

use crate::container::cdi::Named;
use crate::container::{SOCKET_OF_SERVICE, cdi};
use bellhop_guest::output::{note, put, put_line};
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};

/// The arguments of `bellhop cdi`.
#[derive(Debug, Clone, Args)]
pub struct CdiArguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Subcommand)]
enum Command {
    /// Print the specification (CDI), or write it where container engines read it
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
    /// List the devices that container engines find by name, with their sockets
    List,
}

fn list() -> anyhow::Result<()> {
    let devices = cdi::list(&cdi::FOLDERS.map(Path::new))?;
    if devices.is_empty() {
        note(format_args!(
            "no Bellhop GPU has a name in {}; `bellhop cdi generate --output` gives it one",
            cdi::FOLDERS.join(" or ")
        ));
    }
    for Named { name, socket, is_there, file } in devices {
        let state = if is_there { "" } else { "  (no socket there: start its bellhopd)" };
        put_line(format_args!("{name}\n    socket  {}{state}", socket.display()))?;
        put_line(format_args!("    named in {}", file.display()))?;
    }
    Ok(())
}

impl CdiArguments {
    /// Runs the command.
    ///
    /// # Errors
    /// When the specification cannot be written.
    pub fn run(self) -> anyhow::Result<()> {
        let (socket_path, output) = match self.command {
            Command::Generate { socket_path, output } => (socket_path, output),
            Command::List => return list(),
        };
        let specification = cdi::specification(&socket_path)?;
        match output {
            Some(path) => cdi::write(&path, &specification)?,
            None => put(specification)?,
        }
        Ok(())
    }
}
