// SPDX-License-Identifier: MIT OR Apache-2.0

//! A guest with one of everything, for trying a row.

use crate::bench::{Bench, Client, FEATURES, RESOURCES, USER_MODE};
use crate::display::{caps, commit, monitor, path};
use crate::model::{Model, NODES_WITH_VIDEO};
use bellhop_host_kmd::dxgkrnl::Limits;
use bellhop_host_kmd::hardware::GuestId;
use bellhop_host_kmd::port::{GuestResources, Input};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::{
    AllocationFlags, AllocationKind, CreateAllocation, Lock, SegmentSet, ShareAllocation,
};
use bellhop_protocol::control::device::CreateDevice;
use bellhop_protocol::control::fence::{CreateNativeFence, FenceFlags, NtHandle, ShareNativeFence};
use bellhop_protocol::control::gpu_va::{
    MapGpuVirtualAddress, Protection, ReserveGpuVirtualAddress, UpdateGpuVirtualAddress,
};
use bellhop_protocol::control::hw_queue::HwQueueFlags;
use bellhop_protocol::control::node_context::{
    CreateNodeContext, CreateNodeContextReply, SubmissionModel,
};
use bellhop_protocol::control::video::{CreateVideoSession, VideoFormat};
use bellhop_protocol::features::Features;
use bellhop_protocol::status::Status;
use std::sync::Arc;

/// Size of an allocation in bytes.
pub(super) const SIZE: u64 = 4 * PAGE_SIZE;
/// Size of the reserved range in bytes; only its first page is mapped.
pub(super) const RESERVED: u64 = 16 * PAGE_SIZE;
/// Address of the command buffers with virtual addresses.
pub(super) const COMMANDS: u64 = 0x10_0008;
/// The cookie of a pending wait, and its value.
pub(super) const COOKIE: u64 = 77;
pub(super) const AWAITED: u64 = 5;

/// A guest with one of everything.
pub(super) struct World {
    pub(super) bench: Bench,
    pub(super) client: Client,
    /// A device without objects.
    pub(super) device: Handle,
    pub(super) doorbell: Handle,
    pub(super) video_session: Handle,
    /// A queue without a doorbell, and two allocations for a ring.
    pub(super) unrung: Handle,
    pub(super) ring: (Handle, Handle),
    /// A queue for kernel-mode submission.
    pub(super) queue: Handle,
    /// Contexts of the three models.
    pub(super) nodes: [CreateNodeContextReply; 3],
    /// An allocation that is not paged, and its mapped address.
    pub(super) fixed: (Handle, u64),
    /// A paged allocation that is resident and not locked.
    pub(super) paged: Handle,
    pub(super) locked: Handle,
    /// A reserved range with its first page mapped.
    pub(super) reserved: u64,
    pub(super) fence: Handle,
    pub(super) fence_slot: u32,
    /// A fence that can be opened, and its name.
    pub(super) shared: Handle,
    pub(super) shared_name: NtHandle,
    /// A compiled kernel.
    pub(super) kernel: Handle,
    /// An allocation that can be opened by its name, and is not open on `device`.
    pub(super) offering: Handle,
    pub(super) offered: NtHandle,
}

/// A guest that may put areas of the BAR into its own memory, and has done nothing yet.
pub(super) fn donor() -> (Bench, GuestId) {
    let (mut bench, guest) = (Bench::new(2), GuestId(1));
    let features = FEATURES | Features::DONATED_AREAS;
    let resources = GuestResources { bar_mapped: false, features, ..RESOURCES };
    bench.input(Input::Attach { guest, resources });
    bench.open_with(guest, features).unwrap();
    (bench, guest)
}

pub(super) fn map(allocation: Handle, base: u64) -> MapGpuVirtualAddress {
    let protection = Protection::WRITE.bits();
    MapGpuVirtualAddress { allocation, base, offset: 0, size: PAGE_SIZE, protection, reserved: 0 }
}

