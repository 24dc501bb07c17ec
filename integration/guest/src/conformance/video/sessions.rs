// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sessions as objects: what they can be, how they are refused, counted, named and destroyed.

use super::lab::{self, EIGHT, NOBODY, SIZE, Studio};
use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::raw;
use crate::conformance::scene::Scene;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::kernel::unpadded;
use bellhop_protocol::control::video::{
    CreateVideoSession, DestroyVideoSession, RateControl, VideoCodec, VideoFormat,
};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::Opcode;
use bellhop_protocol::packet::video::{Video, VideoFlags};
use bellhop_protocol::status::Status;
use zerocopy::IntoBytes;

pub(super) fn caps(scene: &Scene) -> Result<(), Mismatch> {
    let caps = scene.adapter().video_caps()?;
    let missing = unpadded(&caps.missing);
    if !caps.are_supported() {
        require!(!missing.is_empty(), "there are no sessions, for no reason");
        let bench = scene.bench()?;
        let request = lab::decoding(&bench, 0, VideoFormat::NV12);
        let (transport, process) = (scene.transport(), bench.process.process());
        raw::expect_status(transport, process, &request, Status::NOT_SUPPORTED)?;
        scene.show(format!("no video: {missing}"));
        return Ok(());
    }
    require!(missing.is_empty(), "there are sessions, and yet {missing:?}");
    require!(caps.codecs & 1 << VideoCodec::AV1.0 != 0, "there is no AV1: {:#x}", caps.codecs);
    for format in VideoFormat::ALL {
        require!(caps.formats & 1 << format.0 != 0, "there is no {format}");
    }
    require!(caps.max_width >= 4096 && caps.max_height >= 2304, "{caps:?}");
    require!(caps.max_sessions > 0 && caps.max_bitstream > 0, "{caps:?}");
    Ok(())
}

pub(super) fn bad_fields(scene: &Scene) -> Result<(), Mismatch> {
    let caps = lab::caps(scene)?;
    let node = scene.node(EngineType::VIDEO_ENCODE)?;
    let bench = scene.bench_on(EngineType::VIDEO_ENCODE)?;
    let right = lab::encoding(&bench, node, VideoFormat::NV12);
    let wrong = [
        CreateVideoSession { codec: VideoCodec(2), ..right },
        CreateVideoSession { format: VideoFormat(9), ..right },
        CreateVideoSession { width: 65_536, height: 65_536, ..right },
        CreateVideoSession { width: caps.max_width + 1, ..right },
        CreateVideoSession { height: 0, ..right },
        CreateVideoSession { rate_control: RateControl(7), ..right },
        CreateVideoSession { rate: 256, ..right },
        CreateVideoSession { frame_rate_denominator: 0, ..right },
        CreateVideoSession { speed: 11, ..right },
        CreateVideoSession { reserved: 1, ..right },
        CreateVideoSession { node: 999, ..right },
    ];
    let (transport, process) = (scene.transport(), bench.process.process());
    for (index, request) in wrong.iter().enumerate() {
        let (status, _) = raw::status(transport, process, request)?;
        require!(status == Status::INVALID_PARAMETER, "wrong request {index} ended with {status}");
    }
    let elsewhere = CreateVideoSession { node: scene.node(EngineType::THREE_D)?, ..right };
    raw::expect_status(transport, process, &elsewhere, Status::NOT_SUPPORTED)?;
    let unknown = CreateVideoSession { device: NOBODY, ..right };
    raw::expect_status(transport, process, &unknown, Status::INVALID_HANDLE)?;
    let created = raw::call(transport, process, &right)?;
    raw::call(transport, process, &DestroyVideoSession { session: created.session })
}

pub(super) fn counted(scene: &Scene) -> Result<(), Mismatch> {
    let caps = lab::caps(scene)?;
    let node = scene.node(EngineType::VIDEO_DECODE)?;
    let bench = scene.bench_on(EngineType::VIDEO_DECODE)?;
    let request = lab::decoding(&bench, node, VideoFormat::NV12);
    let (transport, process) = (scene.transport(), bench.process.process());
    let mut sessions = Vec::new();
    for _ in 0..caps.max_sessions {
        sessions.push(raw::call(transport, process, &request)?);
    }
    raw::expect_status(transport, process, &request, Status::QUOTA_EXCEEDED)?;
    let Some(last) = sessions.pop() else { return Ok(()) };
    raw::call(transport, process, &DestroyVideoSession { session: last.session })?;
    let again = raw::call(transport, process, &request)?;
    let is_new = again.number != last.number;
    require!(is_new, "number {} was used again", again.number);
    for created in sessions.iter().chain([&again]) {
        raw::call(transport, process, &DestroyVideoSession { session: created.session })?;
    }
    scene.show(format!("{} sessions", caps.max_sessions));
    Ok(())
}

pub(super) fn unknown(scene: &Scene) -> Result<(), Mismatch> {
    let mut owner = Studio::decoding(scene, EIGHT.format)?;
    let expect_none = |number: u32| {
        let mut bench = scene.bench_on(EngineType::VIDEO_DECODE)?;
        let status = bench.va(0);
        let flags = VideoFlags::DRAIN;
        let packet = Video::new(Opcode::VIDEO_DECODE, number, flags, status);
        bench.commands.raw(packet.as_bytes())?;
        bench.expect_fault(FaultReason::NO_SUCH_SESSION, number.into()).map(drop)
    };
    for number in [0, u32::MAX, owner.created.number] {
        expect_none(number)?;
    }
    // It works where it is known, until it is destroyed.
    owner.decode_all(&EIGHT.units()?[..1])?;
    let (transport, process) = (scene.transport(), owner.bench.process.process());
    let destroy = DestroyVideoSession { session: owner.created.session };
    let stranger = scene.bench()?;
    let other = stranger.process.process();
    raw::expect_status(transport, other, &destroy, Status::INVALID_HANDLE)?;
    raw::call(transport, process, &destroy)?;
    let packet = owner.packet(VideoFlags::DRAIN, 0, 0);
    owner.bench.commands.reset();
    owner.bench.commands.raw(packet.as_bytes())?;
    let number = owner.created.number;
    owner.bench.expect_fault(FaultReason::NO_SUCH_SESSION, number.into())?;
    scene.show(format!("{} x {}", SIZE[0], SIZE[1]));
    Ok(())
}
