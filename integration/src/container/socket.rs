// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which users may connect to a device's socket.

use anyhow::{Context, bail, ensure};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// How a container's user, who has no rights on the host, may connect.
#[derive(Debug, PartialEq, Eq)]
pub enum Access {
    /// Every user may.
    Everybody,
    /// Members of this group may.
    Group(u32),
}

/// Connecting takes write permission.
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;

/// Finds out how a container may connect to a socket.
///
/// # Errors
/// When the path is no socket, or only its owner may connect.
pub fn access(path: &Path) -> anyhow::Result<Access> {
    let metadata = fs::metadata(path).with_context(|| {
        format!(
            "there is no socket at {}; start bellhopd, or name another with --socket-path",
            path.display()
        )
    })?;
    ensure!(metadata.file_type().is_socket(), "{} is not a socket", path.display());
    match metadata.mode() {
        mode if mode & OTHERS_WRITE != 0 => Ok(Access::Everybody),
        mode if mode & GROUP_WRITES != 0 => Ok(Access::Group(metadata.gid())),
        mode => bail!(
            "only its owner may connect to {} (mode {:o}), and a container runs as another user; \
             give the socket a group with SocketMode=0660, or chmod g+w",
            path.display(),
            mode & 0o777
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    fn access_with_mode(mode: u32) -> anyhow::Result<Access> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gpu.sock");
        let _listener = UnixListener::bind(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        access(&path)
    }

    #[test]
    fn a_socket_for_every_user_needs_no_group() {
        assert_eq!(access_with_mode(0o666).unwrap(), Access::Everybody);
        assert_eq!(access_with_mode(0o602).unwrap(), Access::Everybody);
    }

    #[test]
    fn a_socket_for_a_group_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let own = fs::metadata(folder.path()).unwrap().gid();
        assert_eq!(access_with_mode(0o660).unwrap(), Access::Group(own));
    }

    #[test]
    fn a_socket_for_its_owner_alone_is_refused_with_what_to_do() {
        let error = access_with_mode(0o644).unwrap_err().to_string();
        assert!(error.contains("644") && error.contains("chmod g+w"), "{error}");
    }

    #[test]
    fn a_file_that_is_not_a_socket_is_named() {
        let error = access(Path::new("/nonexistent/gpu.sock")).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/gpu.sock") && error.contains("--socket-path"));
        assert!(access(Path::new("/dev/null")).unwrap_err().to_string().contains("not a socket"));
    }
}
