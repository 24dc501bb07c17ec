// SPDX-License-Identifier: MIT OR Apache-2.0

//! `fence.caps` and `fence.types`: whether there are native fences, and which side reaches which of their
//! values.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::raw::{self, Process};
use crate::conformance::scene::{Bench, Scene, TIMEOUT};
use crate::conformance::source;
use bellhop_guest_umd::{CommandBuffer, Error, Fence};
use bellhop_protocol::control::adapter::{
    INTRA_GPU_FENCE_SUPPORTED, NATIVE_GPU_FENCE_SUPPORTED, QueryNativeFenceCaps,
};
use bellhop_protocol::control::fence::{CreateNativeFence, NOT_PUBLISHED, NativeFenceType};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::features::Features;
use bellhop_protocol::status::Status;

pub(in crate::conformance) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new("fence.caps", source::FENCE_CAPS, caps)
        .shows("the caps tell whether there are native fences, and only then can one be created"),
    Behaviour::new("fence.types.default", source::FENCE_TYPES, default_row)
        .shows("CPUs and packets reach each value of a default fence as the table of types says"),
    Behaviour::new("fence.types.intra-gpu", source::FENCE_TYPES, intra_gpu_row)
        .shows("only packets reach each value of an intra-GPU fence, as the table of types says"),
];

fn caps(scene: &Scene) -> Result<(), Mismatch> {
    let caps = scene.adapter().native_fence_caps()?;
    let supported = caps.flags & NATIVE_GPU_FENCE_SUPPORTED != 0;
    let negotiated = scene.adapter().features().contains(Features::NATIVE_FENCES);
    require!(supported == negotiated, "flags {:#x}, negotiated: {negotiated}", caps.flags);
    let stride = caps.monitored_value_stride;
    require!((stride != 0) == supported, "MonitoredValues are {stride} bytes apart");
    let reserved = QueryNativeFenceCaps { reserved: 1 };
    raw::expect_status(scene.transport(), 0, &reserved, Status::INVALID_PARAMETER)?;
    let process = Process::begin(scene.transport())?;
    let request = CreateNativeFence::new(process.device()?, 0);
    if !supported {
        let user_mode = scene.adapter().features().contains(Features::USER_MODE_SUBMISSION);
        require!(!user_mode, "there is user-mode submission");
        return process.expect_status(&request, Status::NOT_SUPPORTED);
    }
    let [one, two] = [process.call(&request)?, process.call(&request)?];
    let (one, two) = (one.mapping.monitored_value_gpu_va, two.mapping.monitored_value_gpu_va);
    let apart = one.abs_diff(two);
    require!(apart == u64::from(stride), "two MonitoredValues are {apart} apart, not {stride}");
    Ok(())
}

/// A row of the table of types, as far as a guest sees it.
struct Row {
    create: fn(&Bench) -> Result<Fence, Error>,
    /// A CPU reads CurrentValue, waits for it and signals it.
    cpus_reach_it: bool,
}

fn default_row(scene: &Scene) -> Result<(), Mismatch> {
    check_row(scene, &Row { create: |bench| bench.device.create_fence(5), cpus_reach_it: true })
}

fn intra_gpu_row(scene: &Scene) -> Result<(), Mismatch> {
    let flags = scene.adapter().native_fence_caps()?.flags;
    if flags & INTRA_GPU_FENCE_SUPPORTED == 0 {
        let process = Process::begin(scene.transport())?;
        let request = CreateNativeFence::new(process.device()?, 0);
        let request = CreateNativeFence { fence_type: NativeFenceType::INTRA_GPU, ..request };
        process.expect_status(&request, Status::NOT_SUPPORTED)?;
        return Err(Mismatch::NotOffered("there are no intra-GPU fences".into()));
    }
    let create = |bench: &Bench| bench.device.fence(5).intra_gpu().create();
    check_row(scene, &Row { create, cpus_reach_it: false })
}

fn check_row(scene: &Scene, row: &Row) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let fence = (row.create)(&bench)?;
    let mapping = fence.mapping();
    let [current, monitored] = [mapping.current_value_gpu_va, mapping.monitored_value_gpu_va];

    // The GPU reads and writes CurrentValue, and reads MonitoredValue.
    let [first, second, third] = [0, 8, 16].map(|offset| bench.va(offset));
    bench.commands.copy(current, first, 8)?.copy(monitored, second, 8)?;
    bench.commands.write_data(current, &6u64.to_le_bytes())?.conditional_interrupt(&fence)?;
    bench.commands.wait_fence(&fence, 6)?.copy(current, third, 8)?;
    bench.run()?;
    let seen = [bench.word(0)?, bench.word(8)?, bench.word(16)?];
    require!(seen == [5, u64::MAX, 6], "packets read {seen:?}");

    // A CPU in user mode reads CurrentValue, and reaches no MonitoredValue.
    let published = mapping.current_value_offset != NOT_PUBLISHED;
    require!(published == row.cpus_reach_it, "a CPU's view of CurrentValue: {published}");
    match (fence.current_value(), row.cpus_reach_it) {
        (Ok(6), true) | (Err(Error::NotAvailable(_)), false) => {}
        (seen, _) => return Err(Mismatch::Seen(format!("a CPU reads {seen:?}"))),
    }
    // A CPU in kernel mode waits for CurrentValue, which writes MonitoredValue, and signals it.
    let (waited, signaled) = (fence.wait(6, TIMEOUT), fence.signal(7));
    let refused = |ended: &Result<(), Error>| {
        matches!(ended, Err(Error::Refused { status: Status::NOT_SUPPORTED, .. }))
    };
    let as_expected = if row.cpus_reach_it {
        waited.is_ok() && signaled.is_ok()
    } else {
        refused(&waited) && refused(&signaled)
    };
    require!(as_expected, "a wait ended with {waited:?}, a signal with {signaled:?}");

    // No packet writes MonitoredValue.
    let mut writer = bench.context.create_user_mode_queue(4096)?;
    let mut write = CommandBuffer::new(&bench.device, 64)?;
    write.write_data(monitored, &0u64.to_le_bytes())?;
    let ended = writer.submit(&mut write);
    let ended = ended.and_then(|value| writer.progress_fence().poll(value, TIMEOUT));
    match ended {
        Err(Error::QueueLost { fault: Some(fault), .. })
            if (fault.reason, fault.address)
                == (FaultReason::WRITE_PROTECTION_FAULT, monitored) => {}
        ended => return Err(Mismatch::Seen(format!("writing MonitoredValue: {ended:?}"))),
    }
    Ok(())
}
