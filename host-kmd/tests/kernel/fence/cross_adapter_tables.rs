// SPDX-License-Identifier: MIT OR Apache-2.0

//! The tables of "Cross-adapter wait/signal combinations", combined.
//!
//! Source: native GPU fence object, 14.1.1 to 14.1.3.

use crate::bench::{
    Bench, CROSS_ADAPTER_FENCES, Client, FEATURES, RESOURCES, USER_MODE, fence_values, submission,
};
use crate::ddi::{FenceCall, FenceCalls, kernel_with_fence_calls};
use crate::model::{Call, Model};
use bellhop_host_kmd::ddi::CurrentValuesFlags;
use bellhop_host_kmd::dxgkrnl::{Adapters, Limits, OsFeatures};
use bellhop_host_kmd::hardware::SlotValue;
use bellhop_host_kmd::port::{AdapterId, GuestResources, SharingGroups};
use bellhop_protocol::control::fence::{
    CreateMonitoredFence, CreateNativeFence, FenceFlags, OpenNativeFence, OpenedFence,
    ShareNativeFence, SignalFromGpu, WaitFromGpu,
};
use bellhop_protocol::control::hw_queue::HwQueueFlags;
use bellhop_protocol::features::Features;
use bellhop_protocol::status::Status;
use std::sync::Arc;

const VALUE: u64 = 10;

/// How an adapter's GPU handles fences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gpu {
    /// It supports native fences, and packets wait for them and signal them.
    Native,
    /// Like `Native`, but waits and signals are submitted to a queue for kernel-mode submission.
    KernelMode,
    /// It does not support native fences: the fence is a monitored fence there.
    Monitored,
}

/// The source of a wait or a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Gpu,
    Cpu,
}

/// A row: which guest waits, which signals, and which of them created the fence.
#[derive(Debug, Clone, Copy)]
struct Row {
    wait: (Gpu, From),
    signal: (Gpu, From),
    waiter_created: bool,
}

impl Gpu {
    fn features(self) -> (OsFeatures, Features, HwQueueFlags) {
        let native = HwQueueFlags::NATIVE_PROGRESS_FENCE;
        match self {
            Self::Native => (OsFeatures::default(), FEATURES, USER_MODE),
            Self::KernelMode => (OsFeatures::default(), FEATURES, native),
            Self::Monitored => {
                let taken = FEATURES - (Features::NATIVE_FENCES | Features::USER_MODE_SUBMISSION);
                (OsFeatures { native_fences: None }, taken, HwQueueFlags::empty())
            }
        }
    }
}

/// One side of a row: its client, its GPU, and its view of the fence.
struct Side {
    client: Client,
    gpu: Gpu,
    fence: OpenedFence,
    calls: FenceCalls,
}

impl Side {
    /// Begins the wait. A packet of user-mode submission waits on the GPU itself; otherwise a submission is held
    /// behind the wait.
    fn wait(&self, bench: &mut Bench, from: From) {
        match (from, self.gpu) {
            (From::Cpu, _) => {
                let token = bench.wait(self.client, self.fence.fence, VALUE, 1);
                assert_eq!(bench.outcome(self.client, token), Some(Status::PENDING));
            }
            (From::Gpu, Gpu::Native) => {}
            (From::Gpu, _) => {
                let list = fence_values(&[(self.fence.fence, VALUE)]);
                let request = WaitFromGpu { queue: self.client.queue, count: 1, reserved: 0 };
                bench.call_with_list(self.client, &request, &list).unwrap();
                let submission = submission(self.client, 1);
                bench.call(self.client, &submission).unwrap();
            }
        }
    }

    fn signal(&self, bench: &mut Bench, from: From) {
        let Self { client, fence, gpu, .. } = self;
        match (from, gpu) {
            (From::Cpu, _) => bench.signal(*client, &[(fence.fence, VALUE)]).unwrap(),
            (From::Gpu, Gpu::Native) => {
                bench.model_of(client.guest).signal(client.guest, fence.slot, VALUE);
                bench.interrupt();
            }
            (From::Gpu, _) => {
                let list = fence_values(&[(fence.fence, VALUE)]);
                let request = SignalFromGpu { queue: client.queue, count: 1, reserved: 0 };
                bench.call_with_list(*client, &request, &list).unwrap();
            }
        }
    }

    /// The calls of `DdiUpdateCurrentValuesFromCpu` that this side's driver gets for a signal: the side's own from
    /// `signals_from`, or else the other side's. The GPU itself executes a packet's signal. A monitored fence does
    /// not concern the driver: VidSch "observes new fence value" there, or "updates fence value directly from CPU".
    fn expected_calls(&self, signals_from: Option<From>) -> Vec<FenceCall> {
        let notification_only = signals_from.is_none();
        let flags = CurrentValuesFlags { always_signaled: false, notification_only };
        let value = SlotValue { slot: self.fence.slot, value: VALUE };
        match (self.gpu, signals_from) {
            (Gpu::Monitored, _) | (Gpu::Native, Some(From::Gpu)) => Vec::new(),
            _ => vec![FenceCall::UpdateCurrentValues(vec![value], flags)],
        }
    }

