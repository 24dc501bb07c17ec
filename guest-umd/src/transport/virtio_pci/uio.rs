// SPDX-License-Identifier: MIT OR Apache-2.0

//! A device bound to `uio_pci_generic`: BARs come from sysfs, INTx from the UIO file.

use super::TransportError;
use super::address::PciAddress;
use super::capability::{CONFIG_SIZE, Window};
use super::mapping::map_file;
use crate::transport::MemoryType;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use vm_memory::MmapRegion;

/// Offset of the command register in the configuration space.
const COMMAND: u64 = 4;
const COMMAND_MEMORY: u16 = 1 << 1;
const COMMAND_MASTER: u16 = 1 << 2;
const COMMAND_INTX_DISABLE: u16 = 1 << 10;

/// A device behind `uio_pci_generic`.
pub(super) struct Uio {
    folder: PathBuf,
    config: File,
    interrupts: File,
    /// Whether the device has an interrupt: some VMMs give it no INTx.
    interrupts_come: bool,
}

fn io(what: &'static str) -> impl Fn(std::io::Error) -> TransportError {
    move |error| TransportError::Io(what, error)
}

impl Uio {
    pub(super) fn open(address: PciAddress) -> Result<Self, TransportError> {
        let folder = address.folder();
        let interrupts = OpenOptions::new()
            .read(true)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
            .open(uio_file(&folder)?)
            .map_err(io("cannot open the device's UIO file"))?;
        // UIO itself admits several programs.
        flock(&interrupts, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| TransportError::Io("another program uses the device", error.into()))?;
        let config = OpenOptions::new()
            .read(true)
            .write(true)
            .open(folder.join("config"))
            .map_err(io("cannot open the device's configuration space"))?;
        let interrupts_come = has_interrupt(&interrupts)?;
        let device = Self { folder, config, interrupts, interrupts_come };
        device.enable()?;
        Ok(device)
    }

    /// Lets the device decode addresses, access memory and interrupt. `uio_pci_generic` disables INTx at each
    /// interrupt.
    fn enable(&self) -> Result<(), TransportError> {
        let failed = io("cannot write the device's command register");
        let mut command = [0; 2];
        self.config.read_exact_at(&mut command, COMMAND).map_err(&failed)?;
        let command =
            u16::from_le_bytes(command) & !COMMAND_INTX_DISABLE | COMMAND_MEMORY | COMMAND_MASTER;
        self.config.write_all_at(&command.to_le_bytes(), COMMAND).map_err(&failed)
    }

    pub(super) fn config_space(&self) -> Result<[u8; CONFIG_SIZE], TransportError> {
        let mut config = [0; CONFIG_SIZE];
        self.config
            .read_exact_at(&mut config, 0)
            .map_err(io("cannot read the device's configuration space"))?;
        Ok(config)
    }

    fn open_bar(&self, bar: u8, suffix: &str) -> std::io::Result<File> {
        let path = self.folder.join(format!("resource{bar}{suffix}"));
        OpenOptions::new().read(true).write(true).open(path)
    }

    pub(super) fn map(&self, window: Window) -> Result<MmapRegion, TransportError> {
        let file = self.open_bar(window.bar, "").map_err(io("cannot open a BAR"))?;
        map_file(file, window.offset, window.length)
    }

    /// Maps write-combining if the BAR is prefetchable, in which case sysfs offers that file.
    pub(super) fn map_shared_memory(
        &self,
        window: Window,
    ) -> Result<(MmapRegion, MemoryType), TransportError> {
        match self.open_bar(window.bar, "_wc") {
            Ok(file) => {
                let region = map_file(file, window.offset, window.length)?;
                Ok((region, MemoryType::WriteCombining))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Ok((self.map(window)?, MemoryType::Uncached))
            }
            Err(error) => Err(TransportError::Io("cannot open a BAR", error)),
        }
    }

    pub(super) fn interrupt(&self) -> Option<BorrowedFd<'_>> {
        self.interrupts_come.then(|| self.interrupts.as_fd())
    }

    pub(super) fn take_interrupt(
        &self,
        read_status: impl FnOnce() -> Result<(), TransportError>,
    ) -> Result<bool, TransportError> {
        let mut count = [0; 4];
        match (&self.interrupts).read(&mut count) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(TransportError::Io("cannot read the UIO file", error)),
        }
        // This order matters: the line must be low when the interrupt is enabled again, or it fires at once. An
        // interrupt that the device raises in between keeps the line high, so it is not lost.
        read_status()?;
        self.enable()?;
        Ok(true)
    }
}

/// Returns whether a device has an interrupt, according to its UIO file. Reading the file fails if the
/// configuration space names no pin for INTx (offset 0x3d), as cloud-hypervisor's does.
fn has_interrupt(mut interrupts: &File) -> Result<bool, TransportError> {
    match interrupts.read(&mut [0; 4]) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::EIO) => Ok(false),
        Err(error) => Err(TransportError::Io("cannot read the UIO file", error)),
    }
}

/// The `/dev/uioN` of a device.
fn uio_file(folder: &Path) -> Result<PathBuf, TransportError> {
    let failed = io("cannot find the device's UIO file");
    let mut entries = fs::read_dir(folder.join("uio")).map_err(&failed)?;
    let entry = entries.next().ok_or_else(|| failed(ErrorKind::NotFound.into()))?;
    Ok(Path::new("/dev").join(entry.map_err(&failed)?.file_name()))
}
