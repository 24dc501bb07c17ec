// SPDX-License-Identifier: MIT OR Apache-2.0

//! Where the kernel puts the values of fences on this GPU, and how the context management processor reaches them.

use crate::support::data::write_data;
use crate::support::rig::*;
use bellhop_device::gpu::Gpu;
use bellhop_host_kmd::ddi::feature::NativeFenceOsCaps;
use bellhop_host_kmd::ddi::paging::LOCAL_START;
use bellhop_host_kmd::dxgkrnl::{Kernel, Limits, OsFeatures};
use bellhop_host_kmd::hardware::{
    CurrentValues as _, GuestId, Interrupt, Interrupts as _, SystemContexts as _,
};
use bellhop_host_kmd::port::{Effect, GuestResources, Input, RequestToken, SharingGroups};
use bellhop_protocol::control::adapter::OpenAdapter;
use bellhop_protocol::control::device::CreateDevice;
use bellhop_protocol::control::fence::{
    CreateNativeFence, DestroyNativeFence, FenceValue, NOT_PUBLISHED, NativeFenceType, OpenedFence,
    WaitForFences,
};
use bellhop_protocol::control::process::CreateProcess;
use bellhop_protocol::control::{Handle, MAX_REPLY_SIZE, ReplyHeader, Request, RequestHeader};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::features::{Features, Version};
use bellhop_protocol::handoff::fence::NOT_MONITORED;
use bellhop_protocol::packet::transfer::Copy;
use bellhop_protocol::status::Status;
use std::sync::Arc;
use vm_memory::{Bytes, FileOffset, MmapRegion, VolatileMemory};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A GPU with its kernel, and a process of one guest.
struct Host {
    gpu: Arc<Gpu>,
    kernel: Kernel,
    guest: GuestId,
    bar: MmapRegion,
    process: u32,
    device: Handle,
    requests: u64,
    paged: u64,
}

impl Host {
    fn new(features: OsFeatures) -> Self {
        let gpu = start();
        let mut kernel = Kernel::new(gpu.clone(), features, Limits::default()).unwrap();
        let guest = gpu.attach_guest(LAYOUT, SEGMENTS, guest_memory(), &Arc::default()).unwrap();
        let file = FileOffset::from_arc(gpu.bar_file(guest).unwrap(), 0);
        let bar = MmapRegion::from_file(file, LAYOUT.bar_size() as usize).unwrap();
        let features = Features::NATIVE_FENCES;
        let resources = GuestResources {
            bar: LAYOUT,
            segments: SEGMENTS,
            bar_mapped: true,
            features,
            sharing: SharingGroups::NONE,
        };
        kernel.handle(Input::Attach { guest, resources }, &mut Vec::new());
        let (process, device, requests, paged) = (0, Handle(0), 0, 0);
        let mut this = Self { gpu, kernel, guest, bar, process, device, requests, paged };
        let (version, features) = (Version::CURRENT, features.bits());
        this.ask(&OpenAdapter { version, reserved: 0, features });
        this.process = this.ask(&CreateProcess { reserved: 0 }).process;
        this.device = this.ask(&CreateDevice { reserved: 0 });
        this
    }

    /// Sends a request; returns its status and its reply.
    fn send<T: Request, E: IntoBytes + Immutable>(
        &mut self,
        request: &T,
        list: &[E],
    ) -> (Status, Vec<u8>) {
        let length = size_of::<RequestHeader>() + size_of::<T>() + size_of_val(list);
        let (length, process) = (length as u32, self.process);
        let header = RequestHeader { code: T::CODE, length, process, reserved: 0 };
        let request = [header.as_bytes(), request.as_bytes(), list.as_bytes()].concat();
        self.requests += 1;
        let (guest, token) = (self.guest, RequestToken(self.requests));
        let mut effects = Vec::new();
        let room = MAX_REPLY_SIZE;
        self.kernel.handle(Input::Request { guest, token, request, room }, &mut effects);
        let mut answer = None;
        eventually("an answer", || {
            answer = effects.drain(..).find_map(|effect| match effect {
                Effect::Reply { reply, .. } => Some(reply),
                _ => None,
            });
            if answer.is_none() {
                self.kernel.handle(Input::Interrupt, &mut effects);
            }
            answer.is_some()
        });
        let reply = answer.unwrap();
        let (header, body) = ReplyHeader::read_from_prefix(&reply).unwrap();
        (header.status, body.to_vec())
    }

