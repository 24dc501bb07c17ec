// SPDX-License-Identifier: MIT OR Apache-2.0

//! `fence.rewind.*`: fences whose values may become smaller.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::raw;
use crate::conformance::scene::{Scene, TIMEOUT};
use crate::conformance::source;
use bellhop_guest_umd::{CommandBuffer, Error};
use bellhop_protocol::control::fence::{CreateNativeFence, FenceFlags};
use bellhop_protocol::status::Status;
use std::time::Duration;

pub(in crate::conformance) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new("fence.rewind.gpu", source::FENCE_DESIGN, gpu).shows(
        "a packet may rewind a rewindable fence, and queues then wait until it has their value \
         again",
    ),
    Behaviour::new("fence.rewind.cpu", source::FENCE_CPU_SIGNAL, cpu).shows(
        "CPUs rewind a rewindable fence, and wait until it has its value again; no other fence \
         can be rewound",
    ),
];

/// How long the test waits for an event that must not come.
const WHILE: Duration = Duration::from_millis(20);

fn gpu(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let fence = bench.device.fence(9).rewindable().create()?;
    let mut waiting = bench.context.create_user_mode_queue(4096)?;
    let mut wait = CommandBuffer::new(&bench.device, 64)?;
    for round in 1..=10u64 {
        bench.commands.signal_fence(&fence, 0)?;
        bench.run()?;
        let seen = fence.current_value()?;
        require!(seen == 0, "rewound to 0 it reads {seen}");
        wait.reset();
        wait.wait_fence(&fence, round)?;
        let held = waiting.submit(&mut wait)?;
        let progress = waiting.progress_fence().poll(held, WHILE);
        require!(progress.is_err(), "round {round}: the queue was not held");
        bench.commands.signal_fence(&fence, round)?;
        bench.run()?;
        waiting.progress_fence().poll(held, TIMEOUT)?;
    }
    Ok(())
}

fn cpu(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let fence = bench.device.fence(9).rewindable().create()?;
    fence.wait(9, TIMEOUT)?;
    fence.signal(4)?;
    let seen = fence.current_value()?;
    require!(seen == 4, "rewound to 4 it reads {seen}");
    let ended = fence.wait(9, WHILE);
    require!(matches!(ended, Err(Error::Timeout { .. })), "the wait ended with {ended:?}");
    std::thread::scope(|threads| {
        let waiter = threads.spawn(|| fence.wait(9, TIMEOUT));
        bench.commands.signal_fence(&fence, 9)?;
        bench.run()?;
        waiter.join().map_err(|_| Mismatch::Seen("the waiter panicked".into()))??;
        Ok::<_, Mismatch>(())
    })?;
    let monotonic = bench.device.create_fence(9)?;
    let refused = matches!(
        monotonic.signal(4),
        Err(Error::Refused { status: Status::INVALID_PARAMETER, .. })
    );
    require!(refused, "a CPU rewinds a fence that was not created for it");
    let request = CreateNativeFence::new(bench.device.handle(), 0);
    let flags = FenceFlags::SHARED | FenceFlags::CROSS_ADAPTER | FenceFlags::REWINDABLE;
    let request = CreateNativeFence { flags: flags.bits(), ..request };
    let process = bench.process.process();
    raw::expect_status(scene.transport(), process, &request, Status::INVALID_PARAMETER)
}
