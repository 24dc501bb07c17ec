// SPDX-License-Identifier: MIT OR Apache-2.0

//! Doorbells: connected, disconnected, destroyed.
//!
//! Source: user-mode work submission, "Victimizing doorbell pseudocode in KMD".

use crate::ddi::{ConnectedStatus, Miniport};
use crate::dxgkrnl::doorbell::object::Doorbell;
use crate::dxgkrnl::doorbell::state::DisconnectReason;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::callbacks::Callbacks;
use crate::dxgkrnl::memory::allocation::{Allocation, HostMapping};
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::resource::Resource;
use crate::hardware::{HwQueueId, Reported as _, RotationProgress};
use crate::vidmm::error::VidMmError;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::gpu_va::Protection;

/// Disconnects a queue's doorbell. The order is that of `disconnect` in protocol::handoff::doorbell: status and full
/// fence here, then the driver stops the watch and looks once more.
pub(crate) fn disconnect(
    callbacks: &mut Callbacks,
    miniport: &mut dyn Miniport,
    queue: HwQueueId,
    reason: DisconnectReason,
) {
    callbacks.doorbells.publish_disconnected(queue, reason);
    miniport.disconnect_doorbell(queue);
}

impl ProcessAccess<'_> {
    /// Connects a disconnected doorbell. The order is that of `connect` in protocol::handoff::doorbell: watch,
    /// status, then one look at the ring. A guest may have rung the page while no physical doorbell watched it, and
    /// have read the new status, or an older connected one, afterwards.
    ///
    /// Returns `None` if the status and the look must wait for the doorbell's page.
    pub(crate) fn connect(
        &mut self,
        queue: HwQueueId,
        node: u32,
    ) -> Result<Option<ConnectedStatus>, RequestError> {
        self.power.wake_engine(node, self.miniport);
        let status = self.miniport.connect_doorbell(queue, self.callbacks)?;
        if self.platform.rotate_to_physical(queue).reported() == RotationProgress::Pending {
            self.callbacks.doorbells.begin_connect(queue, status);
            return Ok(None);
        }
        self.callbacks.doorbells.publish_connected(queue, status);
        self.miniport.notify_work_submission(queue)?;
        Ok(Some(status))
    }

    /// The queue that has a doorbell.
    pub(crate) fn queue_of_doorbell(&self, doorbell: Handle) -> Option<Handle> {
        let queue = self.get::<Doorbell>(doorbell).ok()?.queue();
        self.queues.get(&queue).map(|owner| owner.handle)
    }

    /// Destroys a doorbell. The queue and the allocations of the ring stay.
    pub(crate) fn remove_doorbell(&mut self, handle: Handle) -> Result<(), RequestError> {
        let doorbell = self.remove::<Doorbell>(handle)?;
        let queue = doorbell.queue();
        self.forget_host_mappings(doorbell.allocations(), doorbell.holds());
        // The status is aborted, so that a guest thread that still rings the doorbell does not reconnect it.
        disconnect(self.callbacks, self.miniport, queue, DisconnectReason::Abort);
        self.miniport.destroy_doorbell(queue);
        self.callbacks.doorbells.destroy(queue);
        self.give_up_all(doorbell.into_holds());
        Ok(())
    }

    /// Drops the host mappings of these allocations that a doorbell holds.
    pub(crate) fn forget_host_mappings(&mut self, allocations: [Handle; 2], holds: &[Resource]) {
        let is_held = |mapping: &HostMapping| {
            let is_it = |hold: &Resource| matches!(hold, Resource::GpuVa { range, .. } if *range == mapping.range);
            holds.iter().any(is_it)
        };
        for handle in allocations {
            // Destroying a device may destroy the allocation before the doorbell.
            if let Ok(allocation) = self.get_mut::<Allocation>(handle) {
                allocation.remove_host_mappings(is_held);
            }
        }
    }

    /// Maps the start of an allocation where the guest cannot unmap it.
    pub(crate) fn map_for_host(
        &mut self,
        allocation: Handle,
        length: u64,
        protection: Protection,
        holds: &mut Vec<Resource>,
    ) -> Result<HostMapping, RequestError> {
        let range =
            self.process()?.gpu_va.take_for_host(length).ok_or(VidMmError::NoRoom(length))?;
        holds.push(Resource::GpuVa { process: self.process_id, range, paged: false });
        self.write_mapping(allocation, range, 0, protection)?;
        let mapping = HostMapping { allocation, range, protection };
        self.get_mut::<Allocation>(allocation)?.add_host_mapping(mapping);
        Ok(mapping)
    }
}
