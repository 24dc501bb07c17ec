// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the host enables, what the driver advertises, and what guests then get.

use crate::bench::{Bench, Client, FEATURES, RESOURCES, USER_MODE};
use crate::ddi::{Driver, FenceCall, FenceCalls, kernel_with};
use crate::model::Model;
use bellhop_host_kmd::ddi::CreateNativeFence as Created;
use bellhop_host_kmd::ddi::feature::{
    DxgkFeatures, FeatureId, FeatureInterface, NativeFenceCaps, NativeFenceOsCaps, VidSchCaps,
};
use bellhop_host_kmd::dxgkrnl::{AdapterError, Kernel, Limits, OsFeatures};
use bellhop_host_kmd::hardware::{GuestId, Segment};
use bellhop_host_kmd::port::{GuestResources, Input};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::adapter::{
    INTRA_GPU_FENCE_SUPPORTED, NATIVE_GPU_FENCE_SUPPORTED, QueryNativeFenceCaps,
};
use bellhop_protocol::control::allocation::SegmentSet;
use bellhop_protocol::control::context::CreateContext;
use bellhop_protocol::control::device::CreateDevice;
use bellhop_protocol::control::fence::{
    CreateNativeFence, DestroyNativeFence, FenceFlags, NOT_PUBLISHED, NativeFenceType,
    OpenNativeFence, OpenedFence, ShareNativeFence,
};
use bellhop_protocol::control::hw_queue::{CreateHwQueue, SubmitCommand};
use bellhop_protocol::features::Features;
use bellhop_protocol::handoff::fence::NOT_MONITORED;
use bellhop_protocol::status::Status;
use std::sync::Arc;

const CAPS: NativeFenceCaps = NativeFenceCaps {
    monitored_value_stride: 64,
    preferred_segments: SegmentSet::PRIVATE,
    map_to_gpu_system_process: true,
    minimum_address: 0,
    maximum_address: u64::MAX,
};

const DISABLED: OsFeatures = OsFeatures { native_fences: None };

fn granted(optimized_default_fence_type: bool, intra_gpu_fence_type: bool) -> OsFeatures {
    let caps = NativeFenceOsCaps { optimized_default_fence_type, intra_gpu_fence_type };
    OsFeatures { native_fences: Some(caps) }
}

/// A kernel with our driver, on a host that enables these features.
fn bench(features: OsFeatures) -> Bench {
    let mut bench = Bench::new(2);
    let model = Arc::clone(&bench.model);
    bench.kernel = Kernel::new(model, features, Limits::default()).unwrap().into();
    bench
}

#[test]
fn a_driver_finds_out_what_is_enabled_and_at_which_version() {
    let feature = FeatureId::NativeFence;
    let enabled = granted(true, false).is_feature_enabled(feature);
    assert_eq!((enabled.enabled, enabled.version), (true, 1));
    let features = granted(true, false);
    let FeatureInterface::NativeFence1(table) =
        features.query_feature_interface(feature, enabled.version).unwrap();
    let caps = table.get_os_caps();
    assert_eq!((caps.optimized_default_fence_type, caps.intra_gpu_fence_type), (true, false));
    for version in [0, 2] {
        let refused = features.query_feature_interface(feature, version).err().unwrap();
        assert_eq!((refused.feature, refused.version), (feature, version));
    }
    assert!(!DISABLED.is_feature_enabled(feature).enabled);
    assert!(DISABLED.query_feature_interface(feature, 1).is_err());
}

#[test]
fn a_driver_that_advertises_native_fences_without_having_asked_fails_the_adapter() {
    let advertises = VidSchCaps { native_gpu_fence: true, ..VidSchCaps::default() };
    let driver = Driver { advertises: Some(advertises), caps: CAPS };
    let model = || Arc::new(Model::new(1));
    let refused = kernel_with(model(), DISABLED, driver).err();
    assert_eq!(refused, Some(AdapterError::NativeFencesNotEnabled));
    assert!(refused.unwrap().to_string().contains("adapter.native_fences"));
    // Our driver asks. A driver without native fences works on any host.
    assert!(Kernel::new(model(), DISABLED, Limits::default()).is_ok());
    for features in [DISABLED, OsFeatures::default()] {
        let driver = Driver { advertises: Some(VidSchCaps::default()), caps: CAPS };
        assert!(kernel_with(model(), features, driver).is_ok());
    }
}

