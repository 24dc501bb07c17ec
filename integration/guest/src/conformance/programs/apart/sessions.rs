// SPDX-License-Identifier: MIT OR Apache-2.0

//! Objects that the host's workers have for a program.

use super::handles::use_up_handles;
use crate::conformance::behaviour::{Behaviour, Mismatch};
use crate::conformance::programs::stage::Stage;
use crate::conformance::programs::wire::CreateKernel;
use crate::conformance::source;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::kernel::DestroyKernel;
use bellhop_protocol::control::video::{CreateVideoSession, DestroyVideoSession, VideoFormat};
use bellhop_protocol::status::Status;

pub(super) const BEHAVIOURS: &[Behaviour<Stage>] = &[
    Behaviour::new("program.kernel.apart", source::KERNELS, kernel)
        .shows("a kernel of one program is not destroyed from another"),
    Behaviour::new("program.video.apart", source::VIDEO, video)
        .shows("a video session of one program is not destroyed from another"),
];

fn kernel(stage: &Stage) -> Result<(), Mismatch> {
    let [mut victim, mut other] = stage.pair()?;
    use_up_handles(&mut victim)?;
    let kernel = Handle(victim.ask(CreateKernel {})?);
    let own = other.introduction()?.process;
    other.expect_status(own, &DestroyKernel { kernel }, Status::INVALID_HANDLE)?;
    let process = victim.introduction()?.process;
    victim.expect_status(process, &DestroyKernel { kernel }, Status::SUCCESS)
}

fn video(stage: &Stage) -> Result<(), Mismatch> {
    let node = stage.node(EngineType::VIDEO_DECODE, 0)?;
    let [mut victim, mut other] = stage.pair()?;
    use_up_handles(&mut victim)?;
    let introduction = victim.introduction()?;
    let device = Handle(introduction.device());
    let create = CreateVideoSession::decoding(device, node, VideoFormat::I420, [64, 48]);
    let session = victim.call(introduction.process, &create)?.session;
    let own = other.introduction()?.process;
    other.expect_status(own, &DestroyVideoSession { session }, Status::INVALID_HANDLE)?;
    victim.expect_status(introduction.process, &DestroyVideoSession { session }, Status::SUCCESS)
}
