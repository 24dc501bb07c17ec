// SPDX-License-Identifier: MIT OR Apache-2.0

//! The GPU as tools see it.

use crate::cgroup;
use crate::gpu::Gpu;
use crate::gpu::shared::chip::EnginePort;
use crate::gpu::shared::trace_log::TraceLog;
use crate::gpu::workers::kernels::kernel::Kernel;
use crate::gpu::workers::roster::Listed;
use bellhop_host_kmd::hardware::{
    AddressSpaceId, BusyOf, ConnectorUse, FrontEnd, GuestId, HardwareFull, HostClocks,
    KernelDescription, Observe, UnknownId, WorkerDescription,
};
use bellhop_protocol::control::adapter::Statistics;
use bellhop_protocol::handoff::fence_log::FenceLog;
use bellhop_protocol::snapshot::{Cgroup, Cgroups};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;

impl Gpu {
    /// Records a guest's front end, for tools.
    pub fn set_front_end(&self, guest: GuestId, front_end: FrontEnd) {
        if let Ok(guest) = self.guest(guest) {
            // Set once per guest.
            let _ = guest.front_end.set(front_end);
        }
    }
}

impl Observe for Gpu {
    fn gpu_clock(&self) -> u64 {
        self.chip.now()
    }

    fn host_clocks(&self) -> HostClocks {
        // The clocks are read in close succession.
        HostClocks {
            monotonic: nanoseconds(ClockId::Monotonic),
            boottime: nanoseconds(ClockId::Boottime),
            realtime: nanoseconds(ClockId::Realtime),
        }
    }

    fn begin_trace(&self, entries: u32) -> Result<(), HardwareFull> {
        let has_begun = self.chip.begin_trace(entries);
        has_begun.then_some(()).ok_or(HardwareFull("memory"))
    }

    fn with_trace_log(&self, node: u32, act: &mut dyn FnMut(FenceLog<'_>)) {
        let log = self.chip.own_engines().get(node as usize).and_then(EnginePort::trace_log);
        log.as_deref().and_then(TraceLog::get).into_iter().for_each(act);
    }

    fn end_trace(&self) {
        self.chip.own_engines().iter().for_each(|port| port.set_trace_log(None));
    }

    fn front_end(&self, guest: GuestId) -> Option<FrontEnd> {
        self.guest(guest).ok()?.front_end.get().cloned()
    }

    fn busy_time(&self, of: BusyOf) -> Result<u64, UnknownId> {
        let now = || self.chip.now();
        Ok(match of {
            BusyOf::Engine(node) => self.engine(node)?.turns.busy_time(now),
            BusyOf::Queue(queue) => self.queue(queue)?.busy.read(now),
        })
    }

    fn guest_weight(&self, guest: GuestId) -> Result<u32, UnknownId> {
        Ok(self.guest(guest)?.weight())
    }

    fn statistics(&self, guest: GuestId) -> Result<Statistics, UnknownId> {
        Ok(self.guest(guest)?.counters().read())
    }

    fn kernels(&self, space: AddressSpaceId) -> Vec<KernelDescription> {
        let space = self.workers.as_ref().and_then(|workers| workers.mailboxes().space(space));
        let kernels = space.map(|space| space.all()).unwrap_or_default();
        let describe = |(number, kernel): (u32, Arc<Kernel>)| KernelDescription {
            number,
            entry_point: kernel.entry_point.clone(),
            is_compiled: kernel.compiled().is_some(),
            spirv: kernel.length.into(),
        };
        kernels.into_iter().map(describe).collect()
    }

    fn workers(&self) -> Vec<WorkerDescription> {
        let roster = self.workers.as_ref().map(|workers| workers.mailboxes().roster.load_full());
        let mut workers: Vec<_> =
            roster.iter().flat_map(|roster| roster.iter()).map(Listed::describe).collect();
        workers.extend(self.security.as_ref().and_then(|security| security.describe()));
        workers.sort_unstable_by_key(|worker| worker.pid);
        for worker in &mut workers {
            worker.node = worker.node.map(|engine| self.chip.node_of(engine));
        }
        workers
    }

    fn cgroups(&self) -> Option<Cgroups> {
        self.workers.as_ref().map(|_| cgroup::described())
    }

    fn guest_cgroups(&self, guest: GuestId) -> Vec<Cgroup> {
        let groups = self.workers.as_ref().map(|workers| workers.mailboxes().groups.load_full());
        let groups = groups.iter().flat_map(|groups| groups.iter());
        groups.filter(|(id, _)| *id == guest).map(|(_, group)| group.describe()).collect()
    }

    fn connector_use(&self, guest: GuestId, child: u32) -> Result<ConnectorUse, UnknownId> {
        Ok(self.display(guest)?.connector_use(child))
    }
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}