#[test]
fn caps_that_no_fence_can_have_fail_the_adapter() {
    let attempt = |caps| {
        let driver = Driver { advertises: None, caps };
        kernel_with(Arc::new(Model::new(1)), OsFeatures::default(), driver).err()
    };
    for stride in [0, 4, 24, 128] {
        let caps = NativeFenceCaps { monitored_value_stride: stride, ..CAPS };
        assert_eq!(attempt(caps), Some(AdapterError::MonitoredValueStride(stride)));
    }
    for segments in [SegmentSet::LOCAL, SegmentSet::PRIVATE | SegmentSet::SYSTEM] {
        let caps = NativeFenceCaps { preferred_segments: segments, ..CAPS };
        assert_eq!(attempt(caps), Some(AdapterError::FenceSegments(segments)));
    }
    for (minimum, maximum) in [(0, 1 << 41), (1 << 44, u64::MAX), (u64::MAX, u64::MAX)] {
        let caps = NativeFenceCaps { minimum_address: minimum, maximum_address: maximum, ..CAPS };
        assert_eq!(attempt(caps), Some(AdapterError::FenceAddresses { minimum, maximum }));
    }
    assert_eq!(attempt(NativeFenceCaps { monitored_value_stride: 8, ..CAPS }), None);
}

#[test]
fn values_are_as_far_apart_and_mapped_where_the_driver_says() {
    let minimum = (1 << 42) + 5;
    let caps = NativeFenceCaps {
        monitored_value_stride: 16,
        preferred_segments: SegmentSet::PRIVATE,
        map_to_gpu_system_process: false,
        minimum_address: minimum,
        maximum_address: u64::MAX,
    };
    let mut bench = Bench::new(1);
    let driver = Driver { advertises: None, caps };
    let (kernel, calls) =
        kernel_with(Arc::clone(&bench.model), OsFeatures::default(), driver).unwrap();
    bench.kernel = kernel.into();
    let guest = bench.guest(1);
    assert_eq!(query(&mut bench, guest), (3, 16));
    let client = bench.client(guest);
    let [one, two] = [0, 1]
        .map(|value| bench.call(client, &CreateNativeFence::new(client.device, value)).unwrap());
    assert!(one.mapping.current_value_gpu_va >= minimum);
    let apart = |of: fn(&OpenedFence) -> u64| of(&two) - of(&one);
    assert_eq!(apart(|fence| fence.mapping.current_value_gpu_va), 64);
    assert_eq!(apart(|fence| fence.mapping.monitored_value_gpu_va), 16);
    // The driver wants no mapping for the context management processor.
    let created = created(&calls);
    assert!(!created.is_empty() && created.iter().all(|fence| fence.system_process.is_none()));
    let system = bench.model.state().systems[&guest].address_space;
    assert_eq!(bench.model.page(system, one.mapping.current_value_gpu_va), None);
}

/// The fences that a driver was asked to create.
fn created(calls: &FenceCalls) -> Vec<Created> {
    let created = |call: &FenceCall| match call {
        FenceCall::Create(fence) => Some(*fence),
        _ => None,
    };
    calls.lock().unwrap().iter().filter_map(created).collect()
}

/// Flags and stride that a guest is told.
fn query(bench: &mut Bench, guest: GuestId) -> (u32, u32) {
    let caps = bench.ask(guest, 0, &QueryNativeFenceCaps { reserved: 0 }).unwrap();
    (caps.flags, caps.monitored_value_stride)
}

