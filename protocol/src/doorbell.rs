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

/// Most bytes of private driver data that a doorbell carries (`D3DKMT_CREATE_DOORBELL`).
pub const DOORBELL_PRIVATE_DATA: usize = 16;

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
