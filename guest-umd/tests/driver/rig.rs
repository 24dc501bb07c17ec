// SPDX-License-Identifier: MIT OR Apache-2.0

//! A driver with a queue whose doorbell is connected.

use crate::device::{Answer, ScriptedDevice, success};
use bellhop_guest_umd::{Adapter, CommandBuffer, Context, Device, Error, UserModeQueue};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::RequestCode;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::doorbell::ConnectDoorbellReply;
use bellhop_protocol::doorbell::{ConnectionStatus, DoorbellStatus, LoggingLevel};
use bellhop_protocol::packet::Packet;
use bellhop_protocol::packet::fence::SignalFence;
use bellhop_protocol::packet::flow::IndirectBuffer;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of the ring.
pub const RING: u64 = 4096;
/// Bytes in the ring that a submission of a [`named_buffer`] takes.
pub const SUBMISSION: u64 = (size_of::<IndirectBuffer>() + size_of::<SignalFence>()) as u64;

pub struct Rig {
    pub queue: UserModeQueue,
    pub commands: CommandBuffer,
    pub context: Context,
    pub gpu: Device,
    pub adapter: Adapter,
    pub device: Arc<ScriptedDevice>,
}

impl Rig {
    /// Creates a rig with nothing submitted, and forgets what was sent.
    pub fn new() -> Self {
        let rig = Self::disconnected();
        rig.device.set_status(0, ConnectionStatus::CONNECTED);
        rig
    }

    /// Creates a rig whose doorbell is not connected yet.
    pub fn disconnected() -> Self {
        Self::on(ScriptedDevice::new())
    }

    /// As [`Self::disconnected`], on this device.
    pub fn on(device: Arc<ScriptedDevice>) -> Self {
        let adapter = open(&device);
        let gpu = adapter.create_device().unwrap();
        let context = gpu.create_context(0).unwrap();
        let queue = context.create_user_mode_queue(RING).unwrap();
        let commands = named_buffer(&gpu);
        device.take_sent();
        Self { queue, commands, context, gpu, adapter, device }
    }

    /// Submits the command buffer.
    pub fn submit(&mut self) -> Result<u64, Error> {
        self.queue.submit(&mut self.commands)
    }

    /// Fills the ring with submissions, none of which the device has seen.
    pub fn fill_ring(&mut self) {
        for _ in 0..RING / SUBMISSION {
            self.queue.queue(&mut self.commands).unwrap();
        }
    }
}

/// A command buffer in memory that the program may change, so that a ring names it however small it is.
pub fn named_buffer(gpu: &Device) -> CommandBuffer {
    let allocation = gpu.create_allocation(AllocationKind::SYSTEM, PAGE_SIZE).unwrap();
    CommandBuffer::over(&allocation).unwrap()
}

pub fn open(device: &Arc<ScriptedDevice>) -> Adapter {
    Adapter::open(Arc::clone(device) as _).unwrap()
}

/// The error of a result with a value that cannot be printed.
pub fn error_of<T>(result: Result<T, Error>) -> Error {
    result.err().expect("it should have failed")
}

/// The packets in `bytes`, which hold nothing else.
pub fn packets(mut bytes: &[u8]) -> Vec<Packet<'_>> {
    let mut packets = Vec::new();
    while !bytes.is_empty() {
        let (packet, size) = Packet::decode(bytes).unwrap();
        packets.push(packet);
        bytes = &bytes[size..];
    }
    packets
}

/// The indirect buffer and the signal of a submission.
pub fn submission(bytes: &[u8]) -> (IndirectBuffer, SignalFence) {
    match packets(bytes)[..] {
        [Packet::IndirectBuffer(buffer), Packet::SignalFence(signal)] => (buffer, signal),
        ref other => panic!("not a submission: {other:?}"),
    }
}

/// Answers the first connect, and takes the physical doorbell away before the driver rings. `again` answers
/// later connects.
pub fn victimise_once(
    rig: &Rig,
    again: impl Fn(&ScriptedDevice) -> Answer + Send + Sync + 'static,
) {
    let is_first = AtomicBool::new(true);
    rig.device.script(move |device, sent| {
        if sent.code != RequestCode::CONNECT_DOORBELL {
            return Answer::AsUsual;
        }
        if !is_first.swap(false, Ordering::Relaxed) {
            return again(device);
        }
        let status = ConnectionStatus::CONNECTED;
        Answer::Reply(success(&ConnectDoorbellReply { status, reserved: 0 }))
    });
}

/// Has the device tell a logging level with each connect.
pub fn connect_with(rig: &Rig, level: LoggingLevel) {
    rig.device.script(move |device, sent| {
        if sent.code == RequestCode::CONNECT_DOORBELL {
            let connected = DoorbellStatus::new(ConnectionStatus::CONNECTED);
            device.set_status(0, connected.with_logging_level(level));
            let status = ConnectionStatus::CONNECTED;
            return Answer::Reply(success(&ConnectDoorbellReply { status, reserved: 0 }));
        }
        Answer::AsUsual
    });
}
