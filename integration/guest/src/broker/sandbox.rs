// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the broker gives up before it serves anybody: new files and sockets, other programs, new privileges, and descriptors
//! beyond what its programs take.
//!
//! What it has stays: the device, the socket that it listens at, and standard error.

mod calls;

use super::Limits;
use anyhow::Context;
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd,
    RestrictSelfAttr, Ruleset, RulesetAttr, RulesetCreatedAttr, Scope,
};
use rustix::process::{Resource, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use std::path::Path;

/// Descriptors of the broker's own: the device, and a program that is refused.
const OWN_DESCRIPTORS: u64 = 256;
/// Those of a program, while it connects, beside two for each of its channels.
const DESCRIPTORS_OF_PROGRAM: u64 = 8;

/// Gives everything up, for all threads; capabilities for this thread and those that it starts. Landlock is optional, as older
/// versions of Linux lack it: the filter of system calls opens no file in any case.
///
/// # Errors
/// When Linux refuses.
pub(super) fn enter(socket: &Path, limits: &Limits) -> anyhow::Result<()> {
    bound_descriptors(limits).context("cannot bound descriptors")?;
    // The next calls need no privilege, once there can be no new ones.
    rustix::thread::set_no_new_privs(true).context("cannot give up new privileges")?;
    give_up_capabilities().context("cannot give up capabilities")?;
    give_up_files(socket).context("cannot give up files")?;
    let [processes, calls] = calls::filters()?;
    seccompiler::apply_filter_all_threads(&processes).context("cannot give up processes")?;
    seccompiler::apply_filter_all_threads(&calls).context("cannot give up system calls")
}

fn bound_descriptors(limits: &Limits) -> rustix::io::Result<()> {
    let of_program = DESCRIPTORS_OF_PROGRAM + 2 * limits.most_requests() as u64;
    let most = OWN_DESCRIPTORS + of_program * limits.programs as u64;
    let now = getrlimit(Resource::Nofile);
    let bounded = |limit: Option<u64>| Some(limit.map_or(most, |limit| limit.min(most)));
    let limit = rustix::process::Rlimit {
        // As many as programs may need, where fewer are usual.
        current: bounded(now.maximum),
        maximum: bounded(now.maximum),
    };
    setrlimit(Resource::Nofile, limit)
}

/// All but that to pin memory for a device, however much a user may pin.
fn give_up_capabilities() -> rustix::io::Result<()> {
    let mut sets = capabilities(None)?;
    sets.effective &= CapabilitySet::IPC_LOCK;
    sets.permitted &= CapabilitySet::IPC_LOCK;
    sets.inheritable = CapabilitySet::empty();
    set_capabilities(None, sets)
}

fn give_up_files(socket: &Path) -> anyhow::Result<()> {
    let abi = ABI::V6;
    let folder = socket.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = PathFd::new(folder.unwrap_or(Path::new(".")))?;
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::from_all(abi))?
        .scope(Scope::from_all(abi))?
        .create()?
        // The broker's socket goes with the broker.
        .add_rule(PathBeneath::new(folder, AccessFs::RemoveFile))?
        .all_threads(true)?
        .restrict_self()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
    use rustix::io::Errno;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, socketpair};
    use std::fs::File;
    use std::io::ErrorKind;
    use std::process::Command;
    use std::thread;
    use vm_memory::{FileOffset, MmapRegion};

    const CHILD: &str = "BELLHOP_TEST_IN_SANDBOX";
    const NAME: &str =
        "broker::sandbox::tests::in_the_sandbox_programs_are_served_and_nothing_else_is_done";

    fn serves() {
        let file =
            memfd_create("program", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, 4096).unwrap();
        fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
        let region = MmapRegion::<()>::from_file(FileOffset::new(File::from(file), 0), 4096);
        drop(region.unwrap());
        let kind = SocketType::SEQPACKET;
        socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        thread::Builder::new().name("client".into()).spawn(|| {}).unwrap().join().unwrap();
        let (refused, _theirs) =
            socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        crate::broker::descriptors::throw_away(refused).unwrap();
    }

    fn does_nothing_else() {
        let is_refused = |error: std::io::Error| {
            assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
        };
        is_refused(File::open("/etc/passwd").unwrap_err());
        is_refused(File::create("/tmp/bellhop-nothing").unwrap_err());
        is_refused(std::fs::read_dir("/").unwrap_err());
        is_refused(Command::new("/bin/true").spawn().unwrap_err());
        let kind = SocketType::STREAM;
        for family in [AddressFamily::INET, AddressFamily::UNIX, AddressFamily::NETLINK] {
            let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None);
            assert_eq!(socket.unwrap_err(), Errno::PERM);
        }
        let code = libc::PROT_READ | libc::PROT_EXEC;
        let own = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        assert!(MmapRegion::<()>::build(None, 4096, code, own).is_err());
    }

    /// In a process of its own, since there is no way back.
    #[test]
    fn in_the_sandbox_programs_are_served_and_nothing_else_is_done() {
        if std::env::var_os(CHILD).is_none() {
            let mut child = Command::new(std::env::current_exe().unwrap());
            child.args([NAME, "--exact", "--test-threads=1"]).env(CHILD, "1");
            let output = child.output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{said}");
            return;
        }
        enter(Path::new("/tmp/broker.sock"), &Limits::default()).unwrap();
        serves();
        does_nothing_else();
    }
}
