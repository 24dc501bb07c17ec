// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the commands with a configuration have in common.

use crate::output::put;
use anyhow::Context;
use bellhop_config::{Bounded, ConfigFile, Configuration, Unit};
use clap::Args;
use std::path::Path;

/// What is done with a configuration instead of the command's work.
#[derive(Debug, Clone, Copy, Args)]
pub struct ConfigurationArguments {
    /// Print the whole configuration as TOML, with the changes of this command line, and exit
    #[arg(long, conflicts_with = "check_config")]
    print_config: bool,
    /// Check the configuration and exit: with 0 if it can be used, else with 78
    #[arg(long)]
    check_config: bool,
}

impl ConfigurationArguments {
    /// Prints the configuration, if that is wanted. Returns whether there is nothing more to do.
    pub fn is_printed<C: Configuration>(self, file: &ConfigFile<C>) -> anyhow::Result<bool> {
        if self.print_config {
            put(file.to_toml()?)?;
        }
        Ok(self.print_config)
    }

    /// Whether there is nothing to do with a configuration that can be used.
    pub fn only_checks(self) -> bool {
        self.check_config
    }
}

/// Reads the configuration that is named, else the usual one, if it is there.
pub fn read<C: Configuration>(named: Option<&Path>, usual: &str) -> anyhow::Result<ConfigFile<C>> {
    let usual = Path::new(usual);
    let named = named.or_else(|| usual.exists().then_some(usual));
    Ok(named.map_or_else(|| Ok(ConfigFile::default()), ConfigFile::read)?)
}

/// Sets a key to what an option says.
pub fn set<U: Unit, const MIN: u64, const MAX: u64>(
    key: &mut Bounded<U, MIN, MAX>,
    option: &str,
    value: Option<u64>,
) -> anyhow::Result<()> {
    if let Some(value) = value {
        let expected = || format!("{option} is {value}; it must be {MIN} to {MAX}");
        *key = Bounded::new(value).with_context(expected)?;
    }
    Ok(())
}
