// SPDX-License-Identifier: MIT OR Apache-2.0

//! The model's fences and the logs of its queues.

use crate::model::{Call, Fence, Model};
use bellhop_host_kmd::hardware::{
    AddressSpaceId, CurrentValues, FenceLogBuffer, FenceLogContents, FenceLogs, FenceStorage,
    Fences, GuestId, HwQueueId, QueueLog, SlotValue, UnknownId,
};
use bellhop_protocol::doorbell::LoggingLevel;
use bellhop_protocol::fence_log::FENCE_LOG_SIZE;
use bellhop_protocol::handoff::fence::NOT_MONITORED;
use bellhop_protocol::handoff::fence_log::FenceLog;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

impl Fences for Model {
    fn create_fence(
        &self,
        guest: GuestId,
        slot: u32,
        storage: FenceStorage,
        initial: Option<u64>,
    ) -> Result<(), UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        assert_ne!(storage.current, storage.monitored);
        let monitored = if storage.native { NOT_MONITORED } else { 0 };
        let fence = Fence { current: initial.unwrap_or(0), monitored, storage };
        let view = fence.view();
        let mut state = self.state();
        assert!(!state.opened.contains_key(&(guest, slot)), "the slot names another fence");
        match (view, initial) {
            (Some(address), Some(initial)) => {
                let before = self.cross_adapter.lock().unwrap().insert(address, initial);
                assert_eq!(before, None, "a fence is there already");
            }
            (Some(address), None) => {
                assert!(self.cross_adapter.lock().unwrap().contains_key(&address), "no such fence");
            }
            (None, initial) => assert!(initial.is_some()),
        }
        state.fences.insert((guest, slot), fence);
        Ok(())
    }

    fn open_fence(
        &self,
        guest: GuestId,
        slot: u32,
        global: u32,
        owner: AddressSpaceId,
    ) -> Result<(), UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        let mut state = self.state();
        assert!(state.spaces.contains_key(&owner));
        let fence = state.fences.get(&(guest, global)).expect("there is such a fence");
        assert!(fence.view().is_none() || fence.monitored == 0, "signals would not interrupt");
        let before = state.opened.insert((guest, slot), (global, owner));
        assert_eq!(before, None, "a slot is one fence's");
        Ok(())
    }

    fn close_fence(&self, guest: GuestId, slot: u32) -> Result<(), UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        self.state().opened.remove(&(guest, slot)).expect("a fence that is open");
        Ok(())
    }

    fn update_monitored_values(
        &self,
        guest: GuestId,
        values: &[SlotValue],
    ) -> Result<(), UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        let mut state = self.state();
        state.log.push(Call::Monitor(values.to_vec()));
        let signal = state.signal_during_update.take();
        for SlotValue { slot, value } in values {
            let fence = state.fences.get_mut(&(guest, *slot)).unwrap();
            assert!(fence.storage.native, "a monitored fence's is 0");
            assert!(fence.view().is_none() || *value == 0, "it is 0 for the fence's life");
            fence.monitored = *value;
            fence.current = signal.unwrap_or(fence.current);
        }
        Ok(())
    }
}

impl CurrentValues for Model {
    fn fence_value(&self, guest: GuestId, slot: u32) -> Result<u64, UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        Ok(self.current(self.state().fences[&(guest, slot)]))
    }

    fn update_current_values(
        &self,
        guest: GuestId,
        values: &[SlotValue],
        always: bool,
    ) -> Result<(), UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        let mut state = self.state();
        state.log.push(Call::Signal(values.to_vec(), always));
        for SlotValue { slot, value } in values {
            let fence = state.fences.get_mut(&(guest, *slot)).unwrap();
            let least = fence.storage.rule.least(self.current(*fence));
            assert!(*value >= least, "a fence cannot go back");
            self.set_current(fence, *value);
        }
        Ok(())
    }

    fn notify_current_values(
        &self,
        guest: GuestId,
        slots: &[u32],
        always: bool,
    ) -> Result<(), UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        let mut state = self.state();
        assert!(slots.iter().all(|slot| state.fences[&(guest, *slot)].view().is_some()));
        state.log.push(Call::Notify(slots.to_vec(), always));
        Ok(())
    }
}

impl FenceLogs for Model {
    fn set_fence_log(&self, queue: HwQueueId, log: FenceLogBuffer) -> Result<(), UnknownId> {
        self.known(UnknownId::HwQueue(queue))?;
        let mut state = self.state();
        assert!(state.queues.contains_key(&queue));
        let words = (0..FENCE_LOG_SIZE / 8).map(|_| AtomicU64::new(0)).collect::<Arc<[_]>>();
        FenceLog::<6>::new(&words).unwrap().reset(log.log_type);
        let log = (queue, log.log_type, log.storage);
        let guest_of = |queue| state.queues[queue].guest;
        let mut others =
            state.fence_logs.iter().filter(|((other, _), _)| guest_of(other) == guest_of(&queue));
        assert!(others.all(|(_, (_, at))| *at != log.2), "another's log is there");
        let before = state.fence_logs.insert((log.0, log.1), (words, log.2));
        assert!(before.is_none(), "it has that log");
        Ok(())
    }

    fn flush_fence_logs(&self, queues: &[HwQueueId]) {
        FenceLog::<6>::flush();
        self.state().log.push(Call::FlushLogs(queues.to_vec()));
    }

    fn set_logging_level(&self, level: LoggingLevel) {
        self.state().log.push(Call::LoggingLevel(level));
    }
}

impl FenceLogContents for Model {
    fn with_fence_log(
        &self,
        log: QueueLog,
        act: &mut dyn FnMut(FenceLog<'_>),
    ) -> Result<(), UnknownId> {
        self.known(UnknownId::HwQueue(log.queue))?;
        let (words, _) = self.state().fence_logs[&(log.queue, log.log_type)].clone();
        act(FenceLog::new(&words).unwrap());
        Ok(())
    }
}
