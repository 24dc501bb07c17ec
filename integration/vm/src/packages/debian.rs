// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packages of a Debian release, on any machine, without touching its installed packages.
//!
//! apt-get works for any user when its state is in separate folders. It installs nothing here: it downloads
//! packages, which verifies them, and this unpacks them.

use crate::progress;
use anyhow::{Context, bail, ensure};
use command_fds::{CommandFdExt, FdMapping};
use std::cell::OnceCell;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Paths of Debian's keys, with which every package list is signed.
const KEYRINGS: [&str; 2] = [
    "/usr/share/keyrings/debian-archive-keyring.pgp",
    "/usr/share/keyrings/debian-archive-keyring.gpg",
];
/// The file in a folder of unpacked packages that lists their versions.
const VERSIONS: &str = "versions";

/// A release of Debian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// Debian 12.
    Old,
    /// Debian 13.
    Stable,
    /// Newer software for Debian 13.
    Backports,
}

impl Release {
    /// The releases with packages that can be combined with this release's.
    fn family(self) -> &'static [Self] {
        match self {
            Self::Old => &[Self::Old],
            Self::Stable | Self::Backports => &[Self::Stable, Self::Backports],
        }
    }

    fn suite(self) -> &'static str {
        match self {
            Self::Old => "bookworm",
            Self::Stable => "trixie",
            Self::Backports => "trixie-backports",
        }
    }
}

/// The packages to add to the named ones.
#[derive(Debug, Clone, Copy)]
pub enum Closure<'a> {
    /// Everything that they need to run.
    Runtime,
    /// Of their dependencies, direct and indirect, only packages with this prefix.
    Named(&'a str),
}

/// Debian's archive, as a machine without any installed package sees it.
pub struct Debian {
    folder: PathBuf,
    releases: &'static [Release],
    mirror: Option<String>,
    /// Set once the lists are fetched, before the first package.
    updated: OnceCell<()>,
}

impl Debian {
    /// The archive of `release` and its family. Keeps the package lists in `folder`. Without a `mirror`, uses this
    /// machine's own.
    #[must_use]
    pub fn new(folder: PathBuf, release: Release, mirror: Option<String>) -> Self {
        Self { folder, releases: release.family(), mirror, updated: OnceCell::new() }
    }

    /// Downloads packages and unpacks them into a folder, which is new or empty.
    ///
    /// # Errors
    /// When there is no apt, no network, or no such package.
    pub fn unpack(
        &self,
        release: Release,
        packages: &[&str],
        closure: Closure<'_>,
        into: &Path,
    ) -> anyhow::Result<()> {
        if self.updated.get().is_none() {
            self.update()?;
            let _ = self.updated.set(());
        }
        let downloads = tempfile::tempdir_in(&self.folder).context("cannot create a folder")?;
        // apt's folder for partial downloads.
        fs::create_dir(downloads.path().join("partial")).context("cannot create a folder")?;
        let mut command = self.apt("apt-get");
        command.args(["--yes", "--target-release", release.suite()]);
        match closure {
            Closure::Runtime => {
                let archives = format!("Dir::Cache::archives={}", downloads.path().display());
                command.args(["--option", &archives, "install", "--download-only"]);
                command.args(packages);
            }
            Closure::Named(prefix) => {
                let packages = named(packages, prefix, |name| self.dependencies(release, name))?;
                command.arg("download").args(packages).current_dir(downloads.path());
            }
        }
        let wanted = packages.join(" and ");
        download(command, &format!("fetching {wanted}"))?;

        let mut packages = Vec::new();
        for entry in fs::read_dir(downloads.path()).context("cannot list what was fetched")? {
            let path = entry.context("cannot list what was fetched")?.path();
            packages.extend(path.extension().is_some_and(|kind| kind == "deb").then_some(path));
        }
        ensure!(!packages.is_empty(), "apt-get fetched nothing for {wanted}");
        packages.sort();
        let bar = progress::bar(packages.len() as u64, &format!("unpacking {wanted}"));
        let mut versions = String::new();
        for path in &packages {
            let mut command = Command::new("dpkg-deb");
            run(command.arg("--extract").arg(path).arg(into))?;
            versions += &path.file_stem().unwrap_or_default().to_string_lossy();
            versions.push('\n');
            bar.inc(1);
        }
        fs::write(into.join(VERSIONS), versions).context("cannot write down the versions")
    }

