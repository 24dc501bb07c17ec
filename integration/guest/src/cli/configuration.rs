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

/// What the tests of these commands have in common.
#[cfg(test)]
pub mod testing {
    use clap::{Args, Command};
    use tempfile::NamedTempFile;

    /// The arguments of a command line, with a configuration file of this text.
    pub fn arguments<A: Args>(line: &[&str], text: &str) -> anyhow::Result<(A, NamedTempFile)> {
        let file = NamedTempFile::new()?;
        std::fs::write(file.path(), text)?;
        let words = ["command", "--config"].map(Into::into).into_iter();
        let words = words.chain([file.path().into()]).chain(line.iter().map(Into::into));
        let found =
            command::<A>().try_get_matches_from(words.collect::<Vec<std::ffi::OsString>>())?;
        Ok((A::from_arg_matches(&found)?, file))
    }

    fn command<A: Args>() -> Command {
        A::augment_args(Command::new("command"))
    }

    /// Asserts that the help of an argument ends with this default.
    #[track_caller]
    pub fn assert_default<A: Args>(name: &str, default: &str) {
        let command = command::<A>();
        let argument = command.get_arguments().find(|of| of.get_id() == name).unwrap();
        let help = argument.get_help().unwrap().to_string();
        assert!(help.ends_with(&format!("[default: {default}]")), "{name}: {help}");
    }
}
