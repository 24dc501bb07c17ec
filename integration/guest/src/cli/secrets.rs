// SPDX-License-Identifier: MIT OR Apache-2.0

//! The arguments of `seal`, `open` and `attest`.

use super::arguments::in_one_word;
use crate::guest::Guest;
use crate::output::{note, put, put_line};
use crate::secrets;
use crate::secrets::verify::{Expected, hex, of_hex, verify};
use crate::units;
use clap::Args;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file to seal.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct SealArguments {
    /// The file to seal
    #[arg(value_name = "FILE")]
    pub(super) input: PathBuf,
    /// The file for what is sealed; - for standard output
    #[arg(value_name = "OUT")]
    pub(super) output: PathBuf,
    /// Pass it through protected memory: it then opens into protected memory only, and never into a file
    #[arg(long)]
    protect: bool,
}

/// A file to open.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct OpenArguments {
    /// The file that was sealed
    #[arg(value_name = "FILE")]
    pub(super) input: PathBuf,
    /// The file for what it held; - for standard output. Without it, the file opens into protected memory, which shows
    /// that it is authentic
    #[arg(value_name = "OUT")]
    pub(super) output: Option<PathBuf>,
}

/// A statement to ask for, or to verify.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct AttestArguments {
    /// What shows that the statement is fresh: 64 hexadecimal digits, chosen by whoever it is for
    #[arg(long, value_name = "HEX", value_parser = of_hex, required_unless_present = "key")]
    nonce: Option<[u8; 32]>,
    /// The file for the statement; - for standard output
    #[arg(long = "out", value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Print the key that verifies the adapter's statements, and no statement
    #[arg(long, conflicts_with_all = ["nonce", "output", "verify"])]
    key: bool,
    /// Verify the statement in this file; needs no device
    #[arg(long, value_name = "FILE", requires = "public_key", conflicts_with = "output")]
    pub(super) verify: Option<PathBuf>,
    /// The key, known from elsewhere: 64 hexadecimal digits
    #[arg(long, value_name = "HEX", value_parser = of_hex, requires = "verify")]
    public_key: Option<[u8; 32]>,
    /// The guest that the statement must be about: the path of its socket, from the root on and without links
    #[arg(long, value_name = "PATH", requires = "verify")]
    guest: Option<String>,
    /// The adapter that the statement must be about: its name
    #[arg(long, value_name = "NAME", requires = "verify")]
    adapter: Option<String>,
}

const STANDARD_OUTPUT: &str = "-";

fn tell(text: &str, output: Option<&Path>) -> anyhow::Result<()> {
    if output == Some(Path::new(STANDARD_OUTPUT)) {
        note(text.trim_end());
        return Ok(());
    }
    Ok(put(text)?)
}

impl SealArguments {
    /// Seals.
    pub(super) fn run(&self, guest: Arc<dyn Guest>) -> anyhow::Result<()> {
        let bytes = secrets::seal(guest, &self.input, &self.output, self.protect)?;
        let text = format!("{} sealed\n", units::bytes(bytes as u64));
        tell(&text, Some(&self.output))
    }

    /// These arguments as a command line of `bellhop-guest`.
    #[must_use]
    pub fn to_command_line(&self) -> Vec<OsString> {
        let mut line: Vec<OsString> = vec!["seal".into()];
        line.extend(self.protect.then(|| "--protect".into()));
        line.extend(["--".into(), self.input.clone().into(), self.output.clone().into()]);
        line
    }
}

impl OpenArguments {
    /// Opens.
    pub(super) fn run(&self, guest: Arc<dyn Guest>) -> anyhow::Result<()> {
        let bytes = secrets::open(guest, &self.input, self.output.as_deref())?;
        let place = if self.output.is_none() { "authentic" } else { "opened" };
        tell(&format!("{} {place}\n", units::bytes(bytes as u64)), self.output.as_deref())
    }

    /// These arguments as a command line of `bellhop-guest`.
    #[must_use]
    pub fn to_command_line(&self) -> Vec<OsString> {
        let mut line: Vec<OsString> = vec!["open".into(), "--".into(), self.input.clone().into()];
        line.extend(self.output.clone().map(OsString::from));
        line
    }
}

impl AttestArguments {
    /// Asks for a statement, or for the key.
    pub(super) fn run(&self, guest: Arc<dyn Guest>) -> anyhow::Result<()> {
        match self.nonce {
            Some(nonce) => {
                let said = secrets::attest(guest, nonce, self.output.as_deref())?;
                tell(&said, self.output.as_deref())
            }
            None => Ok(put(secrets::key(guest)?)?),
        }
    }

    /// Verifies a statement, if that was asked for. Needs no device.
    ///
    /// # Errors
    /// When it is not as expected.
    pub fn verified(&self) -> anyhow::Result<bool> {
        let (Some(file), Some(public_key), Some(nonce)) =
            (&self.verify, self.public_key, self.nonce)
        else {
            return Ok(false);
        };
        let (guest, adapter) = (self.guest.clone(), self.adapter.clone());
        let said =
            verify(&Expected { statement: file.clone(), nonce, public_key, guest, adapter })?;
        put_line("the statement is signed, fresh and as expected")?;
        put(said)?;
        Ok(true)
    }

    /// These arguments as a command line of `bellhop-guest`.
    #[must_use]
    pub fn to_command_line(&self) -> Vec<OsString> {
        let mut line: Vec<OsString> = vec!["attest".into()];
        line.extend(self.nonce.map(|nonce| format!("--nonce={}", hex(&nonce)).into()));
        line.extend(self.output.as_deref().map(|file| in_one_word("--out", file)));
        line.extend(self.key.then(|| "--key".into()));
        line.extend(self.verify.as_deref().map(|file| in_one_word("--verify", file)));
        line.extend(self.public_key.map(|key| format!("--public-key={}", hex(&key)).into()));
        line.extend(self.guest.as_ref().map(|name| format!("--guest={name}").into()));
        line.extend(self.adapter.as_ref().map(|name| format!("--adapter={name}").into()));
        line
    }
}