    fn ask<T: Request>(&mut self, request: &T) -> T::Reply {
        let (status, body) = self.send::<T, u64>(request, &[]);
        assert_eq!(status, Status::SUCCESS);
        T::Reply::read_from_bytes(&body).unwrap()
    }

    fn wait(&mut self, fence: &OpenedFence, value: u64) -> Status {
        let request = WaitForFences { cookie: 1, flags: 0, count: 1 };
        self.send(&request, &[FenceValue { fence: fence.fence, value }]).0
    }

    fn local_word(&self, offset: u64) -> u64 {
        let offset = LAYOUT.local_memory() + offset;
        self.bar.as_volatile_slice().read_obj(offset as usize).unwrap()
    }

    /// Executes packets as the context management processor would, in the guest's system context.
    fn submit_system(&mut self, packets: &Packets) -> u64 {
        self.paged += 1;
        self.gpu.submit_paging(self.guest, &packets.0, self.paged).unwrap();
        self.paged
    }

    fn run_system(&mut self, packets: Packets) {
        const DONE: u64 = 0x1000;
        let mark = self.paged + 1;
        let mut packets = packets;
        packets.0.extend(write_data(LOCAL_START + DONE, &mark.to_le_bytes()).0);
        self.submit_system(&packets);
        eventually("packets of the system context", || self.local_word(DONE) == mark);
    }

    /// Both values, as the context management processor reads them.
    fn values(&mut self, fence: &OpenedFence) -> (u64, u64) {
        let [current, monitored] =
            [fence.mapping.current_value_gpu_va, fence.mapping.monitored_value_gpu_va];
        let read = Packets::new().then(Copy::new(current, LOCAL_START, 8)).then(Copy::new(
            monitored,
            LOCAL_START + 8,
            8,
        ));
        self.run_system(read);
        (self.local_word(0), self.local_word(8))
    }
}

#[test]
fn the_context_management_processor_reads_and_writes_both_values_of_each_type_of_fence() {
    let features = |optimized_default_fence_type| OsFeatures {
        native_fences: Some(NativeFenceOsCaps {
            optimized_default_fence_type,
            intra_gpu_fence_type: true,
        }),
    };
    for (features, fence_type, cpus_reach_it) in [
        (features(false), NativeFenceType::DEFAULT, true),
        (features(true), NativeFenceType::DEFAULT, true),
        (features(true), NativeFenceType::INTRA_GPU, false),
    ] {
        let mut host = Host::new(features);
        let request = CreateNativeFence { fence_type, ..CreateNativeFence::new(host.device, 5) };
        let fence = host.ask(&request);
        // The processor finds the values at the addresses that processes use.
        assert_eq!(host.values(&fence), (5, NOT_MONITORED));
        let offset = fence.mapping.current_value_offset;
        assert_eq!(offset != NOT_PUBLISHED, cpus_reach_it);
        if cpus_reach_it {
            let published = host.bar.as_volatile_slice().read_obj::<u64>(offset as usize);
            assert_eq!(published.unwrap(), 5);
            assert_eq!(host.wait(&fence, 9), Status::PENDING);
            assert_eq!(host.values(&fence), (5, 8));
        } else {
            assert_eq!(host.wait(&fence, 9), Status::NOT_SUPPORTED)
        }
        let write = |va, value: u64| write_data(va, &value.to_le_bytes());
        host.run_system(write(fence.mapping.current_value_gpu_va, 6));
        host.run_system(write(fence.mapping.monitored_value_gpu_va, 7));
        assert_eq!(host.values(&fence), (6, 7));
        assert_eq!(host.gpu.fence_value(host.guest, fence.slot).unwrap(), 6);

        // The page is unmapped when its last fence is gone.
        host.ask(&DestroyNativeFence { fence: fence.fence });
        host.gpu.take_interrupts();
        let read = Copy::new(fence.mapping.current_value_gpu_va, LOCAL_START, 8);
        let submitted = host.submit_system(&Packets::new().then(read));
        let fault = loop {
            let failed =
                take_interrupts(&host.gpu).into_iter().find_map(|interrupt| match interrupt {
                    Interrupt::PagingFaulted { fence, fault, .. } => Some((fence, fault)),
                    _ => None,
                });
            if let Some((failed, fault)) = failed {
                assert_eq!(failed, submitted);
                break fault;
            }
        };
        let va = fence.mapping.current_value_gpu_va;
        assert_eq!((fault.reason, fault.address), (FaultReason::READ_PAGE_FAULT, va));
    }
}
