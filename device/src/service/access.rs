// SPDX-License-Identifier: MIT OR Apache-2.0

//! Access to a socket: the group and mode of its file.

use anyhow::{Context, bail};
use rustix::fs::{Gid, Mode};
use std::path::Path;

/// Access to the sockets that the daemon creates for guests.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SocketAccess {
    /// The files' group.
    pub(super) group: Option<Gid>,
    /// The files' mode.
    pub(super) mode: Option<Mode>,
}

impl SocketAccess {
    /// Returns whether the umask alone decides.
    pub(super) const fn is_usual(self) -> bool {
        self.group.is_none() && self.mode.is_none()
    }

    /// Sets a file's group and then its mode, so that the mode never admits the previous group. Until then only the
    /// owner can use the file.
    pub(super) fn give(self, path: &Path) -> anyhow::Result<()> {
        if self.is_usual() {
            return Ok(());
        }
        let shown = path.display();
        rustix::fs::chown(path, None, self.group).with_context(|| {
            format!("cannot set the group of {shown}; give --socket-group a group that you are in")
        })?;
        let mode = self.mode.unwrap_or(Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP);
        rustix::fs::chmod(path, mode).with_context(|| format!("cannot set the mode of {shown}"))
    }
}

/// Parses a group's name or number.
pub(super) fn group(text: &str) -> anyhow::Result<Gid> {
    if let Ok(number) = text.parse() {
        return Ok(Gid::from_raw(number));
    }
    let group = nix::unistd::Group::from_name(text).context("cannot look up groups")?;
    let group = group.with_context(|| format!("there is no group {text:?}; see `getent group`"))?;
    Ok(Gid::from_raw(group.gid.as_raw()))
}

/// Parses a mode in octal.
pub(super) fn mode(text: &str) -> anyhow::Result<Mode> {
    let bits = u32::from_str_radix(text, 8).context("a mode is octal, such as 660")?;
    let most = (Mode::RWXU | Mode::RWXG | Mode::RWXO).bits();
    if bits > most {
        bail!("a mode is 0 to 777, such as 660");
    }
    Ok(Mode::from_bits_retain(bits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    #[test]
    fn a_file_gets_its_group_and_its_mode_whatever_the_umask_leaves() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let group = group(&rustix::process::getegid().as_raw().to_string()).unwrap();
        let status = |access: SocketAccess| {
            access.give(file.path()).unwrap();
            let status = std::fs::metadata(file.path()).unwrap();
            (status.gid(), status.permissions().mode() & 0o7777)
        };
        let of = |mode| SocketAccess { group: Some(group), mode };
        assert_eq!(status(of(None)), (group.as_raw(), 0o660));
        assert_eq!(status(of(Some(mode("0666").unwrap()))), (group.as_raw(), 0o666));
        assert_eq!(status(SocketAccess::default()).1, 0o666);
    }

    #[test]
    fn a_group_is_known_by_its_name() {
        assert_eq!(group("root").unwrap().as_raw(), 0);
        let error = format!("{:#}", group("no such group").unwrap_err());
        assert!(error.contains("no such group"), "{error}");
    }
}
