//! Debian packages that some tests and `dist` use. Without them less is tested, and they say so.

use crate::command::{exists, run};
use std::process::Command;

/// A program, the package that has it, and who uses it.
struct Tool {
    program: &'static str,
    package: &'static str,
    used: &'static str,
}

const TOOLS: [Tool; 5] = [
    Tool { program: "systemd-analyze", package: "systemd", used: "tests of the service's units" },
    Tool { program: "systemd-sysusers", package: "systemd", used: "tests of the service's user" },
    Tool { program: "podman", package: "podman", used: "tests of containers" },
    Tool { program: "runc", package: "runc", used: "tests of containers" },
    Tool { program: "dpkg-shlibdeps", package: "dpkg-dev", used: "the Debian package" },
];

/// Installs what is missing, where that can be done without asking anybody.
///
/// # Errors
/// When apt-get fails. That it is not there, or may not be used, is no error.
pub fn install() -> Result<(), String> {
    let missing: Vec<&Tool> = TOOLS.iter().filter(|tool| !exists(tool.program)).collect();
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
    // The owner of a process's own entry is its effective user.
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}