#[test]
fn a_guest_is_told_what_there_is() {
    let both = NATIVE_GPU_FENCE_SUPPORTED | INTRA_GPU_FENCE_SUPPORTED;
    for (features, expected) in [
        (OsFeatures::default(), (both, 64)),
        (granted(true, false), (NATIVE_GPU_FENCE_SUPPORTED, 64)),
        (DISABLED, (0, 0)),
    ] {
        let mut bench = bench(features);
        let guest = bench.attach(1);
        let wanted = match features.native_fences {
            Some(_) => FEATURES,
            None => FEATURES - Features::NATIVE_FENCES,
        };
        bench.open_with(guest, wanted).unwrap();
        assert_eq!(query(&mut bench, guest), expected);
    }
    // A guest that did not negotiate native fences has none.
    let mut bench = bench(OsFeatures::default());
    let guest = bench.attach(1);
    bench.open_with(guest, FEATURES - Features::NATIVE_FENCES).unwrap();
    assert_eq!(query(&mut bench, guest), (0, 0));
}

/// A process without a queue.
fn process(bench: &mut Bench, guest: GuestId) -> (u32, Handle, Handle) {
    let process = bench.process(guest);
    let device = bench.ask(guest, process, &CreateDevice { reserved: 0 }).unwrap();
    let request = CreateContext { device, node: 0, engine_affinity: 0 };
    (process, device, bench.ask(guest, process, &request).unwrap())
}

#[test]
fn without_native_fences_there_is_kernel_mode_submission_and_its_fence_is_a_monitored_one() {
    let mut bench = bench(DISABLED);
    let guest = GuestId(1);
    bench.input(Input::Attach { guest, resources: GuestResources { ..RESOURCES } });
    let offered = FEATURES - Features::NATIVE_FENCES;
    assert_eq!(bench.open(guest).unwrap_err(), (Status::REVISION_MISMATCH, offered.bits()));
    let info = bench.open_with(guest, offered).unwrap();
    let of_user_mode = Features::USER_MODE_SUBMISSION | Features::PROCESS_BARS;
    assert_eq!(info.features, (offered - of_user_mode).bits());

    let (process, device, context) = process(&mut bench, guest);
    let refused = bench.ask(guest, process, &CreateNativeFence::new(device, 0)).unwrap_err();
    assert_eq!(refused.0, Status::NOT_SUPPORTED);
    let flags = USER_MODE.bits();
    let mut request = CreateHwQueue { context, flags, reserved: 0 };
    assert_eq!(bench.ask(guest, process, &request).unwrap_err().0, Status::NOT_SUPPORTED);
    request.flags = 0;
    let queue = bench.ask(guest, process, &request).unwrap();
    let progress = queue.progress_fence;
    assert_eq!(progress.mapping.monitored_value_gpu_va, 0);
    let fence = bench.model.state().fences[&(guest, progress.slot)];
    assert_eq!((fence.monitored, fence.storage.native), (0, false));
    assert_eq!(fence.storage.monitored.segment, Segment::Fence);

    // There are no logs, either.
    assert_eq!((queue.wait_log_gpu_va, queue.signal_log_gpu_va, queue.log_entries), (0, 0, 0));
    assert!(bench.model.state().fence_logs.is_empty());

    let submit = SubmitCommand {
        hw_queue: queue.hw_queue,
        gpu_va: 0x10_0000,
        progress_fence_value: 1,
        size: 8,
        reserved: 0,
    };
    bench.ask(guest, process, &submit).unwrap();
    let client = Client {
        guest,
        process,
        device,
        context,
        queue: queue.hw_queue,
        id: *bench.model.state().queues.last_key_value().unwrap().0,
        fence: progress.fence,
        fence_slot: progress.slot,
    };
    let token = bench.wait(client, client.fence, 1, 9);
    assert_eq!(bench.outcome(client, token), Some(Status::PENDING));
    bench.model.signal(guest, progress.slot, 1);
    bench.interrupt();
    assert_eq!(bench.events.len(), 1);
    assert_eq!((bench.events[0].1.object, bench.events[0].1.cookie), (client.fence.0, 9));
    bench.input(Input::Detach { guest });
    assert_eq!(bench.detached, [guest]);
}

