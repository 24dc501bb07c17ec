// SPDX-License-Identifier: MIT OR Apache-2.0

//! Debian's systemd as a guest's first process: with the guest's agent as its only service, or with the services of a
//! host.

use super::archive::{Entries, Entry};
use super::libraries::Loader;
use crate::packages::unpacked::Unpacked;
use anyhow::ensure;
use bellhop_guest::cli::FOLDER;
use std::path::{Path, PathBuf};

/// The package.
pub const PACKAGE: &str = "systemd";
/// The folder of libraries that only its programs use.
const OWN_LIBRARIES: &str = "usr/lib/x86_64-linux-gnu/systemd";
/// The service manager, and what it starts services with.
const PROGRAMS: [&str; 2] = ["usr/lib/systemd/systemd", "usr/lib/systemd/systemd-executor"];
/// What services of a host are installed, looked at and stopped with.
const HOST_PROGRAMS: [&str; 3] =
    ["usr/bin/systemctl", "usr/bin/systemd-analyze", "usr/bin/systemd-sysusers"];
/// Makes the users that packages want.
const SYSUSERS: &str = "systemd-sysusers.service";
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
/// The service that does the task of a VM that stands for a host, and its program.
const TASK_SERVICE: &str = "task.service";
pub const TASK: &str = "do_task.sh";
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
        let mut files = self.with(&PROGRAMS, &TARGETS)?;
        files.extend([
            own(AGENT.into(), Entry::Text(AGENT_UNIT.into())),
            own(format!("{AGENT}.d/output.conf"), Entry::Text(AGENT_OUTPUT.into())),
            own(format!("multi-user.target.wants/{AGENT}"), Entry::Link(format!("../{AGENT}"))),
            (PROGRAM.into(), Entry::Link("/bin/bellhop-guest".into())),
            (HOOKS.into(), Entry::Link(FOLDER.into())),
        ]);
        Ok(files)
    }

    /// The files of a VM that stands for a host, with programs of this machine's at these paths. A service does its task.
    ///
    /// # Errors
    /// When the package lacks a file, or a program's libraries cannot be found.
    pub fn of_host(&self, programs: &[(String, PathBuf)]) -> anyhow::Result<Entries> {
        let programs_of_systemd = [&PROGRAMS[..], &HOST_PROGRAMS].concat();
        let mut files = self.with(&programs_of_systemd, &[&TARGETS[..], &[SYSUSERS]].concat())?;
        let service = format!(
            "[Service]\nExecStart=/bin/sh /{TASK}\n\
             [Unit]\nDescription=What this VM was started for\n"
        );
        files.extend([
            own(
                format!("sysinit.target.wants/{SYSUSERS}"),
                Entry::Link(format!("/{UNITS}/{SYSUSERS}")),
            ),
            own(TASK_SERVICE.into(), Entry::Text(service.into())),
            own(
                format!("multi-user.target.wants/{TASK_SERVICE}"),
                Entry::Link(format!("../{TASK_SERVICE}")),
            ),
            // Of a folder that every host has.
            ("var/tmp/.empty".into(), Entry::Text(Vec::new())),
        ]);
        for (path, program) in programs {
            let mut libraries = self.loader().libraries(program)?;
            if libraries.is_empty() {
                // It was built with a newer C library than Debian's, with which Debian's programs run too.
                libraries = Loader::of_machine().libraries(program)?;
            }
            files.extend(libraries);
            files.insert(path.clone(), Entry::Program(program.clone()));
        }
        Ok(files)
    }

    /// Programs of the package with their libraries, and units, for a start that leads to several users.
    fn with(&self, programs: &[&str], units: &[&str]) -> anyhow::Result<Entries> {
        let mut files = Entries::new();
        for path in programs {
            files.extend(self.loader().libraries(&self.file(path)?)?);
            files.insert((*path).into(), Entry::Program(self.file(path)?));
        }
        for name in units {
            let path = format!("{UNITS}/{name}");
            files.insert(path.clone(), Entry::File(self.file(&path)?));
        }
        files.extend([
            own("default.target".into(), Entry::Link(format!("/{UNITS}/multi-user.target"))),
            // Without it, systemd takes the guest for the first stage of a start.
            (
                "etc/os-release".into(),
                Entry::Text("ID=bellhop\nPRETTY_NAME=\"Bellhop guest\"\n".into()),
            ),
        ]);
        Ok(files)
    }

    fn loader(&self) -> Loader {
        Loader::of_packages(&self.packages, OWN_LIBRARIES)
    }

    fn file(&self, path: &str) -> anyhow::Result<PathBuf> {
        let file = self.packages.path(path);
        ensure!(file.is_file(), "Debian's {PACKAGE} has no {path}; try --refresh");
        Ok(file)
    }
}

/// A unit of the machine's administrator.
fn own(name: String, entry: Entry) -> (String, Entry) {
    (format!("{OWN_UNITS}/{name}"), entry)
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
