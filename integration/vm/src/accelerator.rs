// SPDX-License-Identifier: MIT OR Apache-2.0

//! The accelerator with which QEMU executes a guest's instructions.

use anyhow::Context;
use rustix::fs::{Access, access};
use std::fs;
use std::path::{Path, PathBuf};

const KVM: &str = "/dev/kvm";
/// Changes when the machine boots, after which a note about its KVM may be wrong.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// The accelerator that the command line names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Accelerator {
    /// KVM where it works, else TCG
    Auto,
    /// The processor: needs a /dev/kvm that you may use
    Kvm,
    /// QEMU itself: slow, and works everywhere
    Tcg,
}

/// The note that this machine's KVM does not execute a guest: on some machines, themselves virtual, KVM seems to
/// work until it is tried.
pub struct Note {
    path: PathBuf,
}

impl Note {
    /// The note in a permanent folder.
    #[must_use]
    pub fn within(folder: &Path) -> Self {
        Self { path: folder.join("kvm-fails") }
    }

    /// Writes the note, which holds until the machine boots again.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self) -> anyhow::Result<()> {
        fs::copy(BOOT, &self.path)
            .with_context(|| format!("cannot write {}", self.path.display()))
            .map(drop)
    }

    fn is_current(&self) -> bool {
        let boot = fs::read(BOOT).ok();
        boot.is_some() && fs::read(&self.path).ok() == boot
    }
}

impl Accelerator {
    /// The accelerator to try first.
    #[must_use]
    pub fn first(self, note: &Note) -> Self {
        match self {
            Self::Auto if note.is_current() || !may_use_kvm() => Self::Tcg,
            other => other,
        }
    }

    /// QEMU's arguments for it.
    #[must_use]
    pub fn arguments(self) -> &'static [&'static str] {
        match self {
            // QEMU takes the first accelerator that it can start.
            Self::Auto => &["-accel", "kvm", "-accel", "tcg,thread=multi"],
            Self::Kvm => &["-accel", "kvm"],
            Self::Tcg => &["-accel", "tcg,thread=multi"],
        }
    }
}

fn may_use_kvm() -> bool {
    access(KVM, Access::READ_OK | Access::WRITE_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kvm_that_failed_is_not_tried_again_until_the_machine_restarts() {
        let folder = tempfile::tempdir().unwrap();
        let note = Note::within(folder.path());
        assert!(!note.is_current());
        note.write().unwrap();
        assert_eq!(Accelerator::Auto.first(&note), Accelerator::Tcg);
        assert_eq!(Accelerator::Kvm.first(&note), Accelerator::Kvm);
        fs::write(&note.path, "another boot\n").unwrap();
        assert!(!note.is_current());
    }
}
