// SPDX-License-Identifier: MIT OR Apache-2.0

//! Doorbell status storage.
//!
//! Source: user-mode work submission, "Work submission pseudocode in UMD"; `D3DDDI_DOORBELLSTATUS`.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

open_enum! {
    /// State of a doorbell: the lower half of its status word.
    pub struct ConnectionStatus: u32 {
        /// A physical doorbell watches the page; a ring needs nothing more.
        CONNECTED = 0;
        /// As `CONNECTED`, but the engine may sleep: notify the host once after a ring.
        CONNECTED_NOTIFY = 1;
        /// No engine watches the page: connect and ring again.
        DISCONNECTED_RETRY = 2;
        /// The HW queue is lost: destroy it and create another, or submit in kernel mode.
        DISCONNECTED_ABORT = 3;
    }
}

open_enum! {
    /// `D3DDDI_LOGGING_LEVEL`: which fence operations engines log. A driver learns the level when it connects a
    /// doorbell.
    pub struct LoggingLevel: u32 {
        /// The signals and waits that programs ask for.
        DEFAULT = 0;
        /// `D3DDDI_LOGGING_LEVEL_ALL`: also those of progress fences, and when each operation was queued.
        VERBOSE = 1;
    }
}

/// A doorbell's status word (`D3DDDI_DOORBELLSTATUS_STORAGE`): [`ConnectionStatus`] in the lower half,
/// [`LoggingLevel`] in the upper.
///
/// After a ring, a driver compares the lower half only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(transparent)]
pub struct DoorbellStatus(pub u64);

impl DoorbellStatus {
    /// The word for a connection status, at the default logging level.
    #[must_use]
    pub const fn new(connection: ConnectionStatus) -> Self {
        Self(connection.0 as u64)
    }

    /// This status with another logging level.
    #[must_use]
    pub const fn with_logging_level(self, level: LoggingLevel) -> Self {
        Self((level.0 as u64) << 32 | self.connection().0 as u64)
    }

    /// The connection status without the logging level.
    #[must_use]
    pub const fn connection(self) -> ConnectionStatus {
        ConnectionStatus(self.0 as u32)
    }

    /// The logging level at the doorbell's last connect or disconnect.
    #[must_use]
    pub const fn logging_level(self) -> LoggingLevel {
        LoggingLevel((self.0 >> 32) as u32)
    }
}

impl From<ConnectionStatus> for DoorbellStatus {
    fn from(connection: ConnectionStatus) -> Self {
        Self::new(connection)
    }
}

/// The slot that holds a guest's global doorbell word.
pub const GLOBAL_DOORBELL_SLOT: u32 = 0;

/// Identifies the rings of one doorbell among those of its guest, in the global model: the upper half of the value
/// that the driver stores to the shared word.
///
/// Bits 0 to 15 count the guest's earlier doorbells, so that the next doorbell of a slot does not repeat the values
/// of the last one; bits 16 to 31 are the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(transparent)]
pub struct RingTag(pub u32);

impl RingTag {
    /// The tag of the guest's doorbell number `count`, which has slot `slot`.
    #[must_use]
    pub const fn new(slot: u16, count: u16) -> Self {
        Self((slot as u32) << 16 | count as u32)
    }

    /// The value that ring number `sequence` of this doorbell stores. A guest's rings all store different values
    /// unless a queue rings 2^32 times between two looks of an engine.
    #[must_use]
    #[inline]
    pub const fn value(self, sequence: u32) -> u64 {
        (self.0 as u64) << 32 | sequence as u64
    }

    /// The slot that a stored value names. A hostile guest may store any value.
    #[must_use]
    #[inline]
    pub const fn slot_of(value: u64) -> u32 {
        (value >> 48) as u32
    }
}

/// Private driver data of a doorbell (`D3DKMT_CREATE_DOORBELL`), from the user-mode driver to the kernel-mode
/// driver.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct DoorbellPrivateData {
    /// [`NOTIFY_EACH_SUBMISSION`] or 0.
    pub flags: u32,
    /// Zero.
    pub reserved: [u32; 3],
}
crate::assert_layout!(DoorbellPrivateData, 16, flags at 0, reserved at 4);

/// [`DoorbellPrivateData::flags`]: the doorbell always connects as `CONNECTED_NOTIFY`, so that the kernel-mode
/// driver learns of each submission. Costs a request per submission.
pub const NOTIFY_EACH_SUBMISSION: u32 = 1 << 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_names_its_slot_and_differs_from_every_other() {
        let tags = [RingTag::new(0, 0), RingTag::new(0, 1), RingTag::new(7, 1)];
        let values = tags.map(|tag| [tag.value(1), tag.value(u32::MAX)]);
        assert_eq!(values.map(|of_tag| of_tag.map(RingTag::slot_of)), [[0, 0], [0, 0], [7, 7]]);
        let all = values.as_flattened();
        assert!(all.iter().enumerate().all(|(at, value)| !all[at + 1..].contains(value)));
    }

    #[test]
    fn logging_level_does_not_change_the_connection_status() {
        let status = DoorbellStatus::new(ConnectionStatus::CONNECTED_NOTIFY);
        assert_eq!(status.logging_level(), LoggingLevel::DEFAULT);
        let logged = status.with_logging_level(LoggingLevel::VERBOSE);
        assert_eq!(logged.connection(), ConnectionStatus::CONNECTED_NOTIFY);
        assert_eq!(logged.logging_level(), LoggingLevel::VERBOSE);
        assert_eq!(logged.with_logging_level(LoggingLevel::DEFAULT), status);
    }
}
