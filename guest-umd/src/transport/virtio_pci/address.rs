// SPDX-License-Identifier: MIT OR Apache-2.0

//! The devices of the guest, and the kernel driver bound to each.

use super::TransportError;
use bellhop_protocol::config::VIRTIO_DEVICE_ID;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

const DEVICES: &str = "/sys/bus/pci/devices";
/// PCI vendor id of virtio devices.
const VENDOR: u32 = 0x1af4;
/// PCI device id of a virtio device, minus its virtio id.
const DEVICE_BASE: u32 = 0x1040;

/// The address of a device on the VM's PCI buses, in the format of `lspci -D`: `0000:01:00.0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PciAddress {
    domain: u16,
    bus: u8,
    device: u8,
    function: u8,
}

impl PciAddress {
    /// The device's folder in sysfs.
    pub(super) fn folder(self) -> PathBuf {
        Path::new(DEVICES).join(self.to_string())
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function}")
    }
}

/// A text that is not a PCI address.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not a PCI address such as 0000:01:00.0")]
pub struct NotAnAddress(String);

impl FromStr for PciAddress {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<Self, NotAnAddress> {
        let parse = || {
            let (domain, rest) = text.split_once(':')?;
            let (bus, rest) = rest.split_once(':')?;
            let (device, function) = rest.split_once('.')?;
            Some(Self {
                domain: u16::from_str_radix(domain, 16).ok()?,
                bus: u8::from_str_radix(bus, 16).ok()?,
                device: u8::from_str_radix(device, 16).ok().filter(|device| *device < 32)?,
                function: function.parse().ok().filter(|function| *function < 8)?,
            })
        };
        parse().ok_or_else(|| NotAnAddress(text.into()))
    }
}

/// The kernel driver that gives access to a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attachment {
    /// `vfio-pci`: interrupts by MSI-X.
    Vfio,
    /// `uio_pci_generic`: interrupts by INTx.
    Uio,
}

impl fmt::Display for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vfio => "vfio-pci",
            Self::Uio => "uio_pci_generic",
        })
    }
}

impl Attachment {
    /// The kernel driver bound to the device at an address.
    pub(super) fn of(address: PciAddress) -> Result<Self, TransportError> {
        let driver = fs::read_link(address.folder().join("driver"));
        let driver = driver.as_deref().ok().and_then(Path::file_name);
        match driver.and_then(|name| name.to_str()) {
            Some("vfio-pci") => Ok(Self::Vfio),
            Some("uio_pci_generic") => Ok(Self::Uio),
            other => Err(TransportError::NotAttached {
                address: address.to_string(),
                driver: other.unwrap_or("no driver").into(),
            }),
        }
    }
}

/// The devices with the virtio id of a Bellhop GPU, by address. Opening one tells whether it is a Bellhop GPU.
///
/// # Errors
/// If the guest's kernel does not list its devices.
pub fn discover() -> Result<Vec<PciAddress>, TransportError> {
    discover_in(Path::new(DEVICES))
}

fn discover_in(folder: &Path) -> Result<Vec<PciAddress>, TransportError> {
    let failed = |error| TransportError::Io("cannot list the PCI devices", error);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let number = |name: &str| {
            let text = fs::read_to_string(entry.path().join(name)).ok()?;
            u32::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
        };
        let is_ours = number("vendor") == Some(VENDOR)
            && number("device") == Some(DEVICE_BASE + VIRTIO_DEVICE_ID);
        if let (true, Some(name)) = (is_ours, entry.file_name().to_str()) {
            found.extend(name.parse::<PciAddress>());
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_is_written() {
        for text in ["0000:00:00.0", "0001:ff:1f.7"] {
            assert_eq!(text.parse::<PciAddress>().unwrap().to_string(), text);
        }
        for text in ["", "0000:00:00", "0000:00:20.0", "0000:00:00.8", "00:00.0", "0:0:0.0.0"] {
            assert!(text.parse::<PciAddress>().is_err(), "{text}");
        }
    }
}
