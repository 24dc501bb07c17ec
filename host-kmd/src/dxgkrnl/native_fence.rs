//! Native fences and their CPU waiters.
//!
//! Source: native GPU fence object, "Existing monitored fence synchronization object" and
//! "Synchronization issues".

use super::device::Device;
use super::error::RequestError;
use super::guest::SlotOwner;
use super::request::{Answer, Handled};
use super::retire::Resource;
use super::scope::Scope;
use super::waits::Waits;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::fence::{
    CancelWait, CreateNativeFence, CreateNativeFenceReply, DestroyNativeFence, WaitForFence,
};
use bellhop_protocol::event::{Event, EventKind};
use bellhop_protocol::handoff::fence::NOT_MONITORED;
use bellhop_protocol::snapshot;
use zerocopy::FromZeros;

/// What a fence goes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FenceOwner {
    /// The device that it was created on.
    Device(Handle),
    /// The HW queue whose progress fence it is.
    HwQueue,
}

/// A native fence.
#[derive(Debug)]
pub(super) struct NativeFence {
    slot: u32,
    owner: FenceOwner,
    waits: Waits,
    /// The value that the end of its queue waits for, while that is not reached.
    drain: Option<u64>,
    /// MonitoredValue as it was last told to the driver.
    monitored: u64,
}

impl NativeFence {
    /// Its slot.
    pub(super) fn slot(&self) -> u32 {
        self.slot
    }

    /// What tools are told of it.
    pub(super) fn describe(&self, handle: Handle, value: u64) -> snapshot::Fence {
        snapshot::Fence {
            handle: handle.into(),
            value,
            monitored: (self.monitored != NOT_MONITORED).then_some(self.monitored),
            waits: self.waits.len() as u64,
        }
    }

    /// What MonitoredValue must be, with all who wait.
    fn wanted_monitored(&self) -> u64 {
        let drain = self.drain.map_or(NOT_MONITORED, |value| value.saturating_sub(1));
        self.waits.monitored().min(drain)
    }
}