    /// Sets apt's folders up and fetches the lists.
    fn update(&self) -> anyhow::Result<()> {
        let keyring = KEYRINGS.iter().find(|path| Path::new(path).is_file()).context(
            "this machine lacks Debian's keys, so it cannot verify packages; install the package \
             debian-archive-keyring",
        )?;
        let mirror = match &self.mirror {
            Some(mirror) => mirror.clone(),
            None => machine_mirror()?,
        };
        let cannot = || format!("cannot write to {}", self.folder.display());
        for folder in ["lists/partial", "archives/partial", "etc"] {
            fs::create_dir_all(self.folder.join(folder)).with_context(cannot)?;
        }
        let mut sources = String::new();
        for release in self.releases {
            let suite = release.suite();
            sources += &format!("deb [signed-by={keyring}] {mirror} {suite} main\n");
        }
        fs::write(self.folder.join("etc/sources.list"), sources).with_context(cannot)?;
        // An empty list: nothing is installed.
        fs::write(self.folder.join("status"), "").with_context(cannot)?;
        fs::write(self.configuration(), configuration(&self.folder)).with_context(cannot)?;
        let mut command = self.apt("apt-get");
        command.args(["--error-on=any", "update"]);
        download(command, "fetching Debian's package lists")
    }

    /// A package's dependencies, with alternatives.
    fn dependencies(&self, release: Release, package: &str) -> anyhow::Result<Vec<String>> {
        let mut command = self.apt("apt-cache");
        command.args(["--target-release", release.suite(), "depends", "--important", package]);
        Ok(depended_on(&output(&mut command)?))
    }

    fn configuration(&self) -> PathBuf {
        self.folder.join("apt.conf")
    }

    fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.arg("--config-file").arg(self.configuration());
        command
    }
}

/// apt's configuration, read after the machine's own, which knows the way to the network.
fn configuration(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "\
Dir::State \"{folder}\";
Dir::State::lists \"lists\";
Dir::State::status \"{folder}/status\";
Dir::Cache \"{folder}\";
Dir::Cache::archives \"archives\";
Dir::Etc \"{folder}/etc\";
Dir::Etc::sourcelist \"sources.list\";
Dir::Etc::sourceparts \"-\";
Dir::Etc::preferences \"-\";
Dir::Etc::preferencesparts \"-\";
#clear APT::Architectures;
APT::Architecture \"amd64\";
APT::Architectures \"amd64\";
APT::Install-Recommends \"false\";
APT::Install-Suggests \"false\";
// The folders belong to the user that runs this.
APT::Sandbox::User \"root\";
// bellhop has a lock of its own.
Debug::NoLocking \"true\";
// The machine's hooks are about its own packages.
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
"
    )
}

/// The mirror that this machine's own packages come from.
fn machine_mirror() -> anyhow::Result<String> {
    // apt prints the addresses that it would fetch without fetching any.
    let uris = output(Command::new("apt-get").args(["update", "--print-uris"]))?;
    debian_mirror(&uris).map(str::to_owned).context(
        "this machine's apt knows no mirror of Debian; name one with --mirror, such as the one \
         nearest to you on https://www.debian.org/mirror/list",
    )
}

/// The mirror among the files that apt would fetch: `'URI' FILE SIZE`.
fn debian_mirror(uris: &str) -> Option<&str> {
    uris.lines().find_map(|line| {
        let uri = line.strip_prefix('\'')?.split('\'').next()?;
        let (mirror, _) = uri.split_once("/dists/")?;
        // Every mirror has the archive in a folder of this name.
        mirror.trim_end_matches('/').ends_with("/debian").then_some(mirror)
    })
}

/// The packages that `apt-cache depends` names: indented, after a colon.
fn depended_on(printed: &str) -> Vec<String> {
    let names = printed.lines().filter_map(|line| {
        let (kind, name) = line.split_once(": ")?;
        let depends = kind.trim_start_matches([' ', '|']).ends_with("Depends");
        // A package that exists only by others providing it is in angle brackets.
        (depends && !name.starts_with('<')).then(|| name.to_owned())
    });
    names.collect()
}

