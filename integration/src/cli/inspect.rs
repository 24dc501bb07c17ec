// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bellhop inspect`.

use crate::inspect::{CONTROL_SOCKET, ControlClient};
use bellhop_guest::inspect::{self, Selection, ViewArguments};
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Clone, Args)]
pub(super) struct InspectArguments {
    /// The control socket of the bellhopd
    #[arg(long, value_name = "PATH", default_value = CONTROL_SOCKET)]
    socket: PathBuf,
    #[command(flatten)]
    only: Selection,
    #[command(flatten)]
    view: ViewArguments,
}

impl InspectArguments {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let mut client = ControlClient::connect(&self.socket)?;
        inspect::show(&mut client, self.only, &self.view)
    }
}
