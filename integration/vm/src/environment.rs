// SPDX-License-Identifier: MIT OR Apache-2.0

//! The parts of VMs: QEMU, kernels and a shell, fetched once. Also Debian's Vulkan, fetched as they are.

use crate::accelerator::Note;
use crate::guest::kernel::{GUEST_MODULES, HOST_MODULES, Kernel};
use crate::guest::share;
use crate::guest::systemd::{self, Systemd};
use crate::guest::{portable, program};
use crate::packages::alternatives;
use crate::packages::cache::Cache;
use crate::packages::debian::{Closure, Debian, Release};
use crate::packages::programs::{self, Packaged};
use crate::packages::unpacked::LIBRARIES;
use crate::qemu::Qemu;
use crate::reference::{self, Dav1d};
use crate::task::{Service, Task};
use crate::variant::KernelSeries;
use crate::vulkan::{self, Vulkan};
use anyhow::{Context, ensure};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The folder of a guest's kernel in the cache.
pub const KERNEL: &str = "kernel";
/// The package of kernels for VMs.
const CLOUD: &str = "linux-image-cloud-amd64";
/// The package of kernels for any machine: that of clouds has no drivers for batteries, and shares no folders.
const GENERAL: &str = "linux-image-amd64";
/// The folder of a guest's shell in the cache.
pub const BUSYBOX: &str = "busybox";
/// The program's path in the shell's package.
pub const BUSYBOX_PROGRAM: &str = "usr/bin/busybox";

/// The programs and files that a VM is started with.
pub struct Environment {
    /// A QEMU that is new enough.
    pub qemu: Qemu,
    /// The guest's kernel.
    pub kernel: Kernel,
    /// The guest's shell and tools.
    pub busybox: PathBuf,
    /// The guest's service manager, where its task wants one.
    pub systemd: Option<Systemd>,
    /// The note whether this machine's KVM fails.
    pub kvm_fails: Note,
}

/// Whose Mesa a Vulkan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mesa {
    /// Debian 13's.
    Debian13,
    /// Debian 12's, which computes wrongly.
    Debian12,
}

/// Sources of the parts of a VM, instead of the usual ones.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// QEMU's program, instead of this machine's or Debian's.
    pub qemu: Option<PathBuf>,
    /// Debian's mirror, instead of the one that this machine uses.
    pub mirror: Option<String>,
    /// Whether to fetch cached parts again.
    pub refresh: bool,
}

impl Environment {
    /// Finds or fetches everything that a guest with these services and this task needs.
    ///
    /// # Errors
    /// When a part is neither here nor can be fetched.
    pub fn prepare(
        sources: &Sources,
        series: KernelSeries,
        services: &[Service],
        task: &Task,
    ) -> anyhow::Result<Self> {
        let stock = Stock::open(sources)?;
        let is_portable = services.contains(&Service::Portable);
        let is_general = is_portable || matches!(task, Task::Program(_));
        Ok(Self {
            qemu: stock.qemu()?,
            kernel: if is_general { stock.general_kernel(series) } else { stock.kernel(series) }?,
            busybox: stock.busybox()?,
            systemd: match services {
                [] => None,
                _ if is_portable => Some(stock.portable()?),
                _ => Some(stock.systemd()?),
            },
            kvm_fails: stock.kvm_fails()?,
        })
    }
}

/// The parts of VMs, each fetched when it is first needed.
pub struct Stock<'a> {
    cache: Cache,
    debian: Debian,
    sources: &'a Sources,
}

impl<'a> Stock<'a> {
    /// Opens and locks the cache; other processes wait until this is dropped.
    ///
    /// # Errors
    /// When there is no place for the cache.
    pub fn open(sources: &'a Sources) -> anyhow::Result<Self> {
        let cache = Cache::open()?;
        let debian = Debian::new(cache.folder("apt")?, Release::Stable, sources.mirror.clone());
        Ok(Self { cache, debian, sources })
    }

