// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests by which queues wait for fences and signal them on the CPU.
//!
//! Source: native GPU fence object, "Existing monitored fence synchronization object".

use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::actions::fences::values::check_count;
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::queue::hw_queue::HwQueue;
use crate::dxgkrnl::queue::submission::{Deferred, DeferredWork};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::fence::{FenceValue, SignalFromGpu, WaitFromGpu};

impl ProcessAccess<'_> {
    /// The kernel-mode queue that a request names, by its own handle or by that of its context. Also returns the
    /// context, if its submissions wait for paging.
    fn software_target(&self, handle: Handle) -> Result<(Handle, Option<Handle>), RequestError> {
        match self.get::<HwQueue>(handle) {
            Ok(_) => {
                let queue = self.own_queue(handle)?;
                if queue.takes_user_mode_submission() {
                    return Err(RequestError::NotSupported(
                        "the queue waits and signals by packets",
                    ));
                }
                queue.check_alive(handle).map(|()| (handle, None))
            }
            Err(RequestError::TypeMismatch { .. }) => {
                let node = self.node_submission(handle)?;
                Ok((node.hw_queue(), node.model().renders().then_some(handle)))
            }
            Err(error) => Err(error),
        }
    }

    /// `D3DKMTWaitForSynchronizationObjectFromGpu`.
    pub(crate) fn wait_from_gpu(
        &mut self,
        request: WaitFromGpu,
        list: Vec<FenceValue>,
    ) -> Handled<()> {
        check_count(request.count)?;
        zero("reserved", request.reserved)?;
        let (queue, context) = self.software_target(request.queue)?;
        for FenceValue { fence, .. } in &list {
            self.cpu_fence(*fence)?;
        }
        self.give_in_order(queue, context, DeferredWork::Wait(list))
    }

    /// `D3DKMTSignalSynchronizationObjectFromGpu`.
    pub(crate) fn signal_from_gpu(
        &mut self,
        request: SignalFromGpu,
        list: Vec<FenceValue>,
    ) -> Handled<()> {
        check_count(request.count)?;
        zero("reserved", request.reserved)?;
        let (queue, context) = self.software_target(request.queue)?;
        self.held_signals(&list)?;
        self.give_in_order(queue, context, DeferredWork::Signal(list))
    }

    /// Gives a queue a wait or a signal now, or after the guest's submissions that wait for paging: their order must
    /// not change.
    fn give_in_order(
        &mut self,
        queue: Handle,
        context: Option<Handle>,
        work: DeferredWork,
    ) -> Handled<()> {
        if let Some(context) = context
            && self.waits_for_paging()
        {
            let process = self.process_id;
            return Ok(Answer::SubmitAfterPaging(Deferred { process, context, work }));
        }
        match work {
            DeferredWork::Wait(list) => self.give_wait(queue, &list),
            DeferredWork::Signal(list) => self.give_signal(queue, &list),
            DeferredWork::Submission { .. } => Ok(()),
        }?;
        Ok(Answer::Done(()))
    }
}
