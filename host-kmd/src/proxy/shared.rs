// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the proxy and the linked hardware both know of a chain.
//!
//! Both belong to the control plane's thread: no lock here is ever contended.

use super::display::{Numbers, Tickets};
use crate::hardware::{
    AddressSpaceId, DisplayTicket, GpuOrdinal, GuestId, HwQueueId, KernelNumber, KernelOutcome,
    VideoSessionNumber,
};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is known of the objects that each GPU of a chain has.
#[derive(Debug, Default)]
pub(super) struct Shared {
    mirrored: Mutex<Mirrored>,
    displays: Numbers,
}

#[derive(Debug, Default)]
struct Mirrored {
    /// The address spaces of the slaves, by the master's, in the order of the slaves.
    spaces: BTreeMap<AddressSpaceId, Vec<AddressSpaceId>>,
    /// The address space of the master, by a slave's.
    masters: BTreeMap<AddressSpaceId, AddressSpaceId>,
    /// The queues of system contexts of the slaves, by the master's.
    systems: BTreeMap<HwQueueId, Vec<HwQueueId>>,
    /// The GPU of each video session, by the master's address space.
    sessions: BTreeMap<(AddressSpaceId, VideoSessionNumber), GpuOrdinal>,
    /// Kernels that are compiled, or that some GPU could not compile, by the master's address space.
    kernels: BTreeMap<(AddressSpaceId, KernelNumber), Compiling>,
    /// What displays let go.
    display_tickets: Tickets,
}

/// A kernel that each GPU compiles.
#[derive(Debug)]
struct Compiling {
    /// GPUs that are not done with it.
    left: usize,
    /// The first failure, if there was one.
    failure: Option<KernelOutcome>,
    /// GPUs that could not compile it, and have nothing of it.
    failed: Vec<GpuOrdinal>,
}

impl Shared {
    #[expect(clippy::disallowed_methods, reason = "a lock that the control plane alone takes")]
    fn lock(&self) -> MutexGuard<'_, Mirrored> {
        self.mirrored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Knows nothing yet of a chain with these displays.
    pub(super) fn with_displays(displays: Numbers) -> Self {
        Self { displays, ..Self::default() }
    }

    /// The numbers of sources and children.
    pub(super) fn displays(&self) -> &Numbers {
        &self.displays
    }

    /// A ticket of the chain for those of a guest's displays on some GPUs.
    pub(super) fn draw_ticket(
        &self,
        guest: GuestId,
        own: Vec<(GpuOrdinal, DisplayTicket)>,
    ) -> DisplayTicket {
        self.lock().display_tickets.draw(guest, own)
    }

    /// A GPU's display has passed a ticket. Returns the chain's that has passed because of it.
    pub(super) fn pass_ticket(
        &self,
        guest: GuestId,
        gpu: GpuOrdinal,
        own: DisplayTicket,
    ) -> Option<DisplayTicket> {
        self.lock().display_tickets.pass(guest, gpu, own)
    }

    /// Adds an address space that all GPUs have: the master's, and those of the slaves in their order.
    pub(super) fn insert_space(&self, master: AddressSpaceId, slaves: Vec<AddressSpaceId>) {
        if slaves.is_empty() {
            return;
        }
        let mut mirrored = self.lock();
        mirrored.masters.extend(slaves.iter().map(|slave| (*slave, master)));
        mirrored.spaces.insert(master, slaves);
    }

    /// Removes an address space. Returns those of the slaves, in their order.
    pub(super) fn remove_space(&self, master: AddressSpaceId) -> Vec<AddressSpaceId> {
        let mut mirrored = self.lock();
        let slaves = mirrored.spaces.remove(&master).unwrap_or_default();
        for slave in &slaves {
            mirrored.masters.remove(slave);
        }
        mirrored.kernels.retain(|(space, _), _| *space != master);
        mirrored.sessions.retain(|(space, _), _| *space != master);
        slaves
    }

    /// What a GPU calls the address space that the kernel knows as `master`. The GPU reports an unknown one itself.
    pub(super) fn space(&self, master: AddressSpaceId, gpu: GpuOrdinal) -> AddressSpaceId {
        let Some(slave) = gpu.index().checked_sub(1) else { return master };
        let mirrored = self.lock();
        let spaces = mirrored.spaces.get(&master);
        spaces.and_then(|spaces| spaces.get(slave)).copied().unwrap_or(master)
    }

    /// Adds the queues of a guest's system contexts.
    pub(super) fn insert_system(&self, master: HwQueueId, slaves: Vec<HwQueueId>) {
        if !slaves.is_empty() {
            self.lock().systems.insert(master, slaves);
        }
    }

    /// Removes the queues of a guest's system contexts, if `master` is the master's. Returns those of the slaves.
    pub(super) fn remove_system(&self, master: HwQueueId) -> Vec<HwQueueId> {
        self.lock().systems.remove(&master).unwrap_or_default()
    }

    /// A video session is on a GPU. GPUs of a chain give numbers that are unique in it.
    pub(super) fn insert_session(
        &self,
        space: AddressSpaceId,
        session: VideoSessionNumber,
        gpu: GpuOrdinal,
    ) {
        self.lock().sessions.insert((space, session), gpu);
    }

