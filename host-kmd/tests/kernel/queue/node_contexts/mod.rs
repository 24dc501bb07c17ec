// SPDX-License-Identifier: MIT OR Apache-2.0

//! Contexts that submit to their node, in each of the three submission models.

mod ends;
mod limits;
mod presenting;
mod refusals;
mod rendering;

use crate::bench::{Bench, Client, Refused, TIMEOUT, bytes_with_list};
use crate::model::Call;
use bellhop_host_kmd::dxgkrnl::Limits;
use bellhop_host_kmd::hardware::{Interrupt, KernelSubmission};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::context::DestroyContext;
use bellhop_protocol::control::node_context::{
    AllocationListEntry, CreateNodeContext, CreateNodeContextReply, PatchLocation, Render,
    SubmissionModel, SubmissionReply, SubmitCommandVirtual,
};
use bellhop_protocol::packet::flow::NOP;
use bellhop_protocol::status::Status;
use zerocopy::{FromBytes, IntoBytes};

const MODELS: [SubmissionModel; 3] =
    [SubmissionModel::BASIC, SubmissionModel::BASIC_PLUS_PLUS, SubmissionModel::VIRTUAL];

/// A node context, as the client and the reply to its creation describe it.
pub struct Node {
    pub client: Client,
    pub reply: CreateNodeContextReply,
}

impl Node {
    pub fn new(bench: &mut Bench, client: Client, model: SubmissionModel) -> Self {
        let request = CreateNodeContext { device: client.device, node: 0, model };
        let reply = bench.call(client, &request).unwrap();
        let id = *bench.model.state().queues.last_key_value().unwrap().0;
        Self { client: Client { id, context: reply.context, ..client }, reply }
    }

    fn render(
        &self,
        bench: &mut Bench,
        commands: &[u8],
        list: &[AllocationListEntry],
        patches: &[PatchLocation],
    ) -> Result<SubmissionReply, Refused> {
        let request = Render {
            context: self.reply.context,
            dma_buffer: 0,
            dma_buffer_size: 0,
            command_length: commands.len() as u32,
            allocation_count: list.len() as u32,
            patch_location_count: patches.len() as u32,
        };
        let lists = [commands, list.as_bytes(), patches.as_bytes()].concat();
        render(bench, self.client, &request, &lists)
    }

    fn submit_udma(
        &self,
        bench: &mut Bench,
        list: &[AllocationListEntry],
    ) -> Result<SubmissionReply, Refused> {
        render(bench, self.client, &udma(self.reply.context, list), list.as_bytes())
    }

    fn submit_virtual(&self, bench: &mut Bench) -> Result<SubmissionReply, Refused> {
        let gpu_va = self.reply.command_buffer_gpu_va;
        let context = self.reply.context;
        bench.call(self.client, &SubmitCommandVirtual { context, gpu_va, size: 8, reserved: 0 })
    }

    /// Makes a submission of the context's model.
    fn submit(&self, bench: &mut Bench) -> Result<SubmissionReply, Refused> {
        match self.reply {
            CreateNodeContextReply { patch_location_list_size: 1.., .. } => {
                self.render(bench, NOP.as_bytes(), &[], &[])
            }
            CreateNodeContextReply { allocation_list_size: 1.., .. } => {
                self.submit_udma(bench, &[])
            }
            _ => self.submit_virtual(bench),
        }
    }

    fn destroy(&self, bench: &mut Bench) {
        bench.begin(self.client, &DestroyContext { context: self.reply.context });
        bench.later(TIMEOUT);
        // Raises the interrupt of the ticket that engines have passed.
        bench.interrupt();
    }
}

fn udma(context: Handle, list: &[AllocationListEntry]) -> Render {
    Render {
        context,
        dma_buffer: 0x10_0008,
        dma_buffer_size: 24,
        command_length: 0,
        allocation_count: list.len() as u32,
        patch_location_count: 0,
    }
}

fn render(
    bench: &mut Bench,
    client: Client,
    request: &Render,
    lists: &[u8],
) -> Result<SubmissionReply, Refused> {
    let token = bench.send(client.guest, bytes_with_list(client.process, request, lists));
    let (header, body) = bench.reply(client.guest, token).expect("an answer at once");
    match header.status {
        Status::SUCCESS => Ok(SubmissionReply::read_from_bytes(body).unwrap()),
        status => Err((status, header.detail)),
    }
}

fn new() -> (Bench, Client) {
    with_limits(Limits::default())
}

fn with_limits(limits: Limits) -> (Bench, Client) {
    let mut bench = Bench::with_limits(2, limits);
    let guest = bench.guest(1);
    let client = bench.client(guest);
    (bench, client)
}

fn entry(allocation: Handle, flags: u32) -> AllocationListEntry {
    AllocationListEntry { allocation, flags, reserved: 0 }
}

fn at(patch_offset: u32, allocation_index: u32, allocation_offset: u64) -> PatchLocation {
    PatchLocation { allocation_index, patch_offset, allocation_offset }
}

fn completed(bench: &mut Bench, fence: u64) {
    bench.raise(Interrupt::DmaCompleted { node: 0, engine: 0, fence });
}

fn submitted(bench: &Bench) -> Vec<KernelSubmission> {
    let log = bench.model.take_log().into_iter();
    log.filter_map(|call| match call {
        Call::Submit(_, submission) => Some(submission),
        _ => None,
    })
    .collect()
}
