// SPDX-License-Identifier: MIT OR Apache-2.0

//! The common configuration: features, status, queues.
//!
//! Source: VIRTIO 1.3, "Common configuration structure layout" and "Device Initialization".

use super::TransportError;
use super::registers::Registers;
use crate::transport::virtqueue::QueueAddresses;
use bellhop_protocol::config::ConfigSpace;
use std::thread::yield_now;
use std::time::{Duration, Instant};
use zerocopy::{FromZeros, IntoBytes};

const DEVICE_FEATURE_SELECT: usize = 0;
const DEVICE_FEATURE: usize = 4;
const DRIVER_FEATURE_SELECT: usize = 8;
const DRIVER_FEATURE: usize = 12;
const CONFIG_MSIX_VECTOR: usize = 16;
const DEVICE_STATUS: usize = 20;
const CONFIG_GENERATION: usize = 21;
const QUEUE_SELECT: usize = 22;
const QUEUE_SIZE: usize = 24;
const QUEUE_MSIX_VECTOR: usize = 26;
const QUEUE_ENABLE: usize = 28;
const QUEUE_NOTIFY_OFFSET: usize = 30;
const QUEUE_DESCRIPTORS: usize = 32;
const QUEUE_DRIVER: usize = 40;
const QUEUE_DEVICE: usize = 48;

const ACKNOWLEDGE: u8 = 1;
const DRIVER: u8 = 2;
const DRIVER_OK: u8 = 4;
const FEATURES_OK: u8 = 8;

/// `VIRTIO_F_VERSION_1`.
const VERSION_1: u64 = 1 << 32;
/// Time limit for a reset. VIRTIO names no time and no event.
const RESET_TIME: Duration = Duration::from_secs(10);

/// The common configuration of a device.
pub(super) struct CommonConfig(Registers);

impl CommonConfig {
    pub(super) fn new(registers: Registers) -> Self {
        Self(registers)
    }

    fn status(&self) -> Result<u8, TransportError> {
        self.0.read(DEVICE_STATUS)
    }

    fn set_status(&self, status: u8) -> Result<(), TransportError> {
        self.0.write(DEVICE_STATUS, status)
    }

    /// Resets the device. When this returns, it uses no queue.
    pub(super) fn reset(&self) -> Result<(), TransportError> {
        self.set_status(0)?;
        let start = Instant::now();
        while self.status()? != 0 {
            if start.elapsed() > RESET_TIME {
                return Err(TransportError::Disconnected("it did not finish a reset".into()));
            }
            yield_now();
        }
        Ok(())
    }

    fn offered_features(&self) -> Result<u64, TransportError> {
        let half = |select: u32| -> Result<u64, TransportError> {
            self.0.write(DEVICE_FEATURE_SELECT, select)?;
            self.0.read::<u32>(DEVICE_FEATURE).map(u64::from)
        };
        Ok(half(0)? | half(1)? << 32)
    }

    /// Accepts features, after a reset.
    pub(super) fn negotiate(&self) -> Result<(), TransportError> {
        self.set_status(ACKNOWLEDGE)?;
        self.set_status(ACKNOWLEDGE | DRIVER)?;
        let offered = self.offered_features()?;
        if offered & VERSION_1 == 0 {
            return Err(TransportError::Protocol("it is not a VIRTIO 1 device".into()));
        }
        for (select, half) in [(0u32, VERSION_1 as u32), (1, (VERSION_1 >> 32) as u32)] {
            self.0.write(DRIVER_FEATURE_SELECT, select)?;
            self.0.write(DRIVER_FEATURE, half)?;
        }
        self.set_status(ACKNOWLEDGE | DRIVER | FEATURES_OK)?;
        if self.status()? & FEATURES_OK == 0 {
            return Err(TransportError::Protocol("it refuses the features that it offers".into()));
        }
        Ok(())
    }

    /// Lets the device run.
    pub(super) fn driver_ok(&self) -> Result<(), TransportError> {
        self.set_status(ACKNOWLEDGE | DRIVER | FEATURES_OK | DRIVER_OK)
    }

    /// Sets no MSI-X vector for changes of the configuration, which does not change.
    pub(super) fn set_config_vector(&self, vector: u16) -> Result<(), TransportError> {
        self.0.write(CONFIG_MSIX_VECTOR, vector)
    }

    /// Offset of a queue in the notification structure, in multiples of the capability's multiplier.
    pub(super) fn notify_offset(&self, queue: u16) -> Result<u16, TransportError> {
        self.0.write(QUEUE_SELECT, queue)?;
        self.0.read(QUEUE_NOTIFY_OFFSET)
    }

    /// Tells the device where a queue is.
    pub(super) fn enable_queue(
        &self,
        queue: u16,
        size: u16,
        addresses: QueueAddresses,
        vector: u16,
    ) -> Result<(), TransportError> {
        self.0.write(QUEUE_SELECT, queue)?;
        let largest: u16 = self.0.read(QUEUE_SIZE)?;
        if largest < size {
            return Err(TransportError::Protocol(format!(
                "its queue {queue} has room for {largest} descriptors and not for {size}; give \
                 the device larger queues"
            )));
        }
        self.0.write(QUEUE_SIZE, size)?;
        self.0.write(QUEUE_MSIX_VECTOR, vector)?;
        if self.0.read::<u16>(QUEUE_MSIX_VECTOR)? != vector {
            return Err(TransportError::Protocol("it has no interrupt for a queue".into()));
        }
        for (register, address) in [
            (QUEUE_DESCRIPTORS, addresses.descriptors),
            (QUEUE_DRIVER, addresses.available),
            (QUEUE_DEVICE, addresses.used),
        ] {
            // VIRTIO asks for two 32-bit accesses.
            self.0.write(register, address as u32)?;
            self.0.write(register + 4, (address >> 32) as u32)?;
        }
        self.0.write(QUEUE_ENABLE, 1u16)
    }

    /// Reads a consistent copy of the device's own configuration.
    pub(super) fn read_device_config(
        &self,
        device: &Registers,
    ) -> Result<ConfigSpace, TransportError> {
        let generation = || self.0.read::<u8>(CONFIG_GENERATION);
        let mut config = ConfigSpace::new_zeroed();
        // It changes only while the device is being attached.
        let start = Instant::now();
        loop {
            let before = generation()?;
            for (place, bytes) in config.as_mut_bytes().chunks_exact_mut(4).enumerate() {
                bytes.copy_from_slice(&device.read::<u32>(4 * place)?.to_le_bytes());
            }
            if generation()? == before {
                return Ok(config);
            }
            if start.elapsed() > RESET_TIME {
                let problem = "its configuration keeps changing";
                return Err(TransportError::Protocol(problem.into()));
            }
        }
    }
}