/// Packages and their direct and indirect dependencies with names that begin with `prefix`.
fn named(
    packages: &[&str],
    prefix: &str,
    dependencies: impl Fn(&str) -> anyhow::Result<Vec<String>>,
) -> anyhow::Result<Vec<String>> {
    let mut packages: Vec<_> = packages.iter().map(|package| (*package).to_owned()).collect();
    let mut next = 0;
    while next < packages.len() {
        for name in dependencies(&packages[next])? {
            if name.starts_with(prefix) && !packages.contains(&name) {
                packages.push(name);
            }
        }
        next += 1;
    }
    Ok(packages)
}

/// Runs an apt that downloads, and shows its progress.
fn download(mut command: Command, what: &str) -> anyhow::Result<()> {
    let (status, sender) = std::io::pipe().context("cannot create a pipe")?;
    let mapping = FdMapping { parent_fd: sender.into(), child_fd: 3 };
    command.args(["--quiet=2", "--option", "APT::Status-Fd=3"]);
    command.fd_mappings(vec![mapping]).context("cannot pass a pipe on")?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let bar = progress::bar(100, what);
    let child = command.spawn().with_context(|| not_started(&command))?;
    let line = line(&command);
    // apt's end of the pipe must be the last.
    drop(command);
    for status in BufReader::new(status).lines() {
        let status = status.context("cannot read apt-get's progress")?;
        if let Some(percent) = percent(&status) {
            bar.set_position(percent);
        }
    }
    let output = child.wait_with_output().context("cannot wait for apt-get")?;
    if !output.status.success() {
        bail!("this failed: {line}\n{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// The percentage in a line of apt's status: `dlstatus:FILE:PERCENT:TEXT`.
fn percent(status: &str) -> Option<u64> {
    let percent: f64 = status.strip_prefix("dlstatus:")?.split(':').nth(1)?.parse().ok()?;
    Some(percent as u64)
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    output(command).map(drop)
}

fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| not_started(command))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("this failed: {}\n{}", line(command), said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn not_started(command: &Command) -> String {
    format!(
        "cannot start {}; VMs are made from Debian's packages, with its tools (packages apt and \
         dpkg). Elsewhere, attach the device to a VM of your own: see --print-command",
        command.get_program().to_string_lossy()
    )
}

fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_the_one_of_the_main_archive() {
        let uris = "\
'https://example.org/apt/dists/tools/InRelease' a 0
'http://mirror.example/debian-security/dists/bookworm-security/InRelease' b 0
'http://mirror.example/debian/dists/bookworm/InRelease' c 0
";
        assert_eq!(debian_mirror(uris), Some("http://mirror.example/debian"));
        assert_eq!(debian_mirror("'https://example.org/ubuntu/dists/noble/InRelease' a 0"), None);
        assert_eq!(debian_mirror(""), None);
    }

    #[test]
    fn a_kernel_s_packages_are_followed_and_nothing_else() {
        let printed = |package: &str| match package {
            "linux-image-cloud" => "linux-image-cloud\n  Depends: linux-image-7\n",
            "linux-image-7" => {
                "linux-image-7\n  PreDepends: linux-base\n |Depends: initramfs-tools\n  Depends: \
                 <linux-initramfs-tool>\n    dracut\n  Depends: linux-modules-7\n  Breaks: linux-old\n"
            }
            "linux-modules-7" => "linux-modules-7\n  Depends: linux-image-7\n",
            _ => "",
        };
        let packages =
            named(&["linux-image-cloud"], "linux-", |name| Ok(depended_on(printed(name)))).unwrap();
        let expected = ["linux-image-cloud", "linux-image-7", "linux-base", "linux-modules-7"];
        assert_eq!(packages, expected);
    }

    #[test]
    fn the_progress_of_apt_is_understood() {
        assert_eq!(percent("dlstatus:1:20.5:Retrieving file 1 of 90"), Some(20));
        assert_eq!(percent("pmstatus:dpkg:90:Running"), None);
        assert_eq!(percent("dlstatus:1"), None);
    }

    #[test]
    fn a_program_that_fails_is_quoted_with_what_it_said() {
        let error = run(Command::new("sh").args(["-c", "echo why >&2; exit 3"])).unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains("echo why") && error.ends_with("\nwhy"), "{error}");
    }
}
