// SPDX-License-Identifier: MIT OR Apache-2.0

//! Contexts that submit to their node.

use crate::device::ScriptedDevice;
use crate::rig::{error_of, open, packets};
use bellhop_guest_umd::{Allocation, CommandBuffer, Device, Error, RenderBuffer};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::RequestCode;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::node_context::{
    ALLOCATION_WRITE, AllocationListEntry, CreateNodeContext, PatchLocation, Render,
    SubmissionModel, SubmitCommandVirtual, VIRTUAL_COMMAND_BUFFER_SIZE,
};
use bellhop_protocol::packet::Packet;
use bellhop_protocol::packet::transfer::Copy;
use std::sync::Arc;
use std::time::Duration;
use zerocopy::FromBytes;

fn new() -> (Arc<ScriptedDevice>, Device) {
    let device = ScriptedDevice::new();
    let gpu = open(&device).create_device().unwrap();
    device.take_sent();
    (device, gpu)
}

fn allocation(gpu: &Device) -> Arc<Allocation> {
    gpu.create_allocation(AllocationKind::LOCAL, PAGE_SIZE).unwrap()
}

fn lists(mut bytes: &[u8], request: &Render) -> (Vec<AllocationListEntry>, Vec<PatchLocation>) {
    fn take<T: FromBytes>(bytes: &mut &[u8], count: u32) -> Vec<T> {
        let (list, rest) = bytes.split_at(count as usize * size_of::<T>());
        *bytes = rest;
        list.chunks_exact(size_of::<T>()).map(|entry| T::read_from_bytes(entry).unwrap()).collect()
    }
    let list = take(&mut bytes, request.allocation_count);
    let patches = take(&mut bytes, request.patch_location_count);
    assert!(bytes.is_empty());
    (list, patches)
}

#[test]
fn a_rendered_buffer_travels_with_a_list_of_each_allocation_and_a_patch_for_each_address() {
    let (device, gpu) = new();
    let mut context = gpu.create_basic_context(1).unwrap();
    let (from, to) = (allocation(&gpu), allocation(&gpu));
    let sent = device.take_sent();
    let request: CreateNodeContext = sent[0].read();
    assert_eq!((request.node, request.model), (1, SubmissionModel::BASIC));
    let mut commands = RenderBuffer::new();
    commands.nop().unwrap();
    commands.copy((&from, 16), (&to, 32), 8).unwrap().copy((&to, 0), (&from, 8), 8).unwrap();
    assert_eq!(context.submit(&commands).unwrap(), 1);
    let sent = device.take_sent();
    let request: Render = sent[0].read();
    assert_eq!((request.context, request.command_length), (context.handle(), 8 + 32 + 32));
    assert_eq!((request.dma_buffer, request.dma_buffer_size), (0, 0));
    let (bytes, rest) = sent[0].following::<Render>().split_at(72);
    let copy = Packet::Copy(Copy::new(0, 0, 8));
    assert_eq!(packets(bytes), [Packet::Nop, copy, copy]);
    let (list, patches) = lists(rest, &request);
    let entry = |allocation: &Arc<Allocation>| AllocationListEntry {
        allocation: allocation.handle(),
        flags: ALLOCATION_WRITE,
        reserved: 0,
    };
    assert_eq!(list, [entry(&from), entry(&to)]);
    let at = |allocation_index, patch_offset, allocation_offset| PatchLocation {
        allocation_index,
        patch_offset,
        allocation_offset,
    };
    assert_eq!(patches, [at(0, 16, 16), at(1, 24, 32), at(1, 48, 0), at(0, 56, 8)]);
    let last = context.last_submission().unwrap();
    assert_eq!((last.submission_fence, last.progress_fence_value), (101, 1));
}

#[test]
fn only_what_is_written_has_the_flag() {
    let (device, gpu) = new();
    let mut context = gpu.create_basic_context(0).unwrap();
    let (from, to) = (allocation(&gpu), allocation(&gpu));
    let mut commands = RenderBuffer::new();
    commands.hash((&from, 0), 8, 1, (&to, 0)).unwrap();
    device.take_sent();
    context.submit(&commands).unwrap();
    let sent = device.take_sent();
    let request: Render = sent[0].read();
    let (list, _) = lists(&sent[0].following::<Render>()[40..], &request);
    assert_eq!([list[0].flags, list[1].flags], [0, ALLOCATION_WRITE]);
}