/// A row of the reference's table of fence types: "D3DDDI_NATIVEFENCE_TYPE".
struct Row {
    what: &'static str,
    features: OsFeatures,
    fence_type: NativeFenceType,
    current_value: Segment,
    monitored_value: Segment,
    /// Whether CPUs reach it, in user mode and in kernel mode.
    cpus_reach_it: bool,
}

const TABLE: [Row; 3] = [
    Row {
        what: "default",
        features: OsFeatures {
            native_fences: Some(NativeFenceOsCaps {
                optimized_default_fence_type: false,
                intra_gpu_fence_type: true,
            }),
        },
        fence_type: NativeFenceType::DEFAULT,
        current_value: Segment::Fence,
        monitored_value: Segment::Fence,
        cpus_reach_it: true,
    },
    Row {
        what: "default, optimised",
        features: OsFeatures {
            native_fences: Some(NativeFenceOsCaps {
                optimized_default_fence_type: true,
                intra_gpu_fence_type: true,
            }),
        },
        fence_type: NativeFenceType::DEFAULT,
        current_value: Segment::Fence,
        monitored_value: Segment::Private,
        cpus_reach_it: true,
    },
    Row {
        what: "intra-GPU",
        features: OsFeatures {
            native_fences: Some(NativeFenceOsCaps {
                optimized_default_fence_type: true,
                intra_gpu_fence_type: true,
            }),
        },
        fence_type: NativeFenceType::INTRA_GPU,
        current_value: Segment::Private,
        monitored_value: Segment::Private,
        cpus_reach_it: false,
    },
];

#[test]
fn each_type_of_fence_is_stored_mapped_and_reached_as_the_table_of_types_says() {
    for row in &TABLE {
        let what = row.what;
        let mut bench = Bench::new(2);
        let driver = Driver { advertises: None, caps: CAPS };
        let (kernel, calls) = kernel_with(Arc::clone(&bench.model), row.features, driver).unwrap();
        bench.kernel = kernel.into();
        let guest = GuestId(1);
        // Enough private memory to hold values.
        let mut resources = RESOURCES;
        resources.segments.private = 1024 * PAGE_SIZE;
        bench.input(Input::Attach { guest, resources });
        bench.open(guest).unwrap();
        let (client, other) = (bench.client(guest), bench.client(guest));
        let flags = FenceFlags::SHARED.bits();
        let request = CreateNativeFence {
            fence_type: row.fence_type,
            flags,
            ..CreateNativeFence::new(client.device, 5)
        };
        let fence = bench.call(client, &request).unwrap();
        let stored = bench.model.state().fences[&(guest, fence.slot)];
        let segments = (stored.storage.current.segment, stored.storage.monitored.segment);
        assert_eq!(segments, (row.current_value, row.monitored_value), "{what}");

        // GPU VA: CurrentValue read and written, MonitoredValue read. CMP VA: both read and written.
        let space = bench.model.state().opened[&(guest, fence.slot)].1;
        let system = bench.model.state().systems[&guest].address_space;
        let Created { system_process, fence: global, .. } = *created(&calls).last().unwrap();
        assert_eq!((global.guest, global.slot), (guest, fence.slot), "{what}");
        let vas = system_process.expect("the driver asked for them");
        let mapping = fence.mapping;
        for (value, space, va, writable) in [
            (stored.storage.current, space, mapping.current_value_gpu_va, true),
            (stored.storage.monitored, space, mapping.monitored_value_gpu_va, false),
            (stored.storage.current, system, vas.current_value, true),
            (stored.storage.monitored, system, vas.monitored_value, true),
        ] {
            let entry = bench.model.mapped(space, va - va % PAGE_SIZE).expect(what);
            let page = entry.page().unwrap();
            assert_eq!(
                (page.segment, page.address + va % PAGE_SIZE),
                (value.segment, value.address)
            );
            assert_eq!(entry.is_writable(), writable, "{what}: {value:?}");
        }

        // A user-mode CPU reads CurrentValue, but cannot reach MonitoredValue, which no BAR has.
        assert_eq!(stored.storage.published, row.cpus_reach_it, "{what}");
        assert_eq!(mapping.current_value_offset != NOT_PUBLISHED, row.cpus_reach_it, "{what}");
        // A kernel-mode CPU writes MonitoredValue when a wait begins, and reads and writes CurrentValue.
        let token = bench.wait(client, fence.fence, 7, 1);
        let signaled = bench.signal(client, &[(fence.fence, 6)]);
        let after = bench.model.state().fences[&(guest, fence.slot)];
        if row.cpus_reach_it {
            assert_eq!(bench.outcome(client, token), Some(Status::PENDING), "{what}");
            assert_eq!((signaled, after.current, after.monitored), (Ok(()), 6, 6), "{what}");
        } else {
            assert_eq!(bench.outcome(client, token), Some(Status::NOT_SUPPORTED), "{what}");
            assert_eq!(signaled.unwrap_err().0, Status::NOT_SUPPORTED, "{what}");
            assert_eq!((after.current, after.monitored), (5, NOT_MONITORED), "{what}");
        }

        // Processes can share it.
        let name = bench.call(client, &ShareNativeFence { fence: fence.fence }).unwrap();
        let open = OpenNativeFence { device: other.device, nt_handle: name };
        let opened = bench.call(other, &open).unwrap();
        assert_eq!(bench.model.state().opened[&(guest, opened.slot)].0, fence.slot, "{what}");

        // The processor's mappings go with the page.
        bench.call(client, &DestroyNativeFence { fence: fence.fence }).unwrap();
        let mapped = |bench: &Bench| {
            let va = vas.current_value - vas.current_value % PAGE_SIZE;
            bench.model.mapped(system, va).is_some()
        };
        assert!(mapped(&bench), "{what}: another process has it");
        bench.call(other, &DestroyNativeFence { fence: opened.fence }).unwrap();
        assert!(!mapped(&bench), "{what}");
        bench.input(Input::Detach { guest });
        assert_eq!(bench.detached, [guest]);
        assert!(bench.model.is_empty());
    }
}

