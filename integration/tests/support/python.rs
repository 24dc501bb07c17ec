// SPDX-License-Identifier: MIT OR Apache-2.0

//! Python with packages of PyPI, in the target folder.

use super::{is_here, skip, text};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of a Python that has a package, given as `name==version`, and others after spaces; the first call makes it.
/// `None` if it cannot be made, and `loss` is not tested then.
pub fn python_with(packages: &str, import: &str, loss: &str) -> Option<PathBuf> {
    let name = packages.split("==").next().unwrap_or(packages);
    made(name, import, loss, |python| install(python, packages))
}

/// The folder of a Python of this name that can import something; the first call makes it, and has `add` add to it.
pub fn made(
    name: &str,
    import: &str,
    loss: &str,
    add: impl FnOnce(&Path) -> Result<(), String>,
) -> Option<PathBuf> {
    if !is_here("python3", loss) {
        return None;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let python = folder.join("bin/python");
    let has_it = || run(Command::new(&python).args(["-c", import]));
    let make = || {
        run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        add(&python)
    };
    if let Err(error) = has_it().map(drop).or_else(|_| make()) {
        let why = format!("python3 cannot be given the package {name}: {}", error.trim());
        skip(&why, loss, "let pip fetch it once, which needs a network and python3-venv");
        return None;
    }
    Some(folder)
}

/// Installs packages, given as `name==version` between spaces.
pub fn install(python: &Path, packages: &str) -> Result<(), String> {
    let mut pip = Command::new(python);
    run(pip.args(["-m", "pip", "install", "--quiet"]).args(packages.split(' '))).map(drop)
}

/// The output of a command, or why it failed.
pub fn run(command: &mut Command) -> Result<String, String> {
    match command.output() {
        Ok(output) if output.status.success() => Ok(text(&output.stdout)),
        Ok(output) => Err(text(&output.stderr)),
        Err(error) => Err(error.to_string()),
    }
}
