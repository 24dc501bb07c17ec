//! Devices that container engines know by name (Container Device Interface).
//!
//! An engine that reads the specification gives a container the device with
//! `--device bellhop.local/gpu=0`.

use super::{SOCKET_IN_CONTAINER, SOCKET_VARIABLE};
use anyhow::Context;
use serde::Serialize;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The first version with all that is used here: older engines refuse newer ones.
const VERSION: &str = "0.3.0";
/// A name that cannot be registered, so it is nobody else's.
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
            // The service may make it later, so it need not be there.
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
/// When the folder cannot be made, or not be written.
pub fn write(path: &Path, json: &str) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    fs::create_dir_all(folder).with_context(cannot)?;
    let mut file = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o644))
        .tempfile_in(folder)
        .with_context(cannot)?;
    file.write_all(json.as_bytes()).with_context(cannot)?;
    file.persist(path).with_context(cannot)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_written_file_can_be_read_by_everybody_and_its_folder_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cdi/bellhop.json");
        write(&path, "{}").unwrap();
        write(&path, "{\"kind\":0}").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"{\"kind\":0}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
}
