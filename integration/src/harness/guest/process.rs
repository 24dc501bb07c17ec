// SPDX-License-Identifier: MIT OR Apache-2.0

//! A process of a guest: the objects that its queues share.

use crate::harness::flag::Flag;
use crate::harness::guest::proof::Extent;
use crate::harness::guest::tally::Tally;
use crate::harness::scenario::GuestSpec;
use crate::harness::scenario::layout::Lane;
use bellhop_guest_umd::{Adapter, Context, Device, Error, Fence, GpuMapping};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A process of a guest, with the objects that its queues share.
pub(in crate::harness) struct Process {
    // Dropped in this order.
    fences: HashMap<usize, Arc<Fence>>,
    contexts: BTreeMap<usize, Context>,
    pub(in crate::harness) memory: Arc<GpuMapping>,
    extents: HashMap<usize, Extent>,
    pub(in crate::harness) device: Device,
    adapter: Adapter,
    /// Its threads stop where they are, with all queues open.
    pub(in crate::harness) halted: Flag,
    /// It is about to be ended with everything in use: queues that are lost from now on are lost with it.
    pub(in crate::harness) doomed: Flag,
    /// It is ending or has ended, so that its queues are given up.
    pub(in crate::harness) over: Flag,
}

impl Process {
    /// Starts a process with contexts and memory for these queues.
    pub(in crate::harness) fn begin(
        base: &Adapter,
        guest: &GuestSpec,
        queues: &[(Arc<Lane>, Tally)],
    ) -> Result<Arc<Self>, Error> {
        let adapter = base.open_process()?;
        let device = adapter.create_device()?;
        let mut extents = HashMap::new();
        let mut end = 0;
        for (lane, _) in queues {
            let extent = Extent::new(&lane.spec, end);
            end = extent.end();
            extents.insert(lane.index, extent);
        }
        // In the guest's own memory, which a reset leaves unchanged.
        let size = end.max(1).next_multiple_of(PAGE_SIZE);
        let memory = device.create_allocation(AllocationKind::SYSTEM, size)?;
        let memory = Arc::new(memory.map(Protection::WRITE)?);
        let (mut contexts, mut fences) = (BTreeMap::new(), HashMap::new());
        for (lane, tally) in queues {
            let index = lane.context_index;
            if let (false, Some(spec)) = (contexts.contains_key(&index), guest.context.get(index)) {
                contexts.insert(index, device.create_context(spec.node.get())?);
            }
            if lane.is_waited_for {
                fences.insert(lane.index, Arc::new(device.create_fence(tally.number)?));
            }
        }
        Ok(Arc::new(Self {
            fences,
            contexts,
            memory,
            extents,
            device,
            adapter,
            halted: Flag::default(),
            doomed: Flag::default(),
            over: Flag::default(),
        }))
    }

    /// The process's number in requests.
    pub(in crate::harness) fn number(&self) -> u32 {
        self.adapter.process()
    }

    /// Ends it with everything in use, as the end of a crashed program.
    pub(in crate::harness) fn terminate(&self) -> Result<(), Error> {
        self.adapter.terminate_abnormally()
    }

    pub(in crate::harness) fn context(&self, lane: &Lane) -> Option<&Context> {
        self.contexts.get(&lane.context_index)
    }

    pub(in crate::harness) fn extent(&self, lane: usize) -> Option<Extent> {
        self.extents.get(&lane).copied()
    }

    /// The fence that a queue signals for others.
    pub(in crate::harness) fn fence(&self, lane: usize) -> Option<&Arc<Fence>> {
        self.fences.get(&lane)
    }
}
