// SPDX-License-Identifier: MIT OR Apache-2.0

//! The listings of the reference, step by step, by requests and shared memory alone, without a driver.
//!
//! Source: user-mode work submission, "Work submission pseudocode in UMD" and "Victimizing doorbell
//! pseudocode in KMD".

use crate::support::{self, Daemon};
use bellhop_guest::client;
use bellhop_guest::fake_guest::FakeGuest;
use bellhop_guest_umd::transport::Transport;
use bellhop_protocol::control::adapter::OpenAdapter;
use bellhop_protocol::control::allocation::{AllocationKind, CreateAllocation};
use bellhop_protocol::control::context::CreateContext;
use bellhop_protocol::control::device::CreateDevice;
use bellhop_protocol::control::doorbell::{
    ConnectDoorbell, CreateDoorbell, CreateDoorbellReply, NotifyWorkSubmission,
};
use bellhop_protocol::control::gpu_va::{MapGpuVirtualAddress, Protection};
use bellhop_protocol::control::hw_queue::{CreateHwQueue, CreateHwQueueReply, HwQueueFlags};
use bellhop_protocol::control::power::{DevicePowerState, QueryPower, SetDevicePower};
use bellhop_protocol::control::process::CreateProcess;
use bellhop_protocol::control::{Handle, Request};
use bellhop_protocol::doorbell::{ConnectionStatus, DoorbellStatus};
use bellhop_protocol::features::{Features, Version};
use bellhop_protocol::packet::fence::SignalFence;
use bellhop_protocol::packet::flow::IndirectBuffer;
use bellhop_protocol::ring::WRITE_POINTER_OFFSET;
use bellhop_protocol::status::Status;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use vm_memory::{Bytes, VolatileMemory};
use zerocopy::IntoBytes;

/// A process without a driver.
struct Process {
    guest: Arc<FakeGuest>,
    process: u32,
    device: Handle,
    context: Handle,
}

/// An allocation in local memory, visible to the process and the GPU.
struct Memory {
    handle: Handle,
    bar_offset: u64,
    gpu_va: u64,
}

/// A HW queue with a doorbell.
struct Queue {
    hw_queue: CreateHwQueueReply,
    doorbell: CreateDoorbellReply,
    ring: Memory,
    control: Memory,
    commands: Memory,
}

impl Process {
    fn begin(guest: Arc<FakeGuest>) -> Self {
        let mut this = Self { guest, process: 0, device: Handle(0), context: Handle(0) };
        let offered = Features::from_bits_truncate(this.guest.config().features);
        let wanted = Features::USER_MODE_SUBMISSION | Features::NATIVE_FENCES;
        let wanted = wanted | Features::POWER_CONTROL;
        let features = (wanted & offered).bits();
        this.ok(&OpenAdapter { version: Version::CURRENT, reserved: 0, features });
        this.process = this.ok(&CreateProcess { reserved: 0 }).process;
        this.device = this.ok(&CreateDevice { reserved: 0 });
        this.context = this.ok(&CreateContext { device: this.device, node: 0, engine_affinity: 0 });
        this
    }

    fn call<T: Request>(&self, request: &T) -> Result<T::Reply, Status> {
        client::request(&*self.guest, self.process, request).unwrap()
    }

    fn ok<T: Request>(&self, request: &T) -> T::Reply {
        self.call(request).unwrap()
    }

    /// Sends a request about the adapter.
    fn adapter_ok<T: Request>(&self, request: &T) -> T::Reply {
        client::request(&*self.guest, 0, request).unwrap().unwrap()
    }

    /// `*offset` in the BAR.
    fn with_word<R>(&self, offset: u64, act: impl FnOnce(&AtomicU64) -> R) -> R {
        let region = self.guest.bar().unwrap().region;
        act(region.get_atomic_ref(offset as usize).unwrap())
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        let region = self.guest.bar().unwrap().region;
        region.as_volatile_slice().write_slice(bytes, offset as usize).unwrap();
    }

    /// `*(UINT64*)DoorbellStatusCPUVirtualAddress`, its ConnectionStatus.
    fn status(&self, queue: &Queue) -> ConnectionStatus {
        let word = self.with_word(queue.doorbell.status_offset, |w| w.load(Ordering::Acquire));
        DoorbellStatus(word).connection()
    }

    fn allocate(&self) -> Memory {
        let (device, kind, size) = (self.device, AllocationKind::LOCAL, 4096);
        let request = CreateAllocation::fixed(device, kind, size, 0);
        let reply = self.ok(&request);
        let protection = Protection::WRITE.bits();
        let (allocation, base, offset) = (reply.allocation, 0, 0);
        let request =
            MapGpuVirtualAddress { allocation, base, offset, size, protection, reserved: 0 };
        let gpu_va = self.ok(&request).gpu_va;
        Memory { handle: reply.allocation, bar_offset: reply.bar_offset, gpu_va }
    }

    /// `D3DKMTCreateHwQueue` with `UserModeSubmission`, and `D3DKMTCreateDoorbell`.
    fn create_queue(&self) -> Queue {
        let flags = HwQueueFlags::USER_MODE_SUBMISSION | HwQueueFlags::NATIVE_PROGRESS_FENCE;
        let flags = flags.bits();
        let hw_queue = self.ok(&CreateHwQueue { context: self.context, flags, reserved: 0 });
        // "UMD is responsible for making the ring buffer and ring buffer control allocations
        // resident before creating a doorbell", which they are when they are created.
        let (ring, control) = (self.allocate(), self.allocate());
        let doorbell =
            self.ok(&CreateDoorbell::new(hw_queue.hw_queue, ring.handle, control.handle));
        Queue { hw_queue, doorbell, ring, control, commands: self.allocate() }
    }

