// SPDX-License-Identifier: MIT OR Apache-2.0

//! Python with packages of PyPI, in the target folder.

use super::{is_here, skip, text};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of a Python that has a package, given as `name==version`, and others after spaces; the first call makes it.
/// `None` if it cannot be made, and `loss` is not tested then.
pub fn python_with(package: &str, import: &str, loss: &str) -> Option<PathBuf> {
    if !is_here("python3", loss) {
        return None;
    }
    let name = package.split("==").next().unwrap_or(package);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let python = folder.join("bin/python");
    let run = |command: &mut Command| match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(text(&output.stderr)),
        Err(error) => Err(error.to_string()),
    };
    let has_it = || run(Command::new(&python).args(["-c", import]));
    let make = || {
        run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        run(Command::new(&python)
            .args(["-m", "pip", "install", "--quiet"])
            .args(package.split(' ')))
    };
    if let Err(error) = has_it().or_else(|_| make()) {
        let why = format!("python3 cannot be given the package {name}: {}", error.trim());
        skip(&why, loss, "let pip fetch it once, which needs a network and python3-venv");
        return None;
    }
    Some(folder)
}
