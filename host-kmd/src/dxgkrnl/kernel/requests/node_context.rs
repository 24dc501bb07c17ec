// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about contexts that submit to their node: kernel-mode submission in its three models.
//!
//! Such a context has one HW queue, which no guest can name. The GPU takes work only through queues, so every rule
//! of queues applies to it, from suspension to termination.
//!
//! Source: "GPU submissions" and "Physical vs virtual submission" of the Windows KMD overview.

use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::memory::allocation::{Allocation, HostMapping};
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::queue::context::Context;
use crate::dxgkrnl::queue::node::{Model, NodeSubmission};
use crate::dxgkrnl::queue::submission::CommandBuffer;
use bellhop_protocol::bar::AreaKind;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::{AllocationKind, CreateAllocation, NOT_IN_BAR};
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::control::hw_queue::{CreateHwQueueReply, HwQueueFlags};
use bellhop_protocol::control::node_context::{
    ALLOCATION_LIST_MAX, CreateNodeContext, CreateNodeContextReply, PATCH_LOCATION_LIST_MAX,
    RENDER_COMMANDS_MAX, SubmissionModel, SubmissionReply, SubmitCommandVirtual,
    VIRTUAL_COMMAND_BUFFER_SIZE,
};
use bellhop_protocol::packet::flow::MAX_INDIRECT_BUFFER_SIZE;

impl ProcessAccess<'_> {
    /// `D3DKMTCreateContext`.
    pub(crate) fn create_node_context(
        &mut self,
        request: CreateNodeContext,
    ) -> Handled<CreateNodeContextReply> {
        let physical = match request.model {
            SubmissionModel::BASIC => true,
            SubmissionModel::BASIC_PLUS_PLUS | SubmissionModel::VIRTUAL => false,
            model => return Err(RequestError::parameter("model", model.0.into())),
        };
        self.check_without_own_bar(
            "contexts without HW queues in a process with a BAR of its own",
        )?;
        let context = self.insert_context(request.device, request.node)?;
        match self.give_queue(context, request, physical) {
            // The command buffer may still need zeroing.
            Ok(reply) => Ok(Answer::AfterPaging(reply)),
            Err(error) => {
                self.remove_context(context)?;
                Err(error)
            }
        }
    }

    /// Gives a new context the queue and buffers that its model needs.
    fn give_queue(
        &mut self,
        context: Handle,
        request: CreateNodeContext,
        physical: bool,
    ) -> Result<CreateNodeContextReply, RequestError> {
        // Physical addresses are addresses of the system context, which belongs to no process.
        let address_space =
            if physical { self.guest.system()?.address_space } else { self.process()?.space() };
        let flags = if self.guest.has_native_fences() {
            HwQueueFlags::NATIVE_PROGRESS_FENCE
        } else {
            HwQueueFlags::empty()
        };
        let CreateHwQueueReply { hw_queue, progress_fence, .. } =
            self.insert_hw_queue(context, flags, address_space)?;
        let mut reply = CreateNodeContextReply {
            context,
            progress_fence,
            command_buffer_size: RENDER_COMMANDS_MAX,
            allocation_list_size: ALLOCATION_LIST_MAX,
            patch_location_list_size: PATCH_LOCATION_LIST_MAX,
            reserved: 0,
            command_buffer_offset: NOT_IN_BAR,
            command_buffer_gpu_va: 0,
        };
        let model = match request.model {
            SubmissionModel::BASIC => Model::Basic,
            SubmissionModel::BASIC_PLUS_PLUS => {
                reply.command_buffer_size = MAX_INDIRECT_BUFFER_SIZE;
                reply.patch_location_list_size = 0;
                Model::BasicPlusPlus
            }
            _ => {
                let (buffer, offset) = self.supply_command_buffer(request.device)?;
                reply.command_buffer_size = VIRTUAL_COMMAND_BUFFER_SIZE;
                reply.allocation_list_size = 0;
                reply.patch_location_list_size = 0;
                reply.command_buffer_offset = offset;
                reply.command_buffer_gpu_va = buffer.range.start;
                Model::Virtual(buffer)
            }
        };
        let submission = NodeSubmission::new(model, hw_queue);
        self.get_mut::<Context>(context)?.set_node_submission(submission);
        Ok(reply)
    }

    /// Creates a command buffer that the guest's CPU writes and engines read. The guest can neither name nor unmap
    /// it. Returns it with its offset in the BAR.
    fn supply_command_buffer(
        &mut self,
        device: Handle,
    ) -> Result<(HostMapping, u64), RequestError> {
        let reaches_it = self.guest.resources.bar_mapped
            || self.guest.donations.is_in_force(AreaKind::LOCAL_MEMORY);
        if !reaches_it {
            return Err(RequestError::NotSupported("local memory that the guest reaches"));
        }
        let size = u64::from(VIRTUAL_COMMAND_BUFFER_SIZE);
        let request = CreateAllocation::fixed(device, AllocationKind::LOCAL, size, 0);
        let (allocation, offset) = self.local_allocation(&request)?;
        // With a user, the allocation is useless to a guest that guesses its handle.
        self.get_mut::<Allocation>(allocation)?.add_user();
        let mut holds = Vec::new();
        match self.map_for_host(allocation, size, Protection::empty(), &mut holds) {
            Ok(mapping) => Ok((mapping, offset)),
            Err(error) => {
                self.give_up_all(holds);
                self.remove_allocation(allocation)?;
                Err(error)
            }
        }
    }

    /// `D3DKMTSubmitCommand`.
    pub(crate) fn submit_command_virtual(
        &mut self,
        request: SubmitCommandVirtual,
    ) -> Handled<SubmissionReply> {
        zero("reserved", request.reserved)?;
        let submission = self.node_submission(request.context)?;
        let Model::Virtual(buffer) = submission.model() else {
            return Err(RequestError::NotSupported("the context's model submits with RENDER"));
        };
        let commands = CommandBuffer::new(request.gpu_va, request.size)?;
        let offset = request.gpu_va.checked_sub(buffer.range.start);
        let left = offset.and_then(|offset| buffer.range.length.checked_sub(offset));
        let left = left.filter(|left| *left > 0);
        let left = left.ok_or(RequestError::parameter("gpu_va", request.gpu_va))?;
        if u64::from(request.size) > left {
            return Err(RequestError::parameter("size", request.size.into()));
        }
        self.submit_to_node(request.context, commands, &mut Vec::new()).map(Answer::Done)
    }
}
