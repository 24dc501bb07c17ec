// SPDX-License-Identifier: MIT OR Apache-2.0

//! `attack`: a hostile program.

use super::ending::Ending;
use crate::hostile::programs::Campaign;
use crate::output::{put, put_line};
use clap::Args;
use std::path::Path;
use std::time::Duration;

/// How the guest's broker is attacked.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Run other programs of the guest's at the same time: their results tell what an attack did to them.

Examples:
  attack --seconds 60
  attack memory --seed 7 --json")]
pub(super) struct AttackArguments {
    /// Try only attacks with this in their names
    filter: Option<String>,
    /// For how long
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Where the random choices begin; another one in each run by default
    #[arg(long)]
    seed: Option<u64>,
    /// Programs that the broker serves at once of this user
    #[arg(long, value_name = "COUNT", default_value_t = 8,
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    places: u16,
    /// Processes on the device that the broker lets a program have
    #[arg(long, value_name = "COUNT", default_value_t = 16,
          value_parser = clap::value_parser!(u16).range(1..=4096))]
    processes: u16,
    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
}

impl AttackArguments {
    /// Attacks the broker of a socket.
    pub(super) fn attack(&self, broker: &Path) -> anyhow::Result<Ending> {
        let campaign = Campaign {
            socket: broker.to_owned(),
            places: self.places.into(),
            processes: self.processes.into(),
            filter: self.filter.clone(),
            seed: self.seed.unwrap_or_else(|| std::process::id().into()),
            time: Duration::from_secs(self.seconds),
        };
        let report = campaign.run()?;
        if self.json {
            put_line(serde_json::to_string(&report)?)?;
        } else {
            put(&report)?;
        }
        Ok(Ending::of(report.got_nowhere()))
    }
}
