// SPDX-License-Identifier: MIT OR Apache-2.0

//! One fence: the global fence, and each process's local view of it.

use crate::dxgkrnl::fence::storage::FenceKind;
use crate::dxgkrnl::fence::waits::Waiters;
use crate::hardware::FenceStorage;
use crate::port::CrossFenceId;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::fence::FenceFlags;
use bellhop_protocol::handoff::fence::NOT_MONITORED;
use bellhop_protocol::snapshot;
use std::collections::BTreeMap;

/// MonitoredValue that makes every signal interrupt, because CurrentValue is always greater.
pub(crate) const EVERY_SIGNAL: u64 = 0;

/// A handle to a fence.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NativeFence {
    /// The global fence's slot.
    pub(crate) global: u32,
    /// The device on which the fence was created or opened. `None` for the progress fence of a HW queue, which is
    /// destroyed with its queue.
    pub(crate) device: Option<Handle>,
}

/// The state that the kernel keeps for a global fence.
#[derive(Debug)]
pub(crate) struct FenceState {
    /// Its kind, which determines what engines and CPUs may do with it.
    kind: FenceKind,
    storage: FenceStorage,
    flags: FenceFlags,
    /// The cross-adapter fence of which this is a view, if other guests may have one.
    cross: Option<CrossFenceId>,
    /// Whether it is the progress fence of a HW queue.
    is_progress: bool,
    /// The process and the device that created it; `None` for a progress fence.
    parent: Option<(u32, Handle)>,
    /// The local view of each process that has opened it.
    opened: BTreeMap<u32, LocalFence>,
    /// The name under which it is shared.
    name: Option<u64>,
    /// The CPU waits for it.
    waiters: Waiters,
    /// Whether it stays signaled permanently.
    always_signaled: bool,
    /// The value that the draining of its queue waits for, until it is reached.
    drain: Option<u64>,
    /// The MonitoredValue that the driver was last told.
    monitored: u64,
    /// Distinguishes it from earlier and later fences in the same slot; set when it is added.
    serial: u64,
}

/// One process's local view of a fence.
#[derive(Debug, Clone, Copy)]
struct LocalFence {
    /// The slot by which its packets name the fence.
    slot: u32,
    /// Number of its handles.
    handles: u32,
}

impl FenceState {
    /// Creates a fence that no process has opened and nothing waits for.
    pub(crate) fn new(kind: FenceKind, storage: FenceStorage, flags: FenceFlags) -> Self {
        Self {
            kind,
            storage,
            flags,
            cross: None,
            is_progress: false,
            parent: None,
            opened: BTreeMap::new(),
            name: None,
            waiters: Waiters::default(),
            always_signaled: false,
            drain: None,
            serial: 0,
            monitored: match kind {
                FenceKind::Native(_) => NOT_MONITORED,
                FenceKind::Monitored => EVERY_SIGNAL,
            },
        }
    }

    /// The MonitoredValue that its waits require. Other guests that may have the fence are told of every signal.
    fn wanted_monitored(&self) -> u64 {
        if self.kind == FenceKind::Monitored || self.cross.is_some() {
            return EVERY_SIGNAL;
        }
        let drain = self.drain.map_or(NOT_MONITORED, |value| value.saturating_sub(1));
        self.waiters.monitored().min(drain)
    }

    /// The least value that may signal the fence while CurrentValue is `current`.
    pub(crate) fn least(&self, current: u64) -> u64 {
        self.storage.rule.least(current)
    }

    /// Whether a signal can matter to a wait, a drain or another guest.
    pub(crate) fn is_watched(&self) -> bool {
        self.cross.is_some() || self.drain.is_some() || self.waiters.len() > 0
    }

    /// Makes it the progress fence of a HW queue.
    pub(crate) fn of_queue(self) -> Self {
        Self { is_progress: true, ..self }
    }

    /// Makes it a view of a fence that other guests may have. Each signal interrupts.
    pub(crate) fn view_of(self, cross: CrossFenceId) -> Self {
        Self { cross: Some(cross), monitored: EVERY_SIGNAL, ..self }
    }

    /// Gives it a serial number that is unique in its guest.
    pub(crate) fn numbered(self, serial: u64) -> Self {
        Self { serial, ..self }
    }

    /// Its kind, which determines what engines and CPUs may do with it.
    pub(crate) fn kind(&self) -> FenceKind {
        self.kind
    }

    /// Where its values are.
    pub(crate) fn storage(&self) -> FenceStorage {
        self.storage
    }

    /// Whether it may be shared.
    pub(crate) fn is_shareable(&self) -> bool {
        self.flags.contains(FenceFlags::SHARED)
    }

    /// The cross-adapter fence of which this is a view, if other guests may have one.
    pub(crate) fn cross(&self) -> Option<CrossFenceId> {
        self.cross
    }

    /// Whether it is the progress fence of a HW queue.
    pub(crate) fn is_progress(&self) -> bool {
        self.is_progress
    }

    /// Distinguishes it from earlier and later fences in the same slot.
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    /// The name under which it is shared.
    pub(crate) fn name(&self) -> Option<u64> {
        self.name
    }

    /// Sets the name under which it is shared.
    pub(crate) fn set_name(&mut self, name: u64) {
        self.name = Some(name);
    }

