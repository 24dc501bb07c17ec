// SPDX-License-Identifier: MIT OR Apache-2.0

//! One fence: a global one, and what each process has of it.

use crate::dxgkrnl::fence::storage::FenceKind;
use crate::dxgkrnl::fence::waits::Waiters;
use crate::hardware::FenceStorage;
use crate::port::CrossFenceId;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::fence::FenceFlags;
use bellhop_protocol::handoff::fence::NOT_MONITORED;
use bellhop_protocol::snapshot;
use std::collections::BTreeMap;

/// MonitoredValue that makes each signal interrupt, since CurrentValue is always greater.
pub(crate) const EVERY_SIGNAL: u64 = 0;

/// A handle to a fence.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NativeFence {
    /// The global fence's slot.
    pub(crate) global: u32,
    /// The device that it was created or opened on; none for the progress fence of a HW queue, which
    /// goes with that.
    pub(crate) device: Option<Handle>,
}

/// What the kernel knows of a global fence.
#[derive(Debug)]
pub(crate) struct FenceState {
    /// Its kind, which says what engines and CPUs may do with it.
    kind: FenceKind,
    storage: FenceStorage,
    flags: FenceFlags,
    /// The fence that it is a view of, if other guests may have one.
    cross: Option<CrossFenceId>,
    /// Whether it is the progress fence of a HW queue.
    is_progress: bool,
    /// The process and the device that it was made on; none of a progress fence.
    parent: Option<(u32, Handle)>,
    /// What each process that has it open has of it.
    opened: BTreeMap<u32, LocalFence>,
    /// The name that it was shared by.
    name: Option<u64>,
    /// The CPU waits for it.
    waiters: Waiters,
    /// Whether it is signaled for good.
    always_signaled: bool,
    /// The value that the end of its queue waits for, while that is not reached.
    drain: Option<u64>,
    /// MonitoredValue as it was last told to the driver.
    monitored: u64,
    /// Tells it from what had its slot before, and will after: set when it is made.
    serial: u64,
}

/// What one process has of a fence.
#[derive(Debug, Clone, Copy)]
struct LocalFence {
    /// What its packets name it by.
    slot: u32,
    /// How many handles it has.
    handles: u32,
}

impl FenceState {
    /// A fence that no process has open and nothing waits for.
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

    /// What MonitoredValue must be, with all that waits: other guests that may have the fence are told
    /// of every signal.
    fn wanted_monitored(&self) -> u64 {
        if self.kind == FenceKind::Monitored || self.cross.is_some() {
            return EVERY_SIGNAL;
        }
        let drain = self.drain.map_or(NOT_MONITORED, |value| value.saturating_sub(1));
        self.waiters.monitored().min(drain)
    }

    /// The least value that it may be signaled with where CurrentValue is `current`.
    pub(crate) fn least(&self, current: u64) -> u64 {
        self.storage.rule.least(current)
    }

    /// Whether a signal concerns a wait, a drain or another guest.
    pub(crate) fn is_watched(&self) -> bool {
        self.cross.is_some() || self.drain.is_some() || self.waiters.len() > 0
    }

    /// The progress fence of a HW queue.
    pub(crate) fn of_queue(self) -> Self {
        Self { is_progress: true, ..self }
    }

    /// A view of a fence that other guests may have. Each signal of it interrupts.
    pub(crate) fn view_of(self, cross: CrossFenceId) -> Self {
        Self { cross: Some(cross), monitored: EVERY_SIGNAL, ..self }
    }

    /// The fence with a serial number that no other fence of its guest has.
    pub(crate) fn numbered(self, serial: u64) -> Self {
        Self { serial, ..self }
    }

    /// Its kind, which says what engines and CPUs may do with it.
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

    /// The fence that it is a view of, if other guests may have one.
    pub(crate) fn cross(&self) -> Option<CrossFenceId> {
        self.cross
    }

    /// Whether it is the progress fence of a HW queue.
    pub(crate) fn is_progress(&self) -> bool {
        self.is_progress
    }

    /// Tells it from what had its slot before, and will after.
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    /// The name that it was shared by.
    pub(crate) fn name(&self) -> Option<u64> {
        self.name
    }

    /// It is shared by a name from now on.
    pub(crate) fn set_name(&mut self, name: u64) {
        self.name = Some(name);
    }

    /// Whether it is signaled for good.
    pub(crate) fn is_always_signaled(&self) -> bool {
        self.always_signaled
    }

    /// It is signaled for good from now on.
    pub(crate) fn always_signal(&mut self) {
        self.always_signaled = true;
    }

    /// Whether a process made it on a device.
    pub(crate) fn is_child_of(&self, process: u32, device: Handle) -> bool {
        self.parent == Some((process, device))
    }

    /// A process made it on a device.
    pub(crate) fn set_parent(&mut self, process: u32, device: Option<Handle>) {
        self.parent = device.map(|device| (process, device));
    }

    /// A process has it open by a slot of its own, and no handle yet.
    pub(crate) fn open(&mut self, process: u32, slot: u32) {
        self.opened.insert(process, LocalFence { slot, handles: 0 });
    }

    /// The slot by which a process that has it open names it.
    pub(crate) fn slot_of(&self, process: u32) -> Option<u32> {
        self.opened.get(&process).map(|local| local.slot)
    }

    /// A process that has it open has one more handle.
    pub(crate) fn add_handle(&mut self, process: u32) {
        if let Some(local) = self.opened.get_mut(&process) {
            local.handles += 1;
        }
    }

    /// A process has one handle less. Whether it has others.
    pub(crate) fn drop_handle(&mut self, process: u32) -> bool {
        let Some(local) = self.opened.get_mut(&process) else { return false };
        local.handles = local.handles.saturating_sub(1);
        local.handles > 0
    }

    /// A process has it open no more. Returns the slot that it had for it.
    pub(crate) fn close(&mut self, process: u32) -> Option<u32> {
        self.opened.remove(&process).map(|local| local.slot)
    }

    /// Whether any process has it open.
    pub(crate) fn is_open(&self) -> bool {
        !self.opened.is_empty()
    }

    /// The CPU waits for it.
    pub(crate) fn waiters(&mut self) -> &mut Waiters {
        &mut self.waiters
    }

    /// The end of its queue waits until it has a value.
    pub(crate) fn await_drain(&mut self, value: u64) {
        self.drain = Some(value);
    }

    /// It was seen to have a value, which the end of its queue may wait for.
    pub(crate) fn reach_drain(&mut self, current: u64) {
        self.drain = self.drain.filter(|value| *value > current);
    }

    /// What the driver is to be told that MonitoredValue must be, if that is not what it was told.
    pub(crate) fn update_monitored(&mut self) -> Option<u64> {
        let wanted = self.wanted_monitored();
        let changed = wanted != self.monitored;
        self.monitored = wanted;
        changed.then_some(wanted)
    }

    /// What tools are told of it, by one of its handles.
    pub(crate) fn describe(&self, handle: Handle, value: u64) -> snapshot::Fence {
        snapshot::Fence {
            handle: handle.into(),
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