impl Scope<'_> {
    /// `D3DKMTCreateNativeFence`.
    pub(super) fn create_native_fence(
        &mut self,
        request: CreateNativeFence,
    ) -> Handled<CreateNativeFenceReply> {
        self.get::<Device>(request.device)?;
        let owner = FenceOwner::Device(request.device);
        let (fence, slot) = self.insert_fence(owner, request.initial_value)?;
        self.get_mut::<Device>(request.device)?.fences.insert(fence);
        Ok(Answer::Done(CreateNativeFenceReply {
            fence,
            current_value_offset: self.guest.resources.bar.fence(slot),
            slot,
            reserved: 0,
        }))
    }

    /// Makes a fence; returns its handle and its slot.
    pub(super) fn insert_fence(
        &mut self,
        owner: FenceOwner,
        initial_value: u64,
    ) -> Result<(Handle, u32), RequestError> {
        let space = self.process()?.space;
        let slot = self.guest.fence_slots.take().ok_or(RequestError::QuotaExceeded {
            what: "native fences",
            limit: self.guest.resources.bar.fence_count.into(),
        })?;
        let waits = Waits::default();
        let fence = self
            .insert(NativeFence { slot, owner, waits, drain: None, monitored: NOT_MONITORED })
            .inspect_err(|_| self.guest.fence_slots.give_back(slot))?;
        self.guest.fences.insert(slot, SlotOwner { process: self.process_id, fence });
        self.miniport.create_native_fence(self.guest_id, slot, space, initial_value);
        Ok((fence, slot))
    }

    /// `D3DKMTDestroySynchronizationObject`. A progress fence goes with its queue only.
    pub(super) fn destroy_native_fence(&mut self, request: DestroyNativeFence) -> Handled<()> {
        if self.get::<NativeFence>(request.fence)?.owner == FenceOwner::HwQueue {
            return Err(RequestError::Busy(request.fence));
        }
        self.remove_fence(request.fence)?;
        Ok(Answer::AfterQuiesce)
    }

    /// Destroys a fence. Its waiters are forgotten.
    pub(super) fn remove_fence(&mut self, handle: Handle) -> Result<(), RequestError> {
        let fence = self.remove::<NativeFence>(handle)?;
        self.miniport.destroy_native_fence(self.guest_id, fence.slot);
        self.guest.fences.remove(&fence.slot);
        self.guest.quotas.waits.refund(fence.waits.len() as u64);
        self.given_up.push(Resource::FenceSlot(fence.slot));
        // The device is gone already when it takes its fences with it.
        if let FenceOwner::Device(device) = fence.owner
            && let Ok(device) = self.get_mut::<Device>(device)
        {
            device.fences.remove(&handle);
        }
        Ok(())
    }

    /// `D3DKMTWaitForSynchronizationObjectFromCpu`.
    pub(super) fn wait_for_fence(&mut self, request: WaitForFence) -> Handled<()> {
        let slot = self.get::<NativeFence>(request.fence)?.slot;
        if self.hardware.fence_value(self.guest_id, slot) >= request.value {
            return Ok(Answer::Done(()));
        }
        self.guest.quotas.waits.charge(1)?;
        let fence = self.get_mut::<NativeFence>(request.fence)?;
        let sequence = fence.waits.add(request.value, request.cookie);
        // The value may have been reached since: no event then, the reply tells.
        let is_reached = self.satisfy_waits(request.fence, Some(sequence))?;
        Ok(if is_reached { Answer::Done(()) } else { Answer::Pending })
    }

    /// Takes a wait back.
    pub(super) fn cancel_wait(&mut self, request: CancelWait) -> Handled<()> {
        if !self.get_mut::<NativeFence>(request.fence)?.waits.cancel(request.cookie) {
            return Err(RequestError::parameter("cookie", request.cookie));
        }
        self.guest.quotas.waits.refund(1);
        self.satisfy_waits(request.fence, None)?;
        Ok(Answer::Done(()))
    }

    /// Asks for an interrupt when a queue's progress fence reaches `value`. Returns the fence's slot,
    /// unless it has reached the value already.
    pub(super) fn drain_fence(
        &mut self,
        handle: Handle,
        value: u64,
    ) -> Result<Option<u32>, RequestError> {
        let fence = self.get_mut::<NativeFence>(handle)?;
        let slot = fence.slot;
        fence.drain = Some(value);
        self.satisfy_waits(handle, None)?;
        Ok(self.get::<NativeFence>(handle)?.drain.map(|_| slot))
    }

    /// Makes a fence always signaled: whoever waits goes on.
    pub(super) fn signal_always(&mut self, handle: Handle) {
        let Ok(&NativeFence { slot, .. }) = self.get::<NativeFence>(handle) else { return };
        self.miniport.signal_fence_always(self.guest_id, slot);
        if let Err(error) = self.satisfy_waits(handle, None) {
            tracing::error!(fence = %handle, %error, "a fence is missing");
        }
    }

    /// Satisfies the waiters that CurrentValue has reached and keeps MonitoredValue at the least
    /// waited value minus 1. Returns whether the waiter `own` is among them; the others are told.
    ///
    /// The order is protocol::handoff::fence's, `monitor` there: store MonitoredValue, full fence,
    /// re-sample CurrentValue. So this ends only when nobody is reached by a value that was
    /// sampled after the MonitoredValue that stands.
    pub(super) fn satisfy_waits(
        &mut self,
        handle: Handle,
        own: Option<u64>,
    ) -> Result<bool, RequestError> {
        let (guest, process) = (self.guest_id, self.process_id);
        let mut own_is_reached = false;
        let slot = self.get::<NativeFence>(handle)?.slot;
        let mut current = self.hardware.fence_value(guest, slot);
        loop {
            while let Some(wait) = self.get_mut::<NativeFence>(handle)?.waits.take_reached(current)
            {
                self.guest.quotas.waits.refund(1);
                if own == Some(wait.sequence) {
                    own_is_reached = true;
                    continue;
                }
                self.event(Event {
                    kind: EventKind::FENCE_SIGNALED,
                    process,
                    object: handle.0,
                    value: current,
                    cookie: wait.cookie,
                    ..Event::new_zeroed()
                });
            }
            let fence = self.get_mut::<NativeFence>(handle)?;
            fence.drain = fence.drain.filter(|value| *value > current);
            let monitored = fence.wanted_monitored();
            if monitored == fence.monitored {
                return Ok(own_is_reached);
            }
            fence.monitored = monitored;
            current = self.miniport.update_monitored_values(guest, slot, monitored);
        }
    }
}
