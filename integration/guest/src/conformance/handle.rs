// SPDX-License-Identifier: MIT OR Apache-2.0

//! `handle.*`: handles are typed and belong to one process.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::raw::{self, Process};
use crate::conformance::scene::Scene;
use crate::conformance::source;
use bellhop_protocol::control::context::{CreateContext, DestroyContext};
use bellhop_protocol::control::device::DestroyDevice;
use bellhop_protocol::control::hw_queue::{CreateHwQueue, DestroyHwQueue};
use bellhop_protocol::control::process::DestroyProcess;
use bellhop_protocol::control::{Handle, device::CreateDevice};
use bellhop_protocol::status::Status;

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new("handle.other-process", source::KMD_ALLOCATIONS, other_process)
        .shows("a handle of another process is not valid, and that process keeps its object"),
    Behaviour::new("handle.other-type", source::KMD_ALLOCATIONS, other_type).shows(
        "a handle of another kind of object gets another status than a handle that is not valid",
    ),
    Behaviour::new("handle.stale", source::KMD_ALLOCATIONS, stale).shows(
        "a handle is not valid after its object is destroyed, even when another object is \
         created",
    ),
    Behaviour::new("handle.made-up", source::KMD_ALLOCATIONS, made_up)
        .shows("a value that the device never gave out is not a handle"),
    Behaviour::new("handle.process-unknown", source::PROTOCOL_REQUESTS, process_unknown)
        .shows("a request of a process that does not exist is refused"),
    Behaviour::new("handle.cascade", source::UM_RESIDENCY, cascade)
        .shows("destroying a device destroys what was created on it"),
];

fn other_process(scene: &Scene) -> Result<(), Mismatch> {
    let owner = Process::begin(scene.transport())?;
    let other = Process::begin(scene.transport())?;
    let device = owner.device()?;
    // The process has objects, so that the value could name one of them by accident.
    for _ in 0..8 {
        let own = other.device()?;
        require!(own != device, "both processes were given {own}");
    }
    let (status, detail) = other.status(&DestroyDevice { device })?;
    require!(status == Status::INVALID_HANDLE, "ended with {status}");
    require!(detail == device.0, "the detail is {detail:#x}, not the handle {device}");
    owner.call(&DestroyDevice { device })
}

fn other_type(scene: &Scene) -> Result<(), Mismatch> {
    let process = Process::begin(scene.transport())?;
    let context = process.context(0)?;
    process.expect_status(&DestroyDevice { device: context }, Status::OBJECT_TYPE_MISMATCH)?;
    process.expect_status(&DestroyHwQueue { hw_queue: context }, Status::OBJECT_TYPE_MISMATCH)?;
    process.call(&DestroyContext { context })
}

fn stale(scene: &Scene) -> Result<(), Mismatch> {
    let process = Process::begin(scene.transport())?;
    let device = process.device()?;
    process.call(&DestroyDevice { device })?;
    let next = process.device()?;
    require!(next != device, "the handle {device} was given out again at once");
    process.expect_status(&DestroyDevice { device }, Status::INVALID_HANDLE)?;
    process.call(&DestroyDevice { device: next })
}

fn made_up(scene: &Scene) -> Result<(), Mismatch> {
    let process = Process::begin(scene.transport())?;
    let device = process.device()?;
    for value in [0, 1, u64::MAX, device.0 ^ 1 << 63, device.0 + 1, device.0.swap_bytes()] {
        let request = CreateContext { device: Handle(value), node: 0, engine_affinity: 0 };
        process.expect_status(&request, Status::INVALID_HANDLE)?;
    }
    Ok(())
}

fn process_unknown(scene: &Scene) -> Result<(), Mismatch> {
    let process = Process::begin(scene.transport())?;
    let gone = Process::begin(scene.transport())?;
    raw::call(scene.transport(), gone.id, &DestroyProcess { flags: 0 })?;
    for id in [0, gone.id, u32::MAX] {
        let request = CreateDevice { reserved: 0 };
        let (status, _) = raw::status(scene.transport(), id, &request)?;
        require!(status == Status::INVALID_HANDLE, "process {id} got {status}");
    }
    process.device().map(|_| ())
}

fn cascade(scene: &Scene) -> Result<(), Mismatch> {
    let process = Process::begin(scene.transport())?;
    let device = process.device()?;
    let context = process.call(&CreateContext { device, node: 0, engine_affinity: 0 })?;
    let request = CreateHwQueue { context, flags: 0, reserved: 0 };
    let queue = process.call(&request)?.hw_queue;
    process.call(&DestroyDevice { device })?;
    process.expect_status(&DestroyContext { context }, Status::INVALID_HANDLE)?;
    process.expect_status(&DestroyHwQueue { hw_queue: queue }, Status::INVALID_HANDLE)
}
