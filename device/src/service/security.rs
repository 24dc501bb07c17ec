// SPDX-License-Identifier: MIT OR Apache-2.0

//! What security nodes are started with: the root key as a descriptor, and what statements say.

use super::config::{AdapterConfig, Config, table_of_adapter};
use super::kernels::Worker;
use crate::gpu::SecurityConfig;
use anyhow::{Context, bail, ensure};
use bellhop_protocol::control::kernel::padded;
use bellhop_worker::security::owner::About;
use bellhop_worker::security::{ROOT_SIZE, digest};
use rustix::fs::{
    FileType, MemfdFlags, Mode, OFlags, SealFlags, fcntl_add_seals, fstat, memfd_create,
};
use rustix::process::geteuid;
use rustix::rand::{GetRandomFlags, getrandom};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// What each adapter's security node is started with; `None` for an adapter without one.
///
/// # Errors
/// If a file with a root key cannot be used, or there is no program for workers.
pub(super) fn find(
    config: &Config,
    worker: Option<&Worker>,
) -> anyhow::Result<Vec<Option<SecurityConfig>>> {
    let of_adapter = |(name, adapter): (&str, &AdapterConfig)| {
        if adapter.security_nodes.get() == 0 {
            return Ok(None);
        }
        let key = table_of_adapter(name).child("security_nodes");
        let worker = worker.context("the program that contains this device has no workers");
        let worker = worker.and_then(|worker| worker.find().map_err(anyhow::Error::msg));
        let worker = worker.with_context(|| format!("{key} is not 0"))?;
        let path = &adapter.security_key;
        let has_file = !path.as_os_str().is_empty();
        let root = if has_file {
            let key = table_of_adapter(name).child("security_key");
            open(path).with_context(|| format!("{key} is {}", path.display()))?
        } else {
            draw().context("cannot draw a root key")?
        };
        let configuration = toml::to_string(config).context("cannot write the configuration")?;
        let about = About {
            adapter: digest(name.as_bytes()),
            daemon: padded(env!("CARGO_PKG_VERSION")),
            configuration: digest(configuration.as_bytes()),
            lasting: has_file.into(),
            reserved: 0,
        };
        Ok(Some(SecurityConfig { worker, root: Arc::new(root), about }))
    };
    config.adapters().map(of_adapter).collect()
}

/// The identity of the guests of a socket: a digest of its path, without links and from the root on, so that the words
/// by which the daemon was given the path, and its working directory, do not matter.
pub(super) fn identity(socket: &Path) -> [u8; 32] {
    let folder = match socket.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let whole = match (folder.canonicalize(), socket.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        // The folder was taken away: nobody can connect.
        _ => socket.to_owned(),
    };
    digest(whole.as_os_str().as_bytes())
}

/// Opens a file with a root key, without reading it.
fn open(path: &Path) -> anyhow::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = rustix::fs::open(path, flags, Mode::empty()).context("cannot open it")?;
    let status = fstat(&file).context("cannot look at it")?;
    let kind = FileType::from_raw_mode(status.st_mode);
    ensure!(kind == FileType::RegularFile, "it is no file");
    let (owner, own) = (status.st_uid, geteuid().as_raw());
    ensure!(owner == own || owner == 0, "user {owner} owns it; make it belong to user {own}");
    let mode = status.st_mode & 0o777;
    if mode & 0o077 != 0 {
        bail!("others may access it (mode {mode:04o}); run chmod 0400");
    }
    let length = status.st_size;
    ensure!(
        length == ROOT_SIZE as i64,
        "it has {length} bytes; make one of {ROOT_SIZE} random bytes"
    );
    Ok(file.into())
}

/// Draws a root key into a file in memory, which nobody can change. It lasts as long as the daemon, so that it outlives a
/// worker.
fn draw() -> anyhow::Result<File> {
    let mut key = zeroize::Zeroizing::new([0; ROOT_SIZE]);
    let drawn = getrandom(&mut key[..], GetRandomFlags::empty())?;
    ensure!(drawn == ROOT_SIZE, "Linux gives too few random bytes");
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(memfd_create("bellhop-root-key", flags)?);
    file.write_all_at(&key[..], 0)?;
    let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    fcntl_add_seals(&file, seals)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_root_key_is_a_file_of_32_bytes_that_nobody_else_may_access() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let write = |bytes: &[u8], mode| {
            let _ = fs::remove_file(&path);
            fs::write(&path, bytes).unwrap();
            fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        };
        write(&[1; 32], 0o400);
        open(&path).unwrap();
        for (bytes, mode, expected) in [
            (&[1; 32][..], 0o640, "others may access it (mode 0640); run chmod 0400"),
            (&[1; 32][..], 0o604, "others may access it (mode 0604); run chmod 0400"),
            (&[1; 31][..], 0o600, "it has 31 bytes; make one of 32 random bytes"),
            (&[1; 33][..], 0o600, "it has 33 bytes; make one of 32 random bytes"),
        ] {
            write(bytes, mode);
            assert_eq!(open(&path).unwrap_err().to_string(), expected);
        }
        assert_eq!(open(folder.path()).unwrap_err().to_string(), "it is no file");
        write(&[1; 32], 0o400);
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        assert_eq!(open(&link).unwrap_err().to_string(), "cannot open it");
        assert!(open(&folder.path().join("nothing")).is_err());
    }

    #[test]
    fn a_drawn_key_is_another_each_time_and_cannot_be_changed() {
        let key = |file: &File| {
            let mut bytes = [0; 33];
            assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 32);
            bytes
        };
        let (one, two) = (draw().unwrap(), draw().unwrap());
        assert_ne!(key(&one), key(&two));
        assert!(one.write_all_at(&[0], 0).is_err() && one.set_len(0).is_err());
    }

    #[test]
    fn an_identity_is_of_the_socket_and_not_of_the_words_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap().join("real");
        fs::create_dir(&real).unwrap();
        symlink(&real, folder.path().join("link")).unwrap();
        let whole = real.join("gpu.sock");
        let expected = digest(whole.as_os_str().as_bytes());
        for words in ["real/gpu.sock", "link/gpu.sock", "real/../link/./gpu.sock"] {
            assert_eq!(identity(&folder.path().join(words)), expected, "{words}");
        }
        assert_ne!(identity(&folder.path().join("real/gpu1.sock")), expected);
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        let relative = digest(here.join("gpu.sock").as_os_str().as_bytes());
        assert_eq!(identity(Path::new("gpu.sock")), relative);
    }

    #[test]
    fn an_adapter_without_a_node_needs_nothing() {
        let none = find(&Config::default(), None).unwrap();
        assert!(none.iter().all(Option::is_none));
    }
}