    /// Whether it stays signaled permanently.
    pub(crate) fn is_always_signaled(&self) -> bool {
        self.always_signaled
    }

    /// Makes it permanently signaled.
    pub(crate) fn always_signal(&mut self) {
        self.always_signaled = true;
    }

    /// Whether this process created it on this device.
    pub(crate) fn is_child_of(&self, process: u32, device: Handle) -> bool {
        self.parent == Some((process, device))
    }

    /// Records the process and the device that created it.
    pub(crate) fn set_parent(&mut self, process: u32, device: Option<Handle>) {
        self.parent = device.map(|device| (process, device));
    }

    /// A process opens it under a local slot, with no handle yet.
    pub(crate) fn open(&mut self, process: u32, slot: u32) {
        self.opened.insert(process, LocalFence { slot, handles: 0 });
    }

    /// The slot by which a process that has opened it names it.
    pub(crate) fn slot_of(&self, process: u32) -> Option<u32> {
        self.opened.get(&process).map(|local| local.slot)
    }

    /// Adds a handle for a process that has opened it.
    pub(crate) fn add_handle(&mut self, process: u32) {
        if let Some(local) = self.opened.get_mut(&process) {
            local.handles += 1;
        }
    }

    /// Removes a handle of a process. Returns whether the process has others.
    pub(crate) fn drop_handle(&mut self, process: u32) -> bool {
        let Some(local) = self.opened.get_mut(&process) else { return false };
        local.handles = local.handles.saturating_sub(1);
        local.handles > 0
    }

    /// A process closes it. Returns the slot that the process had for it.
    pub(crate) fn close(&mut self, process: u32) -> Option<u32> {
        self.opened.remove(&process).map(|local| local.slot)
    }

    /// Whether any process has opened it.
    pub(crate) fn is_open(&self) -> bool {
        !self.opened.is_empty()
    }

    /// The CPU waits for it.
    pub(crate) fn waiters(&mut self) -> &mut Waiters {
        &mut self.waiters
    }

    /// Lets the draining of its queue wait until the fence has this value.
    pub(crate) fn await_drain(&mut self, value: u64) {
        self.drain = Some(value);
    }

    /// The fence has reached this value: ends a drain's wait for it.
    pub(crate) fn reach_drain(&mut self, current: u64) {
        self.drain = self.drain.filter(|value| *value > current);
    }

    /// The new MonitoredValue to tell the driver, if it has changed since the driver was told.
    pub(crate) fn update_monitored(&mut self) -> Option<u64> {
        let wanted = self.wanted_monitored();
        let changed = wanted != self.monitored;
        self.monitored = wanted;
        changed.then_some(wanted)
    }

    /// Describes it for tools, under one of its handles and what the process calls that.
    pub(crate) fn describe(
        &self,
        (handle, name): (snapshot::Name, Option<String>),
        value: u64,
    ) -> snapshot::Fence {
        snapshot::Fence {
            handle,
            name,
            value,
            monitored: (self.storage.native && self.monitored != NOT_MONITORED)
                .then_some(self.monitored),
            waits: self.waiters.len() as u64,
            cross_adapter: self.cross.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dxgkrnl::fence::storage::ValueStorage;
    use crate::dxgkrnl::fence::waits::WaitId;
    use bellhop_protocol::control::fence::NativeFenceType;

    fn fence(kind: FenceKind) -> FenceState {
        let storage = ValueStorage::new(64, 0, None).of(0, kind);
        FenceState::new(kind, storage, FenceFlags::empty())
    }

    #[test]
    fn the_driver_is_told_of_a_monitored_value_only_when_it_changes() {
        let mut fence = fence(FenceKind::Native(NativeFenceType::DEFAULT));
        assert_eq!(fence.update_monitored(), None);
        fence.waiters().add(7, WaitId::numbered(1));
        fence.await_drain(5);
        assert_eq!(fence.update_monitored(), Some(4));
        assert_eq!(fence.update_monitored(), None);
        fence.reach_drain(4);
        assert_eq!(fence.update_monitored(), None);
        fence.reach_drain(5);
        assert_eq!(fence.update_monitored(), Some(6));
        fence.waiters().remove(7, WaitId::numbered(1));
        assert_eq!(fence.update_monitored(), Some(NOT_MONITORED));
    }

    #[test]
    fn every_signal_of_a_monitored_fence_and_of_a_view_interrupts() {
        let native = FenceKind::Native(NativeFenceType::DEFAULT);
        for mut fence in [fence(FenceKind::Monitored), fence(native).view_of(CrossFenceId(3))] {
            fence.waiters().add(7, WaitId::numbered(1));
            assert_eq!(fence.update_monitored(), None);
            assert_eq!(fence.wanted_monitored(), EVERY_SIGNAL);
        }
    }

    #[test]
    fn a_process_has_a_fence_open_until_its_last_handle_goes() {
        let mut fence = fence(FenceKind::Monitored);
        fence.open(1, 9);
        fence.add_handle(1);
        fence.add_handle(1);
        assert!(fence.drop_handle(1) && !fence.drop_handle(1));
        assert_eq!((fence.slot_of(1), fence.slot_of(2)), (Some(9), None));
        assert_eq!(fence.close(1), Some(9));
        assert!(!fence.is_open());
    }
}
