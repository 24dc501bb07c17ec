// SPDX-License-Identifier: MIT OR Apache-2.0

//! Devices that container engines know by name (Container Device Interface).
//!
//! An engine that reads the specification gives a container the device with
//! `--device bellhop.local/gpu=0`.

use super::{SOCKET_IN_CONTAINER, SOCKET_VARIABLE};
use anyhow::Context;
use bellhop_guest::files::NewFile;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// The first version that has every field used here: older engines refuse newer versions.
const VERSION: &str = "0.3.0";
/// A name that cannot be registered, so no other vendor has it.
const KIND: &str = "bellhop.local/gpu";

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Specification {
    cdi_version: &'static str,
    kind: &'static str,
    devices: Vec<Device>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Device {
    name: String,
    container_edits: ContainerEdits,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ContainerEdits {
    env: [String; 1],
    mounts: [Mount; 1],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Mount {
    host_path: PathBuf,
    container_path: &'static str,
    options: [&'static str; 5],
}

/// The specification of the devices behind these sockets, as JSON: the first is `gpu=0`.
///
/// # Errors
/// When a path cannot be written down.
pub fn specification(sockets: &[PathBuf]) -> anyhow::Result<String> {
    let specification = Specification::new(sockets)?;
    let json = serde_json::to_string_pretty(&specification)
        .context("cannot name a socket whose path is not UTF-8")?;
    Ok(json + "\n")
}

impl Specification {
    fn new(sockets: &[PathBuf]) -> anyhow::Result<Self> {
        let devices = sockets.iter().enumerate().map(|(number, socket)| {
            // The socket need not exist: the service may make it later.
            let host_path = std::path::absolute(socket)
                .with_context(|| format!("cannot find {}", socket.display()))?;
            Ok(Device { name: number.to_string(), container_edits: edits(host_path) })
        });
        let devices = devices.collect::<anyhow::Result<_>>()?;
        Ok(Self { cdi_version: VERSION, kind: KIND, devices })
    }
}

fn edits(host_path: PathBuf) -> ContainerEdits {
    ContainerEdits {
        env: [format!("{SOCKET_VARIABLE}={SOCKET_IN_CONTAINER}")],
        mounts: [Mount {
            host_path,
            container_path: SOCKET_IN_CONTAINER,
            options: ["bind", "ro", "nosuid", "nodev", "noexec"],
        }],
    }
}

/// Writes a specification's file whole or not at all: an engine may read it at any time.
///
/// # Errors
/// When the folder cannot be made or written.
pub fn write(path: &Path, json: &str) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
    }
    NewFile::create(path)?.finish_with(json)
}

/// Where engines look for specifications.
pub const FOLDERS: [&str; 2] = ["/etc/cdi", "/var/run/cdi"];

/// A device that container engines know by name.
#[derive(Debug, PartialEq, Eq)]
pub struct Named {
    /// The name, as `podman run --device` takes it.
    pub name: String,
    /// Its socket on this host.
    pub socket: PathBuf,
    /// Whether the socket exists.
    pub is_there: bool,
    /// The specification that names it.
    pub file: PathBuf,
}

/// The Bellhop devices that the specifications in these folders name. Other files belong to other software and
/// are skipped.
///
/// # Errors
/// When a folder or a file that is there cannot be read.
pub fn list(folders: &[&Path]) -> anyhow::Result<Vec<Named>> {
    let mut found = Vec::new();
    for folder in folders {
        let cannot = || format!("cannot read {}", folder.display());
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            entries => entries.with_context(cannot)?,
        };
        let files = entries.map(|entry| Ok(entry?.path()));
        let mut files = files.collect::<std::io::Result<Vec<_>>>().with_context(cannot)?;
        files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
        files.sort_unstable();
        for file in files {
            let text = fs::read(&file);
            let text = text.with_context(|| format!("cannot read {}", file.display()))?;
            if let Ok(specification) = serde_json::from_slice::<Written>(&text)
                && specification.kind == KIND
            {
                found.extend(specification.devices.into_iter().filter_map(|device| {
                    let socket = device.container_edits.mounts.into_iter().next()?.host_path;
                    let is_there = fs::metadata(&socket)
                        .is_ok_and(|metadata| metadata.file_type().is_socket());
                    let name = format!("{KIND}={}", device.name);
                    Some(Named { name, socket, is_there, file: file.clone() })
                }));
            }
        }
    }
    Ok(found)
}

/// The parts of a specification that are read here.
#[derive(Deserialize)]
struct Written {
    kind: String,
    devices: Vec<WrittenDevice>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenDevice {
    name: String,
    container_edits: WrittenEdits,
}

#[derive(Deserialize)]
struct WrittenEdits {
    mounts: Vec<WrittenMount>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenMount {
    host_path: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    #[test]
    fn the_devices_that_are_listed_are_those_that_were_written_and_no_other_software_s() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("gpu.sock");
        let _listener = UnixListener::bind(&socket).unwrap();
        let (cdi, none) = (folder.path().join("cdi"), folder.path().join("none"));
        let sockets = [socket.clone(), "/nonexistent/gpu1.sock".into()];
        write(&cdi.join("bellhop.json"), &specification(&sockets).unwrap()).unwrap();
        write(&cdi.join("other.json"), r#"{"kind":"vendor.com/nic","devices":[]}"#).unwrap();
        write(&cdi.join("broken.json"), "{").unwrap();
        write(&cdi.join("notes.txt"), "not a specification").unwrap();
        let listed = list(&[&none, &cdi]).unwrap();
        let seen: Vec<_> = listed
            .iter()
            .map(|device| (device.name.as_str(), device.socket.clone(), device.is_there))
            .collect();
        let expected = [
            ("bellhop.local/gpu=0", sockets[0].clone(), true),
            ("bellhop.local/gpu=1", sockets[1].clone(), false),
        ];
        assert_eq!(seen, expected);
        assert!(listed.iter().all(|device| device.file == cdi.join("bellhop.json")));
    }

    #[test]
    fn a_device_is_a_socket_and_its_name() {
        let sockets = ["/run/bellhop/gpu.sock".into(), "/run/bellhop/gpu1.sock".into()];
        let specification = serde_json::to_value(Specification::new(&sockets).unwrap()).unwrap();
        assert_eq!(specification["kind"], "bellhop.local/gpu");
        let second = &specification["devices"][1];
        assert_eq!(second["name"], "1");
        let edits = &second["containerEdits"];
        assert_eq!(edits["env"][0], "BELLHOP_SOCKET=/run/bellhop/gpu.sock");
        assert_eq!(edits["mounts"][0]["hostPath"], "/run/bellhop/gpu1.sock");
        assert_eq!(edits["mounts"][0]["containerPath"], "/run/bellhop/gpu.sock");
    }

    #[test]
    fn a_relative_path_becomes_absolute() {
        let specification = Specification::new(&["gpu.sock".into()]).unwrap();
        let edits = &specification.devices[0].container_edits;
        assert!(edits.mounts[0].host_path.is_absolute());
    }

    #[test]
    fn every_user_can_read_a_written_file_and_its_folder_is_created() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cdi/bellhop.json");
        write(&path, "{}").unwrap();
        write(&path, "{\"kind\":0}").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"{\"kind\":0}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
}
