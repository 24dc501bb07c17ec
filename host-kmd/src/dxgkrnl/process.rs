//! Processes: each has handles and GPU virtual addresses of its own.

use super::error::RequestError;
use super::gpu_va::GpuVa;
use super::request::{Answer, Handled, zero};
use super::retire::Resource;
use super::scope::Scope;
use super::termination::{Manner, Target};
use crate::hardware::AddressSpaceId;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::process::{
    CreateProcess, CreateProcessReply, DestroyProcess, TERMINATED_ABNORMALLY,
};
use std::collections::{BTreeSet, HashSet};

/// A process.
#[derive(Debug)]
pub(super) struct Process {
    /// Its page tables.
    pub(super) space: AddressSpaceId,
    /// What is mapped in them.
    pub(super) gpu_va: GpuVa,
    /// Its devices.
    pub(super) devices: BTreeSet<Handle>,
    /// How many works of paging its contexts are suspended for.
    pub(super) holds: u32,
}

/// Ids of processes: never 0, and no two guests of an adapter have the same.
#[derive(Debug, Default)]
pub(super) struct ProcessIds {
    last: u32,
    live: HashSet<u32>,
}

impl ProcessIds {
    fn take(&mut self) -> u32 {
        // Ends: the guests' limits keep live ids far fewer than there are ids.
        loop {
            self.last = self.last.wrapping_add(1);
            if self.last != 0 && self.live.insert(self.last) {
                return self.last;
            }
        }
    }

    /// The id may be used again, though not soon.
    pub(super) fn give_back(&mut self, id: u32) {
        self.live.remove(&id);
    }
}

impl Scope<'_> {
    /// Begins a process.
    pub(super) fn create_process(&mut self, request: CreateProcess) -> Handled<CreateProcessReply> {
        zero("reserved", request.reserved)?;
        self.guest.quotas.processes.charge(1)?;
        let space = match self.miniport.create_process(self.guest_id) {
            Ok(space) => space,
            Err(full) => {
                self.guest.quotas.processes.refund(1);
                return Err(full.into());
            }
        };
        let process = self.process_ids.take();
        let state = Process { space, gpu_va: GpuVa::new(), devices: BTreeSet::new(), holds: 0 };
        self.guest.vidmm.add_process(process);
        self.guest.processes.insert(process, state);
        Ok(Answer::Done(CreateProcessReply { process, reserved: 0 }))
    }

    /// Ends the process.
    pub(super) fn destroy_process(&mut self, request: DestroyProcess) -> Handled<()> {
        let manner = match request.flags {
            0 => Manner::Normal,
            TERMINATED_ABNORMALLY => Manner::Abnormal,
            flags => return Err(RequestError::parameter("flags", flags)),
        };
        Ok(Answer::Terminate(Target::Process, manner))
    }

    /// Destroys the process and everything that it has.
    pub(super) fn remove_process(&mut self) -> Result<(), RequestError> {
        let devices = std::mem::take(&mut self.process()?.devices);
        for device in devices {
            self.remove_device(device)?;
        }
        let process = self.process_id;
        // What is reserved goes with no allocation.
        for (range, refund) in self.process()?.gpu_va.remove_all() {
            self.guest.quotas.mappings.refund(refund);
            self.given_up.push(Resource::GpuVa { process, range, paged: true });
        }
        self.guest.vidmm.remove_process(process);
        if let Some(Process { space, .. }) = self.guest.processes.remove(&process) {
            self.given_up.push(Resource::Process { process, space });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_never_0_and_never_one_that_lives() {
        let mut ids = ProcessIds { last: u32::MAX - 1, live: HashSet::from([1]) };
        assert_eq!(ids.take(), u32::MAX);
        assert_eq!(ids.take(), 2);
        ids.give_back(1);
        assert_eq!(ids.take(), 3);
    }
}