pub(super) fn paged(device: Handle) -> CreateAllocation {
    CreateAllocation {
        supported_segments: (SegmentSet::LOCAL | SegmentSet::SYSTEM).bits(),
        flags: AllocationFlags::CPU_VISIBLE.bits(),
        ..CreateAllocation::fixed(device, AllocationKind::PAGED, SIZE, 0)
    }
}

/// A session on the node that decodes.
pub(super) fn create_video_session(device: Handle) -> CreateVideoSession {
    CreateVideoSession::decoding(device, 2, VideoFormat::NV12, [640, 360])
}

impl World {
    pub(super) fn new() -> Self {
        let mut model = Model::with_displays(caps());
        model.nodes = NODES_WITH_VIDEO;
        model.state().video_room = 16;
        let mut bench = Bench::of(vec![Arc::new(model)], Limits::default());
        let guest = bench.guest(1);
        for child in 0..2 {
            bench.model.plug(guest, child, Some(monitor()));
        }
        bench.interrupt();
        bench.events.clear();
        let (client, doorbell) = bench.connected(guest);
        commit(&mut bench, client, &[path(0, 0)]).unwrap();
        let device = bench.call(client, &CreateDevice { reserved: 0 }).unwrap();
        let unrung = bench.queue(client, USER_MODE).queue;
        let ring = bench.ring(client);
        let queue = bench.queue(client, HwQueueFlags::empty()).queue;
        let models =
            [SubmissionModel::BASIC, SubmissionModel::BASIC_PLUS_PLUS, SubmissionModel::VIRTUAL];
        let nodes = models.map(|model| {
            bench
                .call(client, &CreateNodeContext { device: client.device, node: 0, model })
                .unwrap()
        });
        let fixed = bench.local(client, SIZE).unwrap().allocation;
        let fixed_va = bench.call(client, &map(fixed, 0)).unwrap().gpu_va;
        let paged_on = paged;
        let mut described = || bench.call(client, &paged(client.device)).unwrap().allocation;
        let (paged, locked) = (described(), described());
        bench.make_resident(client, &[paged]).unwrap();
        bench.call(client, &Lock { allocation: locked }).unwrap();
        let reserve = ReserveGpuVirtualAddress { base: 0, size: RESERVED };
        let reserved = bench.call(client, &reserve).unwrap().gpu_va;
        let request = CreateNativeFence::new(client.device, 0);
        let created = bench.call(client, &request).unwrap();
        let (fence, fence_slot) = (created.fence, created.slot);
        let request = CreateNativeFence { flags: FenceFlags::SHARED.bits(), ..request };
        let shared = bench.call(client, &request).unwrap().fence;
        let shared_name = bench.call(client, &ShareNativeFence { fence: shared }).unwrap();
        let flags = AllocationFlags::SHARED.bits();
        let request = CreateAllocation { flags, ..paged_on(client.device) };
        let offering = bench.call(client, &request).unwrap().allocation;
        let offered = bench.call(client, &ShareAllocation { allocation: offering }).unwrap();
        let kernel = bench.kernel(client, fixed_va).kernel;
        let request = create_video_session(client.device);
        let video_session = bench.call(client, &request).unwrap().session;
        let mut world = Self {
            bench,
            client,
            device,
            doorbell,
            unrung,
            ring,
            queue,
            nodes,
            fixed: (fixed, fixed_va),
            paged,
            locked,
            reserved,
            fence,
            fence_slot,
            shared,
            shared_name,
            kernel,
            video_session,
            offering,
            offered,
        };
        let update = world.update();
        world.bench.call(client, &update).unwrap();
        let token = world.bench.wait(client, fence, AWAITED, COOKIE);
        assert_eq!(world.bench.outcome(client, token), Some(Status::PENDING));
        world
    }

    /// Maps the first of the reserved pages.
    pub(super) fn update(&self) -> UpdateGpuVirtualAddress {
        UpdateGpuVirtualAddress {
            gpu_va: self.reserved,
            size: PAGE_SIZE,
            allocation: self.paged,
            offset: 0,
            protection: Protection::WRITE.bits(),
            reserved: 0,
        }
    }
}