/// "The OS allocates current value storage from local memory segment set specified in
/// DXGK_NATIVE_FENCE_CAPS."
#[test]
fn values_are_in_system_memory_where_the_driver_prefers_no_local_segment() {
    for preferred_segments in [SegmentSet::PRIVATE, SegmentSet::empty()] {
        let mut bench = Bench::new(1);
        let driver =
            Driver { advertises: None, caps: NativeFenceCaps { preferred_segments, ..CAPS } };
        let (kernel, _) =
            kernel_with(Arc::clone(&bench.model), OsFeatures::default(), driver).unwrap();
        bench.kernel = kernel.into();
        let guest = GuestId(1);
        let mut resources = RESOURCES;
        resources.segments.private = 1024 * PAGE_SIZE;
        bench.input(Input::Attach { guest, resources });
        bench.open(guest).unwrap();
        let client = bench.client(guest);
        let fence_type = NativeFenceType::INTRA_GPU;
        let request = CreateNativeFence { fence_type, ..CreateNativeFence::new(client.device, 0) };
        let fence = bench.call(client, &request).unwrap();
        let storage = bench.model.state().fences[&(guest, fence.slot)].storage;
        let segment = if preferred_segments.is_empty() { Segment::Fence } else { Segment::Private };
        assert_eq!((storage.current.segment, storage.monitored.segment), (segment, segment));
    }
}

#[test]
fn an_intra_gpu_fence_is_refused_where_the_host_does_not_do_it() {
    let mut bench = bench(granted(true, false));
    let guest = bench.guest(1);
    let client = bench.client(guest);
    let request = CreateNativeFence {
        fence_type: NativeFenceType::INTRA_GPU,
        ..CreateNativeFence::new(client.device, 0)
    };
    assert_eq!(bench.call(client, &request).unwrap_err().0, Status::NOT_SUPPORTED);
    let unknown = CreateNativeFence { fence_type: NativeFenceType(9), ..request };
    assert_eq!(bench.call(client, &unknown).unwrap_err(), (Status::INVALID_PARAMETER, 9));
    bench.call(client, &CreateNativeFence::new(client.device, 0)).unwrap();
}