    /// A QEMU that is new enough.
    ///
    /// # Errors
    /// When it is neither here nor can be fetched.
    pub fn qemu(&self) -> anyhow::Result<Qemu> {
        match (&self.sources.qemu, Qemu::installed()) {
            (Some(program), _) => Qemu::at(program),
            (None, Some(installed)) => Ok(installed),
            (None, None) => {
                let piece = self.cache.piece("qemu", self.sources.refresh, |folder| {
                    let package = "qemu-system-x86";
                    self.debian.unpack(Release::Backports, &[package], Closure::Runtime, folder)
                })?;
                Ok(Qemu::unpacked(&piece))
            }
        }
    }

    /// A guest's kernel.
    ///
    /// # Errors
    /// When it is neither here nor can be fetched.
    pub fn kernel(&self, series: KernelSeries) -> anyhow::Result<Kernel> {
        match series {
            KernelSeries::Stable => self.kernel_of(CLOUD, KERNEL, Release::Stable, GUEST_MODULES),
            KernelSeries::Backports => {
                self.kernel_of(CLOUD, "kernel-backports", Release::Backports, GUEST_MODULES)
            }
        }
    }

    /// The kernel of a VM that runs VMs.
    ///
    /// # Errors
    /// When it is neither here nor can be fetched.
    pub fn host_kernel(&self) -> anyhow::Result<Kernel> {
        self.kernel_of(CLOUD, "kernel-host", Release::Stable, HOST_MODULES)
    }

    /// The kernel of a package, with these modules, which is in the cache by this name.
    fn kernel_of(
        &self,
        package: &str,
        name: &str,
        release: Release,
        modules: &[&str],
    ) -> anyhow::Result<Kernel> {
        let piece = self.cache.piece(name, self.sources.refresh, |folder| {
            // Most of the package is not needed.
            let packages = tempfile::tempdir_in(folder).context("cannot create a folder")?;
            self.debian.unpack(release, &[package], Closure::Named("linux-"), packages.path())?;
            Kernel::extract(packages.path(), modules, folder)
        })?;
        Kernel::open(&piece)
    }

    /// The guest's shell and tools.
    ///
    /// # Errors
    /// When it is neither here nor can be fetched.
    pub fn busybox(&self) -> anyhow::Result<PathBuf> {
        let piece = self.cache.piece(BUSYBOX, self.sources.refresh, |folder| {
            let package = "busybox-static";
            self.debian.unpack(Release::Stable, &[package], Closure::Named(package), folder)
        })?;
        shell(&piece)
    }

    /// A guest's service manager.
    ///
    /// # Errors
    /// When it is neither here nor can be fetched.
    pub fn systemd(&self) -> anyhow::Result<Systemd> {
        let piece = self.cache.piece("systemd", self.sources.refresh, |folder| {
            self.debian.unpack(Release::Stable, &[systemd::PACKAGE], Closure::Runtime, folder)
        })?;
        Ok(Systemd::unpacked(&piece))
    }

    /// The kernel of a guest that is a portable computer, or shares folders with this machine.
    ///
    /// # Errors
    /// When it is neither here nor can be fetched.
    fn general_kernel(&self, series: KernelSeries) -> anyhow::Result<Kernel> {
        let modules = [GUEST_MODULES, portable::MODULES, share::MODULES, program::MODULES].concat();
        let (name, release) = match series {
            KernelSeries::Stable => ("kernel-general", Release::Stable),
            KernelSeries::Backports => ("kernel-general-backports", Release::Backports),
        };
        self.kernel_of(GENERAL, name, release, &modules)
    }

    /// A guest's service manager, with the services of a portable computer.
    ///
    /// # Errors
    /// When it is neither here nor can be fetched.
    fn portable(&self) -> anyhow::Result<Systemd> {
        let piece = self.cache.piece("portable-computer", self.sources.refresh, |folder| {
            self.debian.unpack(Release::Stable, portable::PACKAGES, Closure::Runtime, folder)
        })?;
        Ok(Systemd::unpacked(&piece))
    }

