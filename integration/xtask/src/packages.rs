// SPDX-License-Identifier: MIT OR Apache-2.0

//! Debian packages that some tests and `dist` use. Without its packages a test says so and checks less.

use crate::command::{exists, output, run};
use std::process::Command;

/// A program, the package with it, and its users.
struct Tool {
    program: &'static str,
    /// Arguments with which it must succeed, if its presence is not enough.
    arguments: &'static [&'static str],
    package: &'static str,
    used: &'static str,
}

const TOOLS: [Tool; 13] = [
    Tool::new("systemd-analyze", "systemd", "tests of the service's units"),
    Tool::new("systemd-sysusers", "systemd", "tests of the service's user"),
    Tool::new("dbus-daemon", "dbus-daemon", "tests of the guest's system bus"),
    Tool::new("make", "make", "tests of an independent driver"),
    Tool::new("cc", "gcc", "tests of an independent driver"),
    Tool::new("c++", "g++", "libFuzzer"),
    Tool::new("edid-decode", "edid-decode", "tests of EDIDs"),
    Tool::new("podman", "podman", "tests of containers"),
    Tool::new("runc", "runc", "tests of containers"),
    Tool::new("dpkg-shlibdeps", "dpkg-dev", "the Debian package"),
    Tool::new("Xvfb", "xvfb", "tests of programs in windows"),
    Tool::new("valgrind", "valgrind", "counts of instructions"),
    Tool {
        arguments: &["-c", "import ensurepip, venv"],
        ..Tool::new("python3", "python3-venv", "tests that read timelines back")
    },
];

impl Tool {
    const fn new(program: &'static str, package: &'static str, used: &'static str) -> Self {
        Self { program, arguments: &[], package, used }
    }

    fn is_here(&self) -> bool {
        exists(self.program)
            && (self.arguments.is_empty()
                || output(Command::new(self.program).args(self.arguments)).is_ok())
    }
}

/// Installs missing packages, if this runs as root on Debian.
///
/// # Errors
/// When apt-get fails. Its absence is no error.
pub fn install() -> Result<(), String> {
    let missing: Vec<&Tool> = TOOLS.iter().filter(|tool| !tool.is_here()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<_> = missing.iter().map(|tool| tool.package).collect();
    packages.dedup();
    if !exists("apt-get") || !is_root() {
        for tool in missing {
            println!("without {} ({}): no {}", tool.program, tool.package, tool.used);
        }
        println!("to have them: sudo apt-get install {}", packages.join(" "));
        return Ok(());
    }
    run(apt_get().arg("update"))?;
    run(apt_get().args(["install", "--yes", "--no-install-recommends"]).args(packages))
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.arg("--quiet=2").env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn is_root() -> bool {
    // A process's own entry belongs to its effective user.
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_there_but_lacks_a_part_is_missing() {
        let shell = Tool::new("sh", "dash", "nothing");
        assert!(shell.is_here());
        assert!(!Tool { arguments: &["-c", "exit 1"], ..shell }.is_here());
        assert!(!Tool::new("no-such-program", "none", "nothing").is_here());
    }
}
