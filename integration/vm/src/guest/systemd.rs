// SPDX-License-Identifier: MIT OR Apache-2.0

//! Debian's systemd as a guest's first process: with services of a guest, or with those of a host.

use super::archive::{Entries, Entry};
use super::libraries::Loader;
use super::users::{GROUP, PASSWD};
use super::{portable, program};
use crate::packages::unpacked::Unpacked;
use crate::task::{Service, Task, User};
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
/// The services as they are shipped.
const AGENT: Unit = Unit {
    name: "bellhop-agent.service",
    text: include_str!("../../../guest/dist/bellhop-agent.service"),
};
const BROKER: Unit = Unit {
    name: "bellhop-broker.service",
    text: include_str!("../../../guest/dist/bellhop-broker.service"),
};
/// Where this VM differs from a machine with a journal: what services say leaves it by serial ports.
const OUTPUT: &str = "[Service]\nStandardOutput=file:/dev/ttyS1\nStandardError=file:/dev/ttyS2\n";
/// The lines of the service of a task of the guest's own program.
const OF_GUEST: &str = "Environment=PATH=/bin HOME=/tmp\nExecStart=/bin/sh /task\n";
/// Says how a task ended, and ends the VM. Its service is another one, because a task may have a root of its own. systemd tells a
/// service how the one before it ended only if one dependency leads to it: hence a service for each end.
const END_TASK: &str = "end_task.sh";
const END_SERVICE: &str = "end@.service";
/// The folder of the agent's hooks in the unit.
const HOOKS: &str = "etc/bellhop/hooks.d";
/// The agent's configuration.
const CONFIGURATION: &str = "etc/bellhop/agent.toml";
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

    /// The files of a guest that starts it, and these services by it, as they are shipped. The agent's hooks are the files that
    /// the guest carries. After them comes the task of a user, if there is one.
    ///
    /// # Errors
    /// When the package lacks a file, or its programs' libraries cannot be found.
    pub fn files(&self, services: &[Service], task: &Task, user: User) -> anyhow::Result<Entries> {
        let mut files = self.with(&PROGRAMS, &TARGETS)?;
        files.extend([
            (PROGRAM.into(), Entry::Link("/bin/bellhop-guest".into())),
            (HOOKS.into(), Entry::Link(FOLDER.into())),
            // The guest carries it, or has none.
            (CONFIGURATION.into(), Entry::Link(format!("{FOLDER}/agent.toml"))),
            ("etc/passwd".into(), Entry::Text(PASSWD.into())),
            ("etc/group".into(), Entry::Text(GROUP.into())),
        ]);
        for service in services {
            files.extend(match service {
                Service::Agent => AGENT.files().into(),
                Service::Broker => BROKER.files().into(),
                Service::Portable => portable::files(self)?,
            });
        }
        let lines = match task {
            Task::Run(_) => Some(OF_GUEST),
            Task::Program(_) => Some(program::SERVICE),
            Task::Shell | Task::Serve => None,
        };
        if let Some(lines) = lines {
            let end = format!("[Service]\nEnvironment=PATH=/bin\nExecStart=/bin/sh /{END_TASK}\n");
            files.extend(wanted(TASK_SERVICE, task_of(user, lines)));
            files.extend([
                own(END_SERVICE.into(), Entry::Text(end.into())),
                (END_TASK.into(), Entry::Text(include_bytes!("end_task.sh").into())),
            ]);
        }
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
        files.extend(wanted(TASK_SERVICE, service));
        files.extend([
            own(
                format!("sysinit.target.wants/{SYSUSERS}"),
                Entry::Link(format!("/{UNITS}/{SYSUSERS}")),
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

    /// Programs of the packages with their libraries, and units.
    ///
    /// # Errors
    /// When a package lacks a file, or a program's libraries cannot be found.
    pub fn parts(&self, programs: &[&str], units: &[&str]) -> anyhow::Result<Entries> {
        let mut files = Entries::new();
        for path in programs {
            files.extend(self.loader().libraries(&self.file(path)?)?);
            files.insert((*path).into(), Entry::Program(self.file(path)?));
        }
        for name in units {
            let path = format!("{UNITS}/{name}");
            files.insert(path.clone(), Entry::File(self.file(&path)?));
        }
        Ok(files)
    }

    /// These, for a start that leads to several users.
    fn with(&self, programs: &[&str], units: &[&str]) -> anyhow::Result<Entries> {
        let mut files = self.parts(programs, units)?;
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

    /// A file of a package.
    ///
    /// # Errors
    /// When it is not there.
    pub fn file(&self, path: &str) -> anyhow::Result<PathBuf> {
        let file = self.packages.path(path);
        ensure!(file.is_file(), "Debian's {PACKAGE} has no {path}; try --refresh");
        Ok(file)
    }
}

/// A service that is shipped with the guest's program.
struct Unit {
    name: &'static str,
    text: &'static str,
}

impl Unit {
    /// The files of a guest that starts it at boot.
    fn files(&self) -> [(String, Entry); 3] {
        let [unit, link] = wanted(self.name, self.text.into());
        [unit, link, own(format!("{}.d/output.conf", self.name), Entry::Text(OUTPUT.into()))]
    }
}

/// The task of a user, as a service with these lines.
fn task_of(user: User, lines: &str) -> String {
    let name = match user {
        User::User => "user",
        User::Root => "root",
    };
    format!(
        "[Unit]\nDescription=What this VM was started for\n\
         After=bellhop-broker.service bellhop-agent.service\n\
         OnSuccess=end@success.service\nOnFailure=end@failure.service\n\
         [Service]\nType=oneshot\nUser={name}\nSupplementaryGroups=bellhop\n\
         StandardInput=null\nStandardOutput=file:/dev/ttyS1\nStandardError=file:/dev/ttyS2\n\
         {lines}"
    )
}

/// A unit that starts at boot.
pub fn wanted(name: &str, text: String) -> [(String, Entry); 2] {
    [
        own(name.into(), Entry::Text(text.into())),
        own(format!("multi-user.target.wants/{name}"), Entry::Link(format!("../{name}"))),
    ]
}

/// A unit of the machine's administrator.
pub fn own(name: String, entry: Entry) -> (String, Entry) {
    (format!("{OWN_UNITS}/{name}"), entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_units_start_the_program_and_the_hooks_that_the_guest_has() {
        let lines = [
            (AGENT, format!("ExecStart=/{PROGRAM} agent --hooks /{HOOKS}\n")),
            (BROKER, format!("ExecStart=/{PROGRAM} broker\n")),
        ];
        for (Unit { text, .. }, line) in lines {
            assert!(text.contains(&line), "{text}");
        }
    }

    #[test]
    fn a_package_without_a_service_manager_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let systemd = Systemd::unpacked(root.path());
        let files = systemd.files(&[Service::Agent], &Task::Serve, User::User);
        let error = files.unwrap_err().to_string();
        assert!(error.contains(PROGRAMS[0]) && error.contains("--refresh"), "{error}");
    }
}
