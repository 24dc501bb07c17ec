// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the model reports to tools.

use super::ModelKernel;
use crate::model::Model;
use bellhop_host_kmd::hardware::{
    AddressSpaceId, BusyOf, ConnectorUse, FrontEnd, GuestId, HardwareFull, HostClocks,
    KernelDescription, KernelNumber, Observe, UnknownId, WorkerDescription,
};
use bellhop_protocol::control::adapter::Statistics;
use bellhop_protocol::handoff::fence_log::FenceLog;
use bellhop_protocol::snapshot::{Cgroup, Cgroups};
use std::sync::atomic::AtomicU64;

impl Observe for Model {
    fn guest_weight(&self, guest: GuestId) -> Result<u32, UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        Ok(100)
    }

    fn statistics(&self, guest: GuestId) -> Result<Statistics, UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        Ok(Statistics { packets: 7, ..Statistics::default() })
    }

    fn kernels(&self, space: AddressSpaceId) -> Vec<KernelDescription> {
        let state = self.state();
        let of_space = state.kernels.iter().filter(|((of, _), _)| *of == space);
        let describe = |((_, number), kernel): (&(_, KernelNumber), &ModelKernel)| {
            let ModelKernel { source, compiled } = kernel;
            KernelDescription {
                number: number.0,
                entry_point: source.entry_point.clone(),
                is_compiled: *compiled,
                spirv: source.length.into(),
            }
        };
        of_space.map(describe).collect()
    }

    fn workers(&self) -> Vec<WorkerDescription> {
        self.state().workers.clone()
    }

    fn cgroups(&self) -> Option<Cgroups> {
        Some(Cgroups { controllers: vec!["memory".into()], missing: None })
    }

    fn guest_cgroups(&self, guest: GuestId) -> Vec<Cgroup> {
        vec![Cgroup { path: format!("/workers-{}", guest.0), ..Cgroup::default() }]
    }

    fn gpu_clock(&self) -> u64 {
        let mut state = self.state();
        state.clock += 1;
        state.clock
    }

    fn host_clocks(&self) -> HostClocks {
        HostClocks { monotonic: 10, boottime: 20, realtime: 30 }
    }

    fn begin_trace(&self, entries: u32) -> Result<(), HardwareFull> {
        let words = 5 + 6 * entries as usize;
        self.state().trace_log = Some((0..words).map(|_| AtomicU64::new(0)).collect());
        Ok(())
    }

    fn with_trace_log(&self, node: u32, act: &mut dyn FnMut(FenceLog<'_>)) {
        // All queues are on the first node.
        let log = self.state().trace_log.clone().filter(|_| node == 0);
        log.iter().for_each(|words| act(FenceLog::new(words).unwrap()));
    }

    fn end_trace(&self) {
        self.state().trace_log = None;
    }

    fn front_end(&self, guest: GuestId) -> Option<FrontEnd> {
        Some(FrontEnd { socket: format!("/run/{}.sock", guest.0), ..FrontEnd::default() })
    }

    fn busy_time(&self, of: BusyOf) -> Result<u64, UnknownId> {
        Ok(match of {
            BusyOf::Engine(node) => 100 + u64::from(node),
            BusyOf::Queue(queue) => queue.0,
        })
    }

    fn connector_use(&self, guest: GuestId, child: u32) -> Result<ConnectorUse, UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        Ok(ConnectorUse { name: format!("connector {child}"), viewers: child.into() })
    }
}