    /// Whether the wait is over: whether the driver was told to look at its run list again (`NotificationOnly`), the
    /// submission behind the wait went to the GPU, or the guest was told.
    fn is_over(&self, bench: &Bench, from: From) -> bool {
        let log = bench.model_of(self.client.guest).take_log();
        let is_told = log.contains(&Call::Notify(vec![self.fence.slot], false));
        let is_submitted = log
            .iter()
            .any(|call| matches!(call, Call::Submit(queue, _) if *queue == self.client.id));
        let events = bench.events.iter().filter(|(guest, _)| *guest == self.client.guest);
        match (from, self.gpu) {
            (From::Cpu, _) => events.count() == 1,
            (From::Gpu, Gpu::Native) => is_told,
            (From::Gpu, _) => is_submitted,
        }
    }
}

fn client(bench: &mut Bench, place: u32, gpu: Gpu) -> Client {
    let (_, features, queue) = gpu.features();
    let sharing = SharingGroups::NONE.with(0);
    let resources = GuestResources { features, sharing, ..RESOURCES };
    let guest = bench.attach_to(AdapterId(place), u64::from(place) + 1, resources);
    bench.open_with(guest, features).unwrap();
    bench.client_with(guest, queue)
}

fn create(bench: &mut Bench, client: Client, gpu: Gpu) -> OpenedFence {
    let flags = (FenceFlags::SHARED | FenceFlags::CROSS_ADAPTER).bits();
    let device = client.device;
    match gpu {
        Gpu::Monitored => {
            let request = CreateMonitoredFence { device, initial_value: 0, flags, reserved: 0 };
            bench.call(client, &request).unwrap()
        }
        _ => {
            let request = CreateNativeFence { flags, ..CreateNativeFence::new(device, 0) };
            bench.call(client, &request).unwrap()
        }
    }
}

fn check(row: Row) {
    let gpus = [row.wait.0, row.signal.0];
    let features = gpus.map(|gpu| gpu.features().0);
    let mut bench = Bench::with_features(Model::several(2), &features, Limits::default());
    let kernels = bench.models.iter().zip(features);
    let kernels =
        kernels.map(|(model, features)| kernel_with_fence_calls(Arc::clone(model), features));
    let (kernels, calls): (_, Vec<_>) = kernels.map(Result::unwrap).unzip();
    bench.kernel = Adapters::new(kernels).with_cross_adapter_fences(CROSS_ADAPTER_FENCES);
    let clients = [0, 1].map(|place| client(&mut bench, place, gpus[place as usize]));
    let creator = if row.waiter_created { 0 } else { 1 };
    let created = create(&mut bench, clients[creator], gpus[creator]);
    let nt_handle =
        bench.call(clients[creator], &ShareNativeFence { fence: created.fence }).unwrap();
    let request = OpenNativeFence { device: clients[1 - creator].device, nt_handle };
    let opened = bench.call(clients[1 - creator], &request).unwrap();
    let fences = if row.waiter_created { [created, opened] } else { [opened, created] };
    for (gpu, fence) in gpus.iter().zip(fences) {
        // A monitored fence's MonitoredValue has no address.
        assert_eq!(fence.mapping.monitored_value_gpu_va == 0, *gpu == Gpu::Monitored, "{row:?}");
    }
    let [waiter, signaler] = [0, 1].map(|side| {
        let calls = Arc::clone(&calls[side]);
        Side { client: clients[side], gpu: gpus[side], fence: fences[side], calls }
    });
    waiter.wait(&mut bench, row.wait.1);
    assert!(!waiter.is_over(&bench, row.wait.1), "{row:?}");
    let take = |side: &Side| std::mem::take(&mut *side.calls.lock().unwrap());
    drop([&waiter, &signaler].map(take));
    signaler.signal(&mut bench, row.signal.1);
    assert_eq!(take(&signaler), signaler.expected_calls(Some(row.signal.1)), "{row:?}");
    assert_eq!(take(&waiter), waiter.expected_calls(None), "{row:?}");
    assert!(waiter.is_over(&bench, row.wait.1), "{row:?}");
    // No guest is told twice.
    assert!(bench.events.len() <= 1, "{row:?}");
    for side in [waiter, signaler] {
        let token = bench.wait(side.client, side.fence.fence, VALUE, 2);
        assert_eq!(bench.outcome(side.client, token), Some(Status::SUCCESS), "{row:?}");
    }
}

/// 14.1.1, "Both dGPU and iGPU Support NF"; 14.1.2, "iGPU doesn't support, dGPU supports NF: Wait submitted on iGPU,
/// Signal submitted on dGPU"; 14.1.3, likewise with "Signal submitted on iGPU, Wait submitted on dGPU"; the note that
/// either is similar for "a kernel mode queue on iGPU". In each, the fence is created on one adapter and opened on
/// the other, and the reverse.
#[test]
fn each_wait_ends_with_each_signal_of_the_other_adapter() {
    let tables = [
        (Gpu::Native, Gpu::Native),
        (Gpu::Monitored, Gpu::Native),
        (Gpu::Native, Gpu::Monitored),
        (Gpu::KernelMode, Gpu::Native),
        (Gpu::Native, Gpu::KernelMode),
        (Gpu::Monitored, Gpu::Monitored),
    ];
    for (waits, signals) in tables {
        for wait_from in [From::Gpu, From::Cpu] {
            for signal_from in [From::Gpu, From::Cpu] {
                for waiter_created in [true, false] {
                    let (wait, signal) = ((waits, wait_from), (signals, signal_from));
                    check(Row { wait, signal, waiter_created });
                }
            }
        }
    }
}
