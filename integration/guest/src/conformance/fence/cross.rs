// SPDX-License-Identifier: MIT OR Apache-2.0

//! `fence.cross.*`: cross-adapter fences, as far as one guest sees them.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::raw;
use crate::conformance::scene::{Scene, TIMEOUT};
use crate::conformance::source;
use bellhop_guest_umd::Error;
use bellhop_protocol::control::fence::{CreateNativeFence, FenceFlags, NativeFenceType};
use bellhop_protocol::status::Status;

pub(in crate::conformance) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new("fence.cross.type", source::FENCE_CROSS_ADAPTER, cross_type)
        .shows("a cross-adapter fence that is intra-GPU, or not shared, is refused"),
    Behaviour::new("fence.cross.policy", source::FENCE_CROSS_ADAPTER, cross_policy)
        .shows("a cross-adapter fence opens by its name, and its MonitoredValue is 0"),
];

fn cross_type(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench()?;
    let request = CreateNativeFence::new(bench.device.handle(), 0);
    let (shared, cross) = (FenceFlags::SHARED, FenceFlags::CROSS_ADAPTER);
    let refused = [(NativeFenceType::INTRA_GPU, shared | cross), (NativeFenceType::DEFAULT, cross)];
    for (fence_type, flags) in refused {
        let request = CreateNativeFence { fence_type, flags: flags.bits(), ..request };
        let process = bench.process.process();
        raw::expect_status(scene.transport(), process, &request, Status::INVALID_PARAMETER)?;
    }
    Ok(())
}

fn cross_policy(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let fence = match bench.device.fence(1).cross_adapter().create() {
        Err(Error::Refused { status: Status::NOT_SUPPORTED, .. }) => {
            let why = "the host's policy names this guest with no other";
            return Err(Mismatch::NotOffered(why.into()));
        }
        created => created?,
    };
    let opened = bench.device.open_fence(fence.share()?)?;
    bench.commands.copy(opened.mapping().monitored_value_gpu_va, bench.va(0), 8)?;
    bench.commands.signal_fence(&fence, 2)?;
    bench.run()?;
    let seen = bench.word(0)?;
    require!(seen == 0, "MonitoredValue reads {seen}");
    Ok(opened.wait(2, TIMEOUT)?)
}
