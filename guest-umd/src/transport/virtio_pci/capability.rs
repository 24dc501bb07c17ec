// SPDX-License-Identifier: MIT OR Apache-2.0

//! The vendor-specific PCI capabilities of a virtio-pci device, which locate its structures.
//!
//! Source: VIRTIO 1.3, "Virtio Structure PCI Capabilities".

use super::TransportError;

/// Bytes of a PCI configuration space that hold capabilities.
pub(super) const CONFIG_SIZE: usize = 256;

/// Offset of the first capability's offset.
const FIRST: usize = 0x34;
/// Capabilities begin after the header.
const HEADER: usize = 0x40;
/// More than the number of capabilities that fit.
const MAX_CAPABILITIES: usize = 48;
/// A vendor-specific capability.
const VENDOR_SPECIFIC: u8 = 0x09;

const COMMON: u8 = 1;
const NOTIFY: u8 = 2;
const ISR: u8 = 3;
const DEVICE: u8 = 4;
const SHARED_MEMORY: u8 = 8;

/// A part of a BAR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    /// The number of the BAR.
    pub(super) bar: u8,
    /// Offset in bytes of the first byte in the BAR.
    pub(super) offset: u64,
    /// Length in bytes.
    pub(super) length: u64,
}

/// A VIRTIO shared-memory region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SharedMemory {
    /// Its id.
    pub(super) id: u8,
    /// Its place.
    pub(super) window: Window,
}

/// The structures that the driver needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Capabilities {
    /// The common configuration.
    pub(super) common: Window,
    /// The notification structure.
    pub(super) notify: Window,
    /// Multiplier of the queues' notification offsets, in bytes.
    pub(super) notify_multiplier: u32,
    /// The interrupt status.
    pub(super) isr: Window,
    /// The device's configuration space.
    pub(super) device: Window,
    /// The first shared-memory region.
    pub(super) shared_memory: Option<SharedMemory>,
}

impl Capabilities {
    /// Finds the structures in a PCI configuration space.
    pub(super) fn parse(config: &[u8; CONFIG_SIZE]) -> Result<Self, TransportError> {
        let mut common = None;
        let mut notify = None;
        let mut isr = None;
        let mut device = None;
        let mut shared_memory = None;
        let mut next = usize::from(config[FIRST]) & !3;
        for _ in 0..MAX_CAPABILITIES {
            if next < HEADER {
                break;
            }
            let Some(capability) = config.get(next..) else { break };
            // The first of each kind is the one that the device prefers.
            if let Some(Virtio { kind, id, window }) = Virtio::read(capability) {
                match kind {
                    COMMON => common = common.or(Some(window)),
                    NOTIFY => notify = notify.or(word(capability, 16).map(|m| (window, m))),
                    ISR => isr = isr.or(Some(window)),
                    DEVICE => device = device.or(Some(window)),
                    SHARED_MEMORY => {
                        let window = wide(capability, window);
                        let found = window.map(|window| SharedMemory { id, window });
                        shared_memory = shared_memory.or(found);
                    }
                    _ => {}
                }
            }
            next = capability.get(1).map_or(0, |next| usize::from(*next) & !3);
        }
        let missing = |what| TransportError::Protocol(format!("it has no {what} capability"));
        let (notify, notify_multiplier) = notify.ok_or_else(|| missing("notification"))?;
        Ok(Self {
            common: common.ok_or_else(|| missing("common-configuration"))?,
            notify,
            notify_multiplier,
            isr: isr.ok_or_else(|| missing("interrupt-status"))?,
            device: device.ok_or_else(|| missing("device-configuration"))?,
            shared_memory,
        })
    }
}

/// `struct virtio_pci_cap`.
struct Virtio {
    kind: u8,
    id: u8,
    window: Window,
}

impl Virtio {
    fn read(capability: &[u8]) -> Option<Self> {
        let [VENDOR_SPECIFIC, _, _, kind, bar, id, ..] = *capability else { return None };
        // There are six BARs. Other numbers are reserved, and a driver ignores them.
        if bar > 5 {
            return None;
        }
        let offset = word(capability, 8)?.into();
        let length = word(capability, 12)?.into();
        Some(Self { kind, id, window: Window { bar, offset, length } })
    }
}

/// `struct virtio_pci_cap64`: the upper halves of offset and length.
fn wide(capability: &[u8], window: Window) -> Option<Window> {
    let offset = window.offset | u64::from(word(capability, 16)?) << 32;
    let length = window.length | u64::from(word(capability, 20)?) << 32;
    Some(Window { offset, length, ..window })
}

fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    let bytes = bytes.get(offset..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Appends a capability of `kind` and links it to the previous one.
    fn add(config: &mut [u8; CONFIG_SIZE], at: &mut usize, link: &mut usize, body: &[u8]) {
        config[*link] = *at as u8;
        config[*at] = VENDOR_SPECIFIC;
        config[*at + 2] = 2 + body.len() as u8;
        config[*at + 3..][..body.len()].copy_from_slice(body);
        *link = *at + 1;
        *at += (3 + body.len()).next_multiple_of(4);
    }

    fn body(kind: u8, bar: u8, id: u8, words: &[u32]) -> Vec<u8> {
        let mut body = vec![kind, bar, id, 0, 0];
        body.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        body
    }

    fn complete() -> [u8; CONFIG_SIZE] {
        let mut config = [0; CONFIG_SIZE];
        let (mut at, mut link) = (HEADER, FIRST);
        let mut add = |body: Vec<u8>| add(&mut config, &mut at, &mut link, &body);
        add(body(COMMON, 2, 0, &[0, 0x38]));
        add(body(ISR, 2, 0, &[0x1000, 4]));
        add(body(DEVICE, 2, 0, &[0x2000, 64]));
        add(body(NOTIFY, 2, 0, &[0x3000, 0x1000, 4]));
        add(body(SHARED_MEMORY, 4, 0, &[0x1000, 0, 1, 2]));
        config
    }

    #[test]
    fn every_structure_is_found_where_its_capability_says() {
        let found = Capabilities::parse(&complete()).unwrap();
        let window = |offset, length| Window { bar: 2, offset, length };
        assert_eq!(found.common, window(0, 0x38));
        assert_eq!(found.isr, window(0x1000, 4));
        assert_eq!(found.device, window(0x2000, 64));
        assert_eq!((found.notify, found.notify_multiplier), (window(0x3000, 0x1000), 4));
        let window = Window { bar: 4, offset: 0x1_0000_1000, length: 0x2_0000_0000 };
        assert_eq!(found.shared_memory, Some(SharedMemory { id: 0, window }));
    }

    #[test]
    fn a_device_without_a_structure_is_an_error_and_without_shared_memory_is_not() {
        assert!(Capabilities::parse(&[0; CONFIG_SIZE]).is_err());
        let mut config = complete();
        let last = 0x40 + 4 * 16 + 4;
        assert_eq!(config[last + 3], SHARED_MEMORY);
        config[last + 3] = 0;
        assert_eq!(Capabilities::parse(&config).unwrap().shared_memory, None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), CONFIG_SIZE)) {
            let _ = Capabilities::parse(&bytes.try_into().unwrap());
        }
    }
}