    /// The listing's loop, once for each submission, with the listing's names of steps.
    fn submit(&self, queue: &Queue, new_progress_fence_value: u64) {
        // The command buffer; its last instruction writes the progress fence.
        let signal = SignalFence::new(queue.hw_queue.progress_fence.slot, new_progress_fence_value);
        self.write(queue.commands.bar_offset, signal.as_bytes());
        let size = size_of_val(&signal) as u32;
        let entry = IndirectBuffer::new(queue.commands.gpu_va, size);
        let mut is_written = false;
        loop {
            // "first connect the doorbell and read status"
            let connected = self.call(&ConnectDoorbell { hw_queue: queue.hw_queue.hw_queue });
            let status = self.status(queue);
            assert!(connected.is_ok() && status != ConnectionStatus::DISCONNECTED_ABORT);
            if !is_written {
                // "update the last queue progress fence value"
                self.with_word(queue.doorbell.last_queued_offset, |word| {
                    word.store(new_progress_fence_value, Ordering::Release);
                });
                // "write command to ring buffer of this HWQueue"
                let entry = entry.as_bytes();
                let write_pointer = queue.control.bar_offset + WRITE_POINTER_OFFSET;
                self.with_word(write_pointer, |word| {
                    let before = word.load(Ordering::Relaxed);
                    self.write(queue.ring.bar_offset + before % 4096, entry);
                    word.store(before + entry.len() as u64, Ordering::Release);
                });
                is_written = true;
            }
            // "Ring doorbell by writing the write pointer value into doorbell address."
            let write_pointer = queue.control.bar_offset + WRITE_POINTER_OFFSET;
            let value = self.with_word(write_pointer, |word| word.load(Ordering::Relaxed));
            self.with_word(queue.doorbell.doorbell_offset, |word| {
                word.store(value, Ordering::Release);
            });
            fence(Ordering::SeqCst);
            // "Check if submission succeeded by reading doorbell status"
            match self.status(queue) {
                ConnectionStatus::CONNECTED => return,
                ConnectionStatus::CONNECTED_NOTIFY => {
                    self.ok(&NotifyWorkSubmission { doorbell: queue.doorbell.doorbell });
                    return;
                }
                ConnectionStatus::DISCONNECTED_RETRY => {}
                status => panic!("the queue is lost: {status}"),
            }
        }
    }

    fn await_progress(&self, queue: &Queue, value: u64) {
        let offset = queue.hw_queue.progress_fence.mapping.current_value_offset;
        let current = || self.with_word(offset, |word| word.load(Ordering::Acquire));
        support::await_that(&format!("submission {value} is done"), || current() >= value);
    }
}

#[test]
fn the_submission_listing_submits() {
    let daemon = Daemon::start(1);
    let process = Process::begin(support::guest(&daemon, 0));
    let queue = process.create_queue();
    assert_eq!(process.status(&queue), ConnectionStatus::DISCONNECTED_RETRY);
    for value in 1..=200 {
        process.submit(&queue, value);
        process.await_progress(&queue, value);
    }
}

#[test]
fn the_victim_listing_moves_the_one_physical_doorbell() {
    use ConnectionStatus as Status;
    // "There's a single physical doorbell in the PCI BAR."
    let configuration = "[adapter]\nphysical_doorbells = 1\nengine_idle = \"0s\"\n";
    let daemon = Daemon::start_with(1, configuration);
    let process = Process::begin(support::guest(&daemon, 0));
    let is_connected = |queue: &Queue| {
        matches!(process.status(queue), Status::CONNECTED | Status::CONNECTED_NOTIFY)
    };
    let first = process.create_queue();
    process.ok(&ConnectDoorbell { hw_queue: first.hw_queue.hw_queue });
    assert!(is_connected(&first));

    // "The OS calls DxgkDdiCreateDoorbell for a different HWQueue2": nothing is assigned yet, and the first queue
    // keeps the physical doorbell.
    let second = process.create_queue();
    assert_eq!(process.status(&second), Status::DISCONNECTED_RETRY);
    assert!(is_connected(&first));

    // "The OS calls DxgkDdiConnectDoorbell on hDoorbell2": the first is the victim.
    process.ok(&ConnectDoorbell { hw_queue: second.hw_queue.hw_queue });
    assert!(is_connected(&second));
    assert_eq!(process.status(&first), Status::DISCONNECTED_RETRY);

    // Each queue submits, whether it has the doorbell or not.
    for value in 1..=50 {
        for queue in [&first, &second] {
            process.submit(queue, value);
        }
        for queue in [&first, &second] {
            process.await_progress(queue, value);
        }
    }
}

/// D3 in the listing's words: "UMD writes a new command to a HWQueue when the GPU is in D3 state".
#[test]
fn a_notify_in_d3_wakes_no_engine_and_the_listing_continues() {
    let daemon = Daemon::start_with(1, "[debug]\npower_control = true\n");
    let process = Process::begin(support::guest(&daemon, 0));
    let queue = process.create_queue();
    for value in 1..=20 {
        process.submit(&queue, value);
        process.await_progress(&queue, value);
        process.adapter_ok(&SetDevicePower { state: DevicePowerState::D3, reserved: 0 });
        assert_eq!(process.status(&queue), ConnectionStatus::DISCONNECTED_RETRY);
        process.ok(&NotifyWorkSubmission { doorbell: queue.doorbell.doorbell });
        let power = process.adapter_ok(&QueryPower { node: 0, reserved: 0 });
        assert_eq!(power.device, DevicePowerState::D3);
    }
}
