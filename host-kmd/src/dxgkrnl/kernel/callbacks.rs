// SPDX-License-Identifier: MIT OR Apache-2.0

//! The driver's callbacks: it takes a physical doorbell, or reports an interrupt.

use crate::ddi::{DxgkCallbacks, InvalidParameter};
use crate::dxgkrnl::doorbell::state::DisconnectReason;
use crate::dxgkrnl::doorbell::table::Doorbells;
use crate::hardware::{HwQueueId, Interrupt};
use bellhop_protocol::doorbell::ConnectionStatus;

/// The state that the driver's callbacks change.
pub(crate) struct Callbacks {
    /// The doorbells of all guests.
    pub(crate) doorbells: Doorbells,
    /// Interrupts that the interrupt routine left for the DPC.
    interrupts: Vec<Interrupt>,
}

impl Callbacks {
    /// Creates the state with these doorbells and no interrupt.
    pub(crate) fn new(doorbells: Doorbells) -> Self {
        Self { doorbells, interrupts: Vec::new() }
    }

    /// Takes the interrupts that the interrupt routine left for the DPC.
    pub(crate) fn take_interrupts(&mut self) -> Vec<Interrupt> {
        std::mem::take(&mut self.interrupts)
    }
}

impl DxgkCallbacks for Callbacks {
    fn disconnect_doorbell(
        &mut self,
        queue: HwQueueId,
        reason: ConnectionStatus,
    ) -> Result<(), InvalidParameter> {
        let reason = DisconnectReason::try_from(reason)?;
        let unknown = InvalidParameter::UnknownDoorbell(queue);
        self.doorbells.victimise(queue, reason).ok_or(unknown)
    }

    fn notify_interrupt(&mut self, interrupt: Interrupt) {
        self.interrupts.push(interrupt);
    }
}
