// SPDX-License-Identifier: MIT OR Apache-2.0

//! The arguments of `broker`.

use crate::broker::{Limits, Options};
use bellhop_protocol::broker::USUAL_SOCKET;
use clap::Args;
use std::path::PathBuf;

/// The guest's broker.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Programs with the library bellhop-guest-umd find the usual socket by themselves; BELLHOP_BROKER names another.

Examples:
  bellhop-guest broker                                    in a VM, as root
  bellhop-guest --socket-path gpu.sock broker --listen broker.sock --mode 666
  BELLHOP_BROKER=broker.sock ./my-program")]
pub struct BrokerArguments {
    /// Where programs connect
    #[arg(long, value_name = "PATH", default_value = USUAL_SOCKET)]
    listen: PathBuf,
    /// The socket's mode, in octal: who may connect
    #[arg(long, value_name = "MODE", default_value = "660", value_parser = mode)]
    mode: u32,
    /// Programs at once
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().programs)]
    programs: usize,
    /// Programs of one user at once
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().programs_of_user)]
    programs_of_user: usize,
    /// Processes on the device of each program
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().processes)]
    processes: usize,
    /// Requests in flight of each program
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().requests as u32,
          value_parser = clap::value_parser!(u32).range(2..=16))]
    requests: u32,
    /// Memory of each program, in MiB
    #[arg(long, value_name = "MIB", default_value_t = Limits::default().memory >> 20,
          value_parser = clap::value_parser!(u64).range(1..=1024))]
    memory: u64,
    /// Doorbells of each program
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().doorbells,
          value_parser = clap::value_parser!(u32).range(1..=16_384))]
    doorbells: u32,
    /// Fences of each program, those of queues included
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().fences,
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    fences: u32,
}

fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).map_err(|error| error.to_string())?;
    if mode <= 0o777 { Ok(mode) } else { Err("a mode has three octal digits".into()) }
}

impl BrokerArguments {
    pub(super) fn options(&self) -> Options {
        let Self { programs, programs_of_user, processes, doorbells, fences, .. } = *self;
        let (memory, requests) = (self.memory << 20, self.requests as usize);
        let limits =
            Limits { programs, programs_of_user, processes, requests, memory, doorbells, fences };
        Options { socket: self.listen.clone(), mode: self.mode, limits, is_confined: true }
    }
}