#[test]
fn what_a_submission_lists_is_kept_until_it_is_done() {
    let (device, gpu) = new();
    let mut context = gpu.create_basic_context(0).unwrap();
    let mut commands = RenderBuffer::new();
    let memory = allocation(&gpu);
    commands.fill((&memory, 0), 8, 1).unwrap();
    context.submit(&commands).unwrap();
    commands.reset();
    drop(memory);
    device.take_sent();
    // The next submission finds it not done, and then done.
    context.submit(commands.nop().unwrap()).unwrap();
    assert_eq!(device.take_codes(), [RequestCode::RENDER]);
    device.signal(context.progress_fence().handle(), 1);
    context.submit(&commands).unwrap();
    assert_eq!(device.take_codes(), [RequestCode::RENDER, RequestCode::DESTROY_ALLOCATION]);
    // Dropping the context drops what it kept, after the context itself.
    let memory = allocation(&gpu);
    commands.fill((&memory, 0), 8, 1).unwrap();
    context.submit(&commands).unwrap();
    drop((memory, commands));
    device.take_sent();
    drop(context);
    let codes = [RequestCode::DESTROY_CONTEXT, RequestCode::DESTROY_ALLOCATION];
    assert_eq!(device.take_codes(), codes);
}

#[test]
fn a_full_buffer_or_list_is_refused_before_anything_is_sent() {
    let (device, gpu) = new();
    let memory = allocation(&gpu);
    let mut commands = RenderBuffer::new();
    while commands.len() < 32 << 10 {
        commands.nop().unwrap();
    }
    assert!(matches!(error_of(commands.nop()), Error::CommandBufferFull { needed: 8, free: 0 }));
    commands.reset();
    let full = loop {
        if let Err(error) = commands.timestamp((&memory, 0)) {
            break error;
        }
    };
    assert!(matches!(full, Error::BadPacket(_)), "{full}");
    assert_eq!(commands.len(), 1024 * 16);
    commands.reset();
    let many: Vec<_> = (0..257).map(|_| allocation(&gpu)).collect();
    device.take_sent();
    for memory in &many[..256] {
        commands.list(memory, false).unwrap();
    }
    commands.list(&many[0], true).unwrap();
    assert!(commands.list(&many[256], false).is_err());
    assert!(device.take_sent().is_empty());
}

#[test]
fn a_user_mode_dma_buffer_is_named_and_not_sent() {
    let (device, gpu) = new();
    let mut context = gpu.create_basic_plus_plus_context(0).unwrap();
    let memory = allocation(&gpu);
    let mut commands = CommandBuffer::new(&gpu, 64).unwrap();
    commands.nop().unwrap();
    device.take_sent();
    assert_eq!(context.submit(&mut commands, &[&memory, &memory]).unwrap(), 1);
    let sent = device.take_sent();
    let request: Render = sent[0].read();
    assert_eq!((request.dma_buffer, request.dma_buffer_size), (commands.gpu_va(), 8));
    assert_eq!((request.command_length, request.patch_location_count), (0, 0));
    let (list, _) = lists(sent[0].following::<Render>(), &request);
    assert_eq!(list.len(), 2);
}

#[test]
fn the_supplied_buffer_is_submitted_in_parts_and_reused_when_all_is_done() {
    let (device, gpu) = new();
    let mut context = gpu.create_virtual_context(0).unwrap();
    let start = context.commands().gpu_va();
    device.take_sent();
    let request =
        |device: &ScriptedDevice| -> SubmitCommandVirtual { device.take_sent()[0].read() };
    context.commands().nop().unwrap();
    assert_eq!(context.submit().unwrap(), 1);
    let first = request(&device);
    assert_eq!((first.gpu_va, first.size), (start, 8));
    context.commands().copy(1, 2, 3).unwrap().nop().unwrap();
    assert_eq!(context.submit().unwrap(), 2);
    let second = request(&device);
    assert_eq!((second.gpu_va, second.size), (start + 8, 40));
    let copy = Packet::Copy(Copy::new(1, 2, 3));
    let bytes = device.read_gpu(start + 8, 40);
    assert_eq!(packets(&bytes), [copy, Packet::Nop]);
    // It waits until the last one is done.
    let early = context.restart(Duration::ZERO);
    assert!(matches!(early, Err(Error::Timeout { value: 2, .. })));
    device.signal(context.progress_fence().handle(), 2);
    context.restart(Duration::ZERO).unwrap();
    device.take_sent();
    context.commands().nop().unwrap();
    context.submit().unwrap();
    assert_eq!(request(&device).gpu_va, start);
    // The buffer never grows past its end.
    let free = VIRTUAL_COMMAND_BUFFER_SIZE as usize;
    assert!(context.commands().raw(&vec![0; free]).is_err());
}
