// SPDX-License-Identifier: MIT OR Apache-2.0

//! Debian's systemd as a guest's first process, with the guest's agent as its only service.

use super::archive::{Entries, Entry};
use super::libraries::Loader;
use crate::packages::unpacked::Unpacked;
use anyhow::ensure;
use bellhop_guest::cli::FOLDER;
use std::path::Path;

/// The package.
pub const PACKAGE: &str = "systemd";
/// The folder of libraries that only its programs use.
const OWN_LIBRARIES: &str = "usr/lib/x86_64-linux-gnu/systemd";
/// The service manager, and what it starts services with.
const PROGRAMS: [&str; 2] = ["usr/lib/systemd/systemd", "usr/lib/systemd/systemd-executor"];
/// The folder of units in packages, and those that a start goes through.
const UNITS: &str = "usr/lib/systemd/system";
const TARGETS: [&str; 11] = [
    "basic.target",
    "local-fs-pre.target",
    "local-fs.target",
    "multi-user.target",
    "paths.target",
    "shutdown.target",
    "slices.target",
    "sockets.target",
    "swap.target",
    "sysinit.target",
    "timers.target",
];
/// The folder of units of a machine's administrator.
const OWN_UNITS: &str = "etc/systemd/system";
/// The service as it is shipped.
const AGENT: &str = "bellhop-agent.service";
const AGENT_UNIT: &str = include_str!("../../../guest/dist/bellhop-agent.service");
/// Where this VM differs from a machine with a journal: the service's output leaves it by serial ports.
const AGENT_OUTPUT: &str =
    "[Service]\nStandardOutput=file:/dev/ttyS1\nStandardError=file:/dev/ttyS2\n";
/// The folder of the agent's hooks in the unit.
const HOOKS: &str = "etc/bellhop/hooks.d";
/// The agent's program in the unit.
const PROGRAM: &str = "usr/bin/bellhop-guest";

/// systemd, unpacked with all that it needs.
#[derive(Debug)]
pub struct Systemd {
    packages: Unpacked,
}

impl Systemd {
    /// The one in a folder of unpacked packages.
    #[must_use]
    pub fn unpacked(root: &Path) -> Self {
        Self { packages: Unpacked::new(root) }
    }

    /// The files of a guest that starts it, and the agent by it. The hooks are the files that the guest carries.
    ///
    /// # Errors
    /// When the package lacks a file, or its programs' libraries cannot be found.
    pub fn files(&self) -> anyhow::Result<Entries> {
        let loader = Loader::of_packages(&self.packages, OWN_LIBRARIES);
        let mut files = Entries::new();
        for path in PROGRAMS {
            files.extend(loader.libraries(&self.file(path)?)?);
            files.insert(path.into(), Entry::Program(self.file(path)?));
        }
        for name in TARGETS {
            let path = format!("{UNITS}/{name}");
            files.insert(path.clone(), Entry::File(self.file(&path)?));
        }
        let own = |name: String, entry| (format!("{OWN_UNITS}/{name}"), entry);
        files.extend([
            own("default.target".into(), Entry::Link(format!("/{UNITS}/multi-user.target"))),
            own(AGENT.into(), Entry::Text(AGENT_UNIT.into())),
            own(format!("{AGENT}.d/output.conf"), Entry::Text(AGENT_OUTPUT.into())),
            own(format!("multi-user.target.wants/{AGENT}"), Entry::Link(format!("../{AGENT}"))),
            // Without it, systemd takes the guest for the first stage of a start.
            (
                "etc/os-release".into(),
                Entry::Text("ID=bellhop\nPRETTY_NAME=\"Bellhop guest\"\n".into()),
            ),
            (PROGRAM.into(), Entry::Link("/bin/bellhop-guest".into())),
            (HOOKS.into(), Entry::Link(FOLDER.into())),
        ]);
        Ok(files)
    }

    fn file(&self, path: &str) -> anyhow::Result<std::path::PathBuf> {
        let file = self.packages.path(path);
        ensure!(file.is_file(), "Debian's {PACKAGE} has no {path}; try --refresh");
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_unit_starts_the_program_and_the_hooks_that_the_guest_has() {
        let line = format!("ExecStart=/{PROGRAM} agent --hooks /{HOOKS}\n");
        assert!(AGENT_UNIT.contains(&line), "{AGENT_UNIT}");
    }

    #[test]
    fn a_package_without_a_service_manager_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let error = Systemd::unpacked(root.path()).files().unwrap_err().to_string();
        assert!(error.contains(PROGRAMS[0]) && error.contains("--refresh"), "{error}");
    }
}
