// SPDX-License-Identifier: MIT OR Apache-2.0

//! Podman, and the options that it needs on this host.

use anyhow::{Context, ensure};
use bellhop_guest::output::note;
use serde::Deserialize;
use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use tokio::process::Command;

/// Podman with the options that it needs here.
pub struct Engine {
    host: Host,
    options: Vec<OsString>,
    /// Images and containers are kept in a folder of the run.
    has_own_storage: bool,
}

/// Podman's report about this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    pub(super) version: String,
    pub(super) runtime: String,
    /// Controllers of version 1 and the tree of version 2, side by side.
    pub(super) hybrid_cgroups: bool,
    /// A container's memory can be limited.
    pub(super) limits_memory: bool,
    /// Podman runs without privileges, in a user namespace.
    pub(super) rootless: bool,
    /// Containers are confined by SELinux.
    pub(super) selinux: bool,
}

/// The subfolder with images and containers.
const STORAGE: &str = "storage";
/// The runtime that can use every kind of cgroup.
const OTHER_RUNTIME: &str = "runc";

impl Engine {
    /// Asks podman about this host. With a folder, it keeps images and containers there; without, in the user's
    /// storage.
    ///
    /// # Errors
    /// When there is no podman, or it cannot work here.
    pub async fn new(folder: Option<&Path>) -> anyhow::Result<Self> {
        let mut options = Vec::new();
        if let Some(folder) = folder {
            options.extend(["--root".into(), folder.join(STORAGE).into()]);
            options.extend(["--runroot".into(), folder.join("podman").into()]);
            // `vfs` copies where other drivers mount: it works on every file system and in every namespace, and the
            // image is one small file.
            options.extend(["--storage-driver".into(), "vfs".into()]);
        }
        let info = output(command(&options).args(["info", "--format", "json"])).await?;
        let info: Info = serde_json::from_slice(&info)
            .context("cannot understand `podman info`; podman must be version 4 or newer")?;
        let hybrid = info.host.cgroup_version == "v1" && Path::new(HYBRID_TREE).is_dir();
        let host = Host {
            version: info.version.version,
            runtime: info.host.oci_runtime.name,
            hybrid_cgroups: hybrid,
            limits_memory: (info.host.cgroup_controllers.unwrap_or_default())
                .iter()
                .any(|name| name == "memory"),
            rootless: info.host.security.rootless,
            selinux: info.host.security.selinux,
        };
        if host.needs_other_runtime() {
            options.extend(["--runtime".into(), OTHER_RUNTIME.into()]);
        }
        Ok(Self { host, options, has_own_storage: folder.is_some() })
    }

    /// The host that podman runs on.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Podman's name and the options that come before its command.
    pub fn line(&self) -> Vec<OsString> {
        std::iter::once("podman".into()).chain(self.options.iter().cloned()).collect()
    }

    /// Podman, without a command yet.
    pub fn command(&self) -> Command {
        command(&self.options)
    }

    /// Prints on standard error which options were chosen, and why.
    pub fn explain(&self) {
        note(format_args!("bellhop: {}", self.host.chosen(self.has_own_storage)));
        for reason in self.host.reasons() {
            note(format_args!("bellhop: podman {} {reason}", self.host.version));
        }
    }
}

impl Host {
    fn needs_other_runtime(&self) -> bool {
        self.hybrid_cgroups && self.runtime.ends_with("crun")
    }

    /// The line about the options of every host.
    fn chosen(&self, has_own_storage: bool) -> String {
        let runtime = if self.needs_other_runtime() { OTHER_RUNTIME } else { &self.runtime };
        let storage = if has_own_storage {
            "images in a folder of this run (vfs)"
        } else {
            "images in your own storage"
        };
        format!("podman {} with runtime {runtime}, {storage}", self.version)
    }

    fn reasons(&self) -> Vec<&'static str> {
        let choices = [
            (
                self.needs_other_runtime(),
                "with --runtime runc: crun cannot use this host's hybrid cgroups",
            ),
            (
                self.selinux,
                "with --security-opt label=disable: SELinux would keep the container from its \
                 socket",
            ),
        ];
        choices.into_iter().filter_map(|(made, reason)| made.then_some(reason)).collect()
    }
}

fn command(options: &[OsString]) -> Command {
    let mut command = Command::new("podman");
    command.args(options).stdin(Stdio::null()).kill_on_drop(true);
    // Out of Ctrl-C's reach: an interrupted podman leaves things behind, so bellhop ends it at a safe time.
    command.process_group(0);
    command
}

/// Removes images and containers that are kept in a folder.
///
/// # Errors
/// When podman fails.
pub async fn remove_storage(folder: &Path) -> anyhow::Result<()> {
    let storage = folder.join(STORAGE);
    // Images have folders that their owner may not write, which only root ignores; and files of the container's
    // other users are out of reach outside its user namespace.
    if rustix::process::geteuid().is_root() || !storage.exists() {
        return Ok(());
    }
    let mut podman = command(&[]);
    podman.args(["unshare", "rm", "--recursive", "--force"]).arg(&storage);
    output(&mut podman).await.context("cannot remove the image").map(drop)
}

/// A command's output; an error has the command's standard error.
///
/// # Errors
/// When the command cannot be run, or fails.
pub async fn output(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let output = command.output().await.context(
        "cannot run podman; install it, on Debian and its relatives: apt install podman runc",
    )?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "podman failed ({}): {}", output.status, errors.trim());
    Ok(output.stdout)
}

/// The mount point of cgroup version 2 beside version 1.
const HYBRID_TREE: &str = "/sys/fs/cgroup/unified";

#[derive(Deserialize)]
struct Info {
    host: HostInfo,
    version: Version,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HostInfo {
    cgroup_version: String,
    cgroup_controllers: Option<Vec<String>>,
    oci_runtime: Runtime,
    security: Security,
}

#[derive(Deserialize)]
struct Runtime {
    name: String,
}

#[derive(Deserialize)]
struct Security {
    rootless: bool,
    #[serde(rename = "selinuxEnabled")]
    selinux: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Version {
    version: String,
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A host with the defaults of most distributions, as root.
    pub fn host() -> Host {
        Host {
            version: "5.0.0".into(),
            runtime: "crun".into(),
            hybrid_cgroups: false,
            limits_memory: true,
            rootless: false,
            selinux: false,
        }
    }

    #[test]
    fn an_ordinary_host_needs_no_option() {
        assert!(host().reasons().is_empty());
    }

    #[test]
    fn every_host_reports_what_was_chosen() {
        let own = "podman 5.0.0 with runtime crun, images in your own storage";
        assert_eq!(host().chosen(false), own);
        let hybrid = Host { hybrid_cgroups: true, ..host() };
        assert!(
            hybrid
                .chosen(true)
                .ends_with("with runtime runc, images in a folder of this run (vfs)")
        );
    }

    #[test]
    fn crun_is_replaced_only_where_it_cannot_work() {
        let hybrid = Host { hybrid_cgroups: true, ..host() };
        assert!(hybrid.needs_other_runtime() && hybrid.reasons()[0].contains("runc"));
        let by_path = Host { runtime: "/usr/bin/crun".into(), ..hybrid.clone() };
        assert!(by_path.needs_other_runtime());
        let other = Host { runtime: "runc".into(), ..hybrid };
        assert!(!other.needs_other_runtime() && other.reasons().is_empty());
    }
}
