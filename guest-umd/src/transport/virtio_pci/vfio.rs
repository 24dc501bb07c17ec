// SPDX-License-Identifier: MIT OR Apache-2.0

//! A device bound to `vfio-pci`: BARs and MSI-X come from VFIO.

use super::TransportError;
use super::address::PciAddress;
use super::capability::{CONFIG_SIZE, Window};
use super::mapping::map_file;
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use vfio_ioctls::{VfioContainer, VfioDevice};
use vm_memory::MmapRegion;
use vmm_sys_util::eventfd::{EFD_CLOEXEC, EFD_NONBLOCK, EventFd};

/// `VFIO_PCI_CONFIG_REGION_INDEX`: the regions below it are the BARs.
const CONFIG_REGION: u32 = 7;
const COMMAND: u64 = 4;
const COMMAND_MEMORY: u16 = 1 << 1;
const COMMAND_MASTER: u16 = 1 << 2;

/// A device behind `vfio-pci`.
pub(super) struct Vfio {
    device: VfioDevice,
    interrupt: EventFd,
}

fn failed(what: &'static str) -> impl Fn(vfio_ioctls::VfioError) -> TransportError {
    move |error| TransportError::Io(what, Error::other(error))
}

impl Vfio {
    pub(super) fn open(address: PciAddress) -> Result<Self, TransportError> {
        let container = VfioContainer::new(None)
            .map_err(failed("cannot open /dev/vfio/vfio; check this user's permissions"))?;
        let device =
            VfioDevice::new(&address.folder(), Arc::new(container), false).map_err(failed(
                "cannot open the device through vfio-pci; check this user's permissions, and that no other program uses the device",
            ))?;
        let interrupt = EventFd::new(EFD_CLOEXEC | EFD_NONBLOCK)
            .map_err(|error| TransportError::Io("eventfd", error))?;
        let vfio = Self { device, interrupt };
        let mut command = [0; 2];
        vfio.device.region_read(CONFIG_REGION, &mut command, COMMAND);
        let command = u16::from_le_bytes(command) | COMMAND_MEMORY | COMMAND_MASTER;
        vfio.device.region_write(CONFIG_REGION, &command.to_le_bytes(), COMMAND);
        // A stock QEMU gives the device one vector.
        vfio.device.enable_msix(vec![&vfio.interrupt]).map_err(failed("cannot enable MSI-X"))?;
        Ok(vfio)
    }

    pub(super) fn config_space(&self) -> [u8; CONFIG_SIZE] {
        let mut config = [0; CONFIG_SIZE];
        self.device.region_read(CONFIG_REGION, &mut config, 0);
        config
    }

    pub(super) fn map(&self, window: Window) -> Result<MmapRegion, TransportError> {
        let region = u32::from(window.bar);
        let end = window.offset.checked_add(window.length);
        if end.is_none_or(|end| end > self.device.get_region_size(region)) {
            return Err(TransportError::Protocol("a structure lies outside its BAR".into()));
        }
        let file = duplicate(&self.device)
            .map_err(|error| TransportError::Io("cannot share the device's file", error))?;
        let offset = self.device.get_region_offset(region).saturating_add(window.offset);
        map_file(File::from(file), offset, window.length)
    }

    pub(super) fn interrupt(&self) -> BorrowedFd<'_> {
        borrow(&self.interrupt)
    }

    pub(super) fn take_interrupt(&self) -> Result<bool, TransportError> {
        match self.interrupt.read() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(TransportError::Io("eventfd", error)),
        }
    }
}

fn duplicate(device: &VfioDevice) -> std::io::Result<OwnedFd> {
    borrow(device).try_clone_to_owned()
}

fn borrow<T: AsRawFd>(owner: &T) -> BorrowedFd<'_> {
    // SAFETY: both types that this is called with own the descriptor and keep it open while they live, and the
    // returned lifetime is bound to theirs.
    #[expect(unsafe_code, reason = "neither VfioDevice nor EventFd implements AsFd")]
    unsafe {
        BorrowedFd::borrow_raw(owner.as_raw_fd())
    }
}
