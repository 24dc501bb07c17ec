// SPDX-License-Identifier: MIT OR Apache-2.0

//! Contexts: whether they are on the run list.
//!
//! Source: user-mode work submission, "Hardware context suspension".

use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::actions::nodes;
use crate::dxgkrnl::object::device::Device;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::queue::context::{Change, Context, Suspension};
use crate::dxgkrnl::queue::hw_queue::HwQueue;
use crate::hardware::{GpuOrdinal, HwQueueId};
use bellhop_protocol::control::Handle;

impl ProcessAccess<'_> {
    /// Creates a context for HW queues, on a device that is neither in error nor about to be destroyed.
    pub(crate) fn insert_context(
        &mut self,
        device: Handle,
        node: u32,
    ) -> Result<Handle, RequestError> {
        self.get::<Device>(device)?.check_alive(device)?;
        let gpu = GpuOrdinal(nodes::node(self.guest, self.miniport, node)?.gpu());
        self.guest.presence.check_gpu(gpu)?;
        let context = self.insert(Context::new(device, node))?;
        self.get_mut::<Device>(device)?.add_context(context);
        if self.is_held() {
            self.suspend_context(context, Suspension::MEMORY)?;
        }
        if self.guest.is_suspended {
            self.suspend_context(context, Suspension::HOST)?;
        }
        Ok(context)
    }

    /// Suspends a context. Its engine has left it once a later ticket has passed.
    pub(crate) fn suspend_context(
        &mut self,
        handle: Handle,
        by: Suspension,
    ) -> Result<(), RequestError> {
        if self.get_mut::<Context>(handle)?.suspend(by) == Some(Change::Suspend) {
            let queues = self.queue_ids(handle)?;
            if let Err(unknown) = self.miniport.suspend_context(&queues) {
                // Its queues are still on the run list.
                self.get_mut::<Context>(handle)?.resume(by);
                return Err(unknown.into());
            }
        }
        Ok(())
    }

    /// Removes a reason for the suspension of a context. With the last reason gone, its engine gets its power back.
    pub(crate) fn resume_context(
        &mut self,
        handle: Handle,
        by: Suspension,
    ) -> Result<(), RequestError> {
        let context = self.get_mut::<Context>(handle)?;
        let node = context.node();
        if context.resume(by) == Some(Change::Resume) {
            let queues = self.listed_queue_ids(handle)?;
            if !queues.is_empty() {
                self.power.wake_engine(node, self.miniport);
            }
            if let Err(unknown) = self.miniport.resume_context(&queues) {
                // Its queues are still off the run list.
                self.get_mut::<Context>(handle)?.suspend(by);
                return Err(unknown.into());
            }
            for queue in self.get::<Context>(handle)?.hw_queues().clone() {
                self.look_at_software_queue(queue);
            }
        }
        Ok(())
    }

    /// The GPU's ids of a context's queues.
    pub(crate) fn queue_ids(&self, context: Handle) -> Result<Vec<HwQueueId>, RequestError> {
        let queues = self.get::<Context>(context)?.hw_queues().iter();
        queues.map(|queue| Ok(self.get::<HwQueue>(*queue)?.id())).collect()
    }

    /// The GPU's ids of a context's queues that are on the run list while the context runs: none that is lost, or about
    /// to be destroyed with all its work done.
    fn listed_queue_ids(&self, context: Handle) -> Result<Vec<HwQueueId>, RequestError> {
        let mut ids = Vec::new();
        for queue in self.get::<Context>(context)?.hw_queues() {
            let queue = self.get::<HwQueue>(*queue)?;
            ids.extend(queue.is_listed().then_some(queue.id()));
        }
        Ok(ids)
    }

    /// The process's contexts.
    pub(crate) fn contexts(&mut self) -> Vec<Handle> {
        let Ok(process) = self.process() else { return Vec::new() };
        let devices = process.devices().clone();
        let contexts = |device: &Handle| match self.get::<Device>(*device) {
            Ok(device) => device.contexts().iter().copied().collect(),
            Err(_) => Vec::new(),
        };
        devices.iter().flat_map(contexts).filter(|c| self.get::<Context>(*c).is_ok()).collect()
    }

    /// Whether the process's contexts are suspended because of its memory.
    pub(crate) fn is_held(&mut self) -> bool {
        let process = self.process_id;
        self.process().is_ok_and(|process| process.is_held())
            || self.guest.vidmm.is_suspended(process)
    }
}
