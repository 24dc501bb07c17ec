//! What VMs are made from: QEMU, kernels and a shell, fetched once.

use super::accelerator::Note;
use super::cache::Cache;
use super::debian::{Closure, Debian, Release};
use super::kernel::Kernel;
use super::qemu::Qemu;
use super::variant::KernelSeries;
use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};

/// The programs and files that a VM is started with.
pub struct Environment {
    /// A QEMU that is new enough.
    pub qemu: Qemu,
    /// The guest's kernel.
    pub kernel: Kernel,
    /// The guest's shell and tools.
    pub busybox: PathBuf,
    /// What is known of this machine's KVM.
    pub kvm_fails: Note,
}

/// What a VM is made from, where that is not the usual.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// QEMU's program, instead of this machine's or Debian's.
    pub qemu: Option<PathBuf>,
    /// Debian's mirror, instead of the one that this machine uses.
    pub mirror: Option<String>,
    /// Whether to fetch again what is there.
    pub refresh: bool,
}

impl Environment {
    /// Finds or fetches everything.
    ///
    /// # Errors
    /// When something is neither here nor can be fetched.
    pub fn prepare(sources: &Sources, series: KernelSeries) -> anyhow::Result<Self> {
        let cache = Cache::open()?;
        let debian = Debian::new(cache.folder("apt")?, sources.mirror.clone());
        let refresh = sources.refresh;
        let qemu = match (&sources.qemu, Qemu::installed()) {
            (Some(program), _) => Qemu::at(program)?,
            (None, Some(installed)) => installed,
            (None, None) => Qemu::unpacked(&cache.piece("qemu", refresh, |folder| {
                debian.unpack(Release::Backports, "qemu-system-x86", Closure::Runtime, folder)
            })?),
        };
        let (name, release) = match series {
            KernelSeries::Stable => ("kernel", Release::Stable),
            KernelSeries::Backports => ("kernel-backports", Release::Backports),
        };
        let kernel = cache.piece(name, refresh, |folder| {
            // Most of it is not needed.
            let packages = tempfile::tempdir_in(folder).context("cannot make a folder")?;
            let package = "linux-image-cloud-amd64";
            debian.unpack(release, package, Closure::Named("linux-"), packages.path())?;
            Kernel::extract(packages.path(), folder)
        })?;
        let busybox = cache.piece("busybox", refresh, |folder| {
            let package = "busybox-static";
            debian.unpack(Release::Stable, package, Closure::Named(package), folder)
        })?;
        let kvm_fails = Note::within(&cache.folder("machine")?);
        Ok(Self { qemu, kernel: Kernel::open(&kernel)?, busybox: shell(&busybox)?, kvm_fails })
    }
}

fn shell(packages: &Path) -> anyhow::Result<PathBuf> {
    let path = packages.join("usr/bin/busybox");
    ensure!(path.is_file(), "Debian's busybox-static has no usr/bin/busybox");
    Ok(path)
}