    /// A Vulkan for this machine's programs.
    ///
    /// # Errors
    /// When it is neither here nor can be fetched.
    pub fn vulkan(&self, mesa: Mesa) -> anyhow::Result<Vulkan> {
        let fetch = |debian: &Debian, release, folder: &Path| {
            debian.unpack(release, &[vulkan::PACKAGE], Closure::Runtime, folder)?;
            Vulkan::lay_out(folder)
        };
        let refresh = self.sources.refresh;
        let piece = match mesa {
            Mesa::Debian13 => self
                .cache
                .piece("vulkan", refresh, |folder| fetch(&self.debian, Release::Stable, folder))?,
            Mesa::Debian12 => {
                let (release, mirror) = (Release::Old, self.sources.mirror.clone());
                let debian = Debian::new(self.cache.folder("apt-old")?, release, mirror);
                self.cache.piece("vulkan-old", refresh, |folder| fetch(&debian, release, folder))?
            }
        };
        Ok(Vulkan::unpacked(&piece))
    }

    /// The folder with a Vulkan loader, which any program of this machine's can load: a newer release's would need a
    /// newer C library.
    ///
    /// # Errors
    /// When it is neither here nor can be fetched.
    pub fn vulkan_loader(&self) -> anyhow::Result<PathBuf> {
        let piece = self.of_old("vulkan-loader", vulkan::LOADER, vulkan::LOADER)?;
        Ok(piece.join(LIBRARIES[0]))
    }

    /// The folder of a library's package for those who build programs with it, and of its other packages, whose names begin with
    /// `prefix`. Any program of this machine's can load the library.
    ///
    /// # Errors
    /// When it is neither here nor can be fetched.
    pub fn library(&self, package: &str, prefix: &str) -> anyhow::Result<PathBuf> {
        programs::check(package)?;
        self.of_old(&format!("library-{package}"), package, prefix)
    }

    /// The folder of a package of the old release's, and of those that it depends on with names that begin with `prefix`.
    fn of_old(&self, piece: &str, package: &str, prefix: &str) -> anyhow::Result<PathBuf> {
        let (release, mirror) = (Release::Old, self.sources.mirror.clone());
        let debian = Debian::new(self.cache.folder("apt-old")?, release, mirror);
        self.cache.piece(piece, self.sources.refresh, |folder| {
            debian.unpack(release, &[package], Closure::Named(prefix), folder)
        })
    }

    /// The programs of packages, in one folder.
    ///
    /// # Errors
    /// When they are neither here nor can be fetched.
    pub fn packaged<'p>(
        &self,
        packages: impl IntoIterator<Item = &'p str>,
    ) -> anyhow::Result<Packaged> {
        // The order in which people name them makes no difference.
        let packages: BTreeSet<_> = packages.into_iter().collect();
        let packages: Vec<_> = packages.into_iter().collect();
        packages.iter().try_for_each(|package| programs::check(package))?;
        // No package has this in its name.
        let name = format!("programs-{}", packages.join("_"));
        let piece = self.cache.piece(&name, self.sources.refresh, |folder| {
            self.debian.unpack(Release::Stable, &packages, Closure::Runtime, folder)?;
            alternatives::link(folder)
        })?;
        Ok(Packaged::unpacked(&packages.join(" and "), &piece))
    }

    /// The reference decoder of AV1.
    ///
    /// # Errors
    /// When it is neither here nor can be fetched.
    pub fn dav1d(&self) -> anyhow::Result<Dav1d> {
        let piece = self.cache.piece("dav1d", self.sources.refresh, |folder| {
            self.debian.unpack(Release::Stable, &[reference::PACKAGE], Closure::Runtime, folder)
        })?;
        Dav1d::unpacked(&piece)
    }

    /// The folder with files of AV1 that Debian ships.
    ///
    /// # Errors
    /// When it is neither here nor can be fetched.
    pub fn av1_samples(&self) -> anyhow::Result<PathBuf> {
        // Later releases of the package have none.
        let piece = self.of_old("av1-samples", reference::SAMPLES, reference::SAMPLES)?;
        Ok(piece.join(reference::SAMPLES_FOLDER))
    }

    fn kvm_fails(&self) -> anyhow::Result<Note> {
        Ok(Note::within(&self.cache.folder("machine")?))
    }
}

fn shell(packages: &Path) -> anyhow::Result<PathBuf> {
    let path = packages.join(BUSYBOX_PROGRAM);
    ensure!(path.is_file(), "Debian's busybox-static has no {BUSYBOX_PROGRAM}");
    Ok(path)
}
