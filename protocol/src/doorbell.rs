//! Doorbell status storage.
//!
//! Source: user-mode work submission, "Work submission pseudocode in UMD"; `D3DDDI_DOORBELLSTATUS`.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

open_enum! {
    /// What became of a doorbell: the lower half of its status word.
    pub struct ConnectionStatus: u32 {
        /// A physical doorbell watches the page; nothing more to do after a ring.
        CONNECTED = 0;
        /// As `CONNECTED`, but the device sleeps: notify once after a ring.
        CONNECTED_NOTIFY = 1;
        /// Nobody watches the page: connect and ring again.
        DISCONNECTED_RETRY = 2;
        /// The HW queue is lost: destroy it and create another, or submit in kernel mode.
        DISCONNECTED_ABORT = 3;
    }
}

/// A doorbell's status word: [`ConnectionStatus`] in the lower half, logging level in the upper.
///
/// Readers compare the lower half only; the upper half belongs to fence logging.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(transparent)]
pub struct DoorbellStatus(pub u64);

impl DoorbellStatus {
    /// The word for a status, with logging off.
    #[must_use]
    pub const fn new(connection: ConnectionStatus) -> Self {
        Self(connection.0 as u64)
    }

    /// The connection status, whatever the logging level.
    #[must_use]
    pub const fn connection(self) -> ConnectionStatus {
        ConnectionStatus(self.0 as u32)
    }
}

/// Private driver data of a doorbell (`D3DKMT_CREATE_DOORBELL`): what the user-mode driver tells the
/// kernel-mode driver of this GPU.
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

/// [`DoorbellPrivateData::flags`]: the doorbell is always connected as `CONNECTED_NOTIFY`, so that
/// the kernel-mode driver knows of each submission. Costs a request each time.
pub const NOTIFY_EACH_SUBMISSION: u32 = 1 << 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logging_level_does_not_change_the_connection_status() {
        let logged =
            DoorbellStatus(DoorbellStatus::new(ConnectionStatus::CONNECTED_NOTIFY).0 | 2 << 32);
        assert_eq!(logged.connection(), ConnectionStatus::CONNECTED_NOTIFY);
    }
}