    /// Removes a video session. Returns its GPU.
    pub(super) fn remove_session(
        &self,
        space: AddressSpaceId,
        session: VideoSessionNumber,
    ) -> Option<GpuOrdinal> {
        self.lock().sessions.remove(&(space, session))
    }

    /// A kernel is being compiled by this number of GPUs.
    pub(super) fn begin_kernel(&self, space: AddressSpaceId, kernel: KernelNumber, gpus: usize) {
        let compiling = Compiling { left: gpus, failure: None, failed: Vec::new() };
        self.lock().kernels.insert((space, kernel), compiling);
    }

    /// A kernel is destroyed, has failed, or was never complete. Returns the GPUs that could not compile it.
    pub(super) fn forget_kernel(
        &self,
        space: AddressSpaceId,
        kernel: KernelNumber,
    ) -> Vec<GpuOrdinal> {
        let compiling = self.lock().kernels.remove(&(space, kernel));
        compiling.map(|compiling| compiling.failed).unwrap_or_default()
    }

    /// A GPU is done with a kernel of its own address space. When all are, returns the kernel's address space as the
    /// kernel knows it, and what came of it. One that has failed is to be forgotten then.
    pub(super) fn end_kernel(
        &self,
        gpu: GpuOrdinal,
        (space, kernel): (AddressSpaceId, KernelNumber),
        outcome: KernelOutcome,
    ) -> Option<(AddressSpaceId, KernelOutcome)> {
        let mut mirrored = self.lock();
        let space = mirrored.masters.get(&space).copied().unwrap_or(space);
        let compiling = mirrored.kernels.get_mut(&(space, kernel))?;
        compiling.left = compiling.left.saturating_sub(1);
        if let KernelOutcome::Failed(..) = outcome {
            compiling.failure.get_or_insert(outcome);
            compiling.failed.push(gpu);
        }
        if compiling.left > 0 {
            return None;
        }
        if let Some(failure) = compiling.failure.take() {
            return Some((space, failure));
        }
        mirrored.kernels.remove(&(space, kernel));
        Some((space, KernelOutcome::Compiled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::MAX_GPUS;
    use bellhop_protocol::control::kernel::KernelResult;
    use proptest::prelude::*;

    const SPACE: AddressSpaceId = AddressSpaceId(3);
    const KERNEL: KernelNumber = KernelNumber(7);
    /// The two GPUs, and the kernel in the address space of each.
    const MASTER: GpuOrdinal = GpuOrdinal::MASTER;
    const SLAVE: GpuOrdinal = GpuOrdinal(1);
    const MASTERS: (AddressSpaceId, KernelNumber) = (SPACE, KERNEL);
    const SLAVES: (AddressSpaceId, KernelNumber) = (AddressSpaceId(30), KERNEL);

    #[test]
    fn a_kernel_is_compiled_when_every_gpu_has_compiled_it() {
        let shared = Shared::default();
        shared.insert_space(SPACE, vec![AddressSpaceId(30)]);
        shared.begin_kernel(SPACE, KERNEL, 2);
        let compiled = KernelOutcome::Compiled;
        assert_eq!(shared.end_kernel(SLAVE, SLAVES, compiled.clone()), None);
        let ended = shared.end_kernel(MASTER, MASTERS, compiled.clone());
        assert_eq!(ended, Some((SPACE, compiled.clone())));
        assert_eq!(shared.end_kernel(MASTER, MASTERS, compiled), None);
    }

    #[test]
    fn a_kernel_that_one_gpu_refuses_is_refused() {
        let shared = Shared::default();
        shared.insert_space(SPACE, vec![AddressSpaceId(30)]);
        shared.begin_kernel(SPACE, KERNEL, 2);
        let failed = KernelOutcome::Failed(KernelResult::COMPILED, "no".to_owned());
        assert_eq!(shared.end_kernel(SLAVE, SLAVES, failed.clone()), None);
        let ended = shared.end_kernel(MASTER, MASTERS, KernelOutcome::Compiled);
        assert_eq!(ended, Some((SPACE, failed)));
        assert_eq!(shared.forget_kernel(SPACE, KERNEL), [SLAVE]);
        assert_eq!(shared.forget_kernel(SPACE, KERNEL), []);
    }

    proptest! {
        #[test]
        fn a_process_has_one_address_space_on_each_gpu_and_none_of_another_process(
            gpus in 1..=MAX_GPUS,
            steps in proptest::collection::vec((any::<bool>(), 0usize..8), 1..60),
        ) {
            let shared = Shared::default();
            let mut next = 1;
            let mut known: Vec<Vec<AddressSpaceId>> = Vec::new();
            for (creates, which) in steps {
                if creates || known.is_empty() {
                    let spaces: Vec<_> = (0..gpus as u64).map(|gpu| AddressSpaceId(next + gpu)).collect();
                    next += gpus as u64;
                    shared.insert_space(spaces[0], spaces[1..].to_vec());
                    known.push(spaces);
                } else {
                    let gone = known.remove(which % known.len());
                    prop_assert_eq!(shared.remove_space(gone[0]), gone[1..].to_vec());
                    prop_assert!(shared.remove_space(gone[0]).is_empty());
                }
                for spaces in &known {
                    for (gpu, space) in spaces.iter().enumerate() {
                        let gpu = GpuOrdinal(gpu as u8);
                        prop_assert_eq!(shared.space(spaces[0], gpu), *space);
                    }
                }
            }
        }
    }
}
