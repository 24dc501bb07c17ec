// SPDX-License-Identifier: MIT OR Apache-2.0

//! Finds or builds the static `bellhop-guest` for VMs and containers.

use anyhow::{Context, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The build target; naming one also keeps its flags from build scripts.
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// What to do without cargo.
const ADVICE: &str = "name a static bellhop-guest with --guest-binary";
/// The variable that names the program to all commands that put one into a guest.
pub const VARIABLE: &str = "BELLHOP_GUEST_BINARY";
/// Flags of a static program: a guest need not have a C library.
const FLAGS: &str = "-C target-feature=+crt-static";

/// Finds the program: `explicit` if given, else the one that the variable `BELLHOP_GUEST_BINARY` names, else the one
/// installed beside this executable, else the one that cargo builds in this checkout.
///
/// # Errors
/// When there is none and none can be built.
pub fn find(explicit: Option<&Path>) -> anyhow::Result<PathBuf> {
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    if let Some(path) = explicit.map(Path::to_owned).or(named) {
        ensure!(path.is_file(), "there is no guest program at {}", path.display());
        return Ok(path);
    }
    let this = std::env::current_exe().context("cannot find bellhop's own executable")?;
    // Beside an installed bellhop, not among cargo's build results, where a program of this name needs libraries.
    let installed = [this.with_file_name("../lib/bellhop/bellhop-guest")];
    if let Some(path) = installed.into_iter().find(|path| path.is_file()) {
        return Ok(path);
    }
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    if !workspace.join("integration/guest").is_dir() {
        bail!(
            "cannot find bellhop-guest, the program for guests; install it beside bellhop in \
             ../lib/bellhop, or name it with --guest-binary"
        );
    }
    build(&workspace)
}

fn build(workspace: &Path) -> anyhow::Result<PathBuf> {
    // A separate folder, because the flags differ from the rest of the workspace's.
    let folder = workspace.join("target").join("guest");
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--locked", "--quiet", "--package", "bellhop-guest"])
        .args(["--profile", "guest", "--target", TARGET, "--target-dir"])
        .arg(&folder)
        .env("RUSTFLAGS", FLAGS)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .current_dir(workspace)
        .stdin(Stdio::null())
        // bellhop's report goes to standard output.
        .stdout(std::io::stderr())
        .status()
        .with_context(|| format!("cannot run cargo to build bellhop-guest; {ADVICE}"))?;
    ensure!(status.success(), "cargo could not build bellhop-guest ({status}); {ADVICE}");
    Ok(folder.join(TARGET).join("guest").join("bellhop-guest"))
}
