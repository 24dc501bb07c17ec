// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packets that lose their queue.

use super::lab::{BITSTREAM_ROOM, EIGHT, Studio};
use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::scene::Scene;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::control::video::{MAX_BITSTREAM, MAX_PICTURE};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::Opcode;
use bellhop_protocol::packet::video::{Video, VideoFlags};
use zerocopy::IntoBytes;

impl Studio {
    /// Asserts that a packet loses its queue. The next packets use another.
    fn expect_lost(
        &mut self,
        packet: &Video,
        reason: FaultReason,
        address: u64,
    ) -> Result<(), Mismatch> {
        self.bench.commands.reset();
        self.bench.commands.raw(packet.as_bytes())?;
        self.bench.expect_fault(reason, address)?;
        self.bench.commands.reset();
        self.bench.queue = self.bench.context.create_user_mode_queue(4096)?;
        Ok(())
    }
}

/// The address behind a mapping of two pages, behind which nothing is mapped.
fn unmapped(studio: &Studio) -> Result<(bellhop_guest_umd::GpuMapping, u64), Mismatch> {
    let device = &studio.bench.device;
    let reserved = device.create_allocation(AllocationKind::SYSTEM, 2 * PAGE_SIZE)?;
    let mapping = reserved.map(Protection::WRITE)?;
    let behind = mapping.gpu_va() + 2 * PAGE_SIZE;
    Ok((mapping, behind))
}

pub(super) fn read(scene: &Scene) -> Result<(), Mismatch> {
    let units = EIGHT.units()?;
    let mut studio = Studio::decoding(scene, EIGHT.format)?;
    studio.decode_all(&units[..1])?;
    let (mapping, behind) = unmapped(&studio)?;
    let packet = Video { bitstream: behind - 64, ..studio.packet(VideoFlags::empty(), 4096, 0) };
    studio.expect_lost(&packet, FaultReason::READ_PAGE_FAULT, behind)?;
    drop(mapping);
    // The worker was never told: the stream goes on.
    studio.decode_all(&units[1..2]).map(drop)
}

pub(super) fn write(scene: &Scene) -> Result<(), Mismatch> {
    let units = EIGHT.units()?;
    let mut studio = Studio::decoding(scene, EIGHT.format)?;
    studio.decode_all(&units[..1])?;
    let (mapping, behind) = unmapped(&studio)?;
    studio.bench.write(0, units[1])?;
    let whole = studio.packet(VideoFlags::empty(), units[1].len() as u32, 1);
    let packet = Video { picture: behind - 4096, picture_size: 8192, ..whole };
    studio.expect_lost(&packet, FaultReason::WRITE_PAGE_FAULT, behind)?;
    let read_only = mapping.allocation().map(Protection::empty())?;
    let packet = Video { picture: read_only.gpu_va(), picture_size: 8192, ..whole };
    studio.expect_lost(&packet, FaultReason::WRITE_PROTECTION_FAULT, read_only.gpu_va())?;
    studio.decode_all(&units[1..2]).map(drop)
}

pub(super) fn arguments(scene: &Scene) -> Result<(), Mismatch> {
    let mut decoder = Studio::decoding(scene, EIGHT.format)?;
    let right = decoder.packet(VideoFlags::empty(), 64, 0);
    let bad = FaultReason::BAD_VIDEO_ARGUMENTS;
    let outside = 1 << 40;
    let wrong = [
        (Video { flags: 1 << 3, ..right }, bad, 1 << 3),
        (Video { flags: VideoFlags::KEY_FRAME.bits(), ..right }, bad, 4),
        (Video { flags: 3, ..right }, bad, 3),
        (Video { picture_size: MAX_PICTURE + 1, ..right }, bad, u64::from(MAX_PICTURE) + 1),
        (Video { bitstream_size: MAX_BITSTREAM + 1, ..right }, bad, u64::from(MAX_BITSTREAM) + 1),
        (Video { pitch: 65, ..right }, bad, 65),
        (Video { status: right.status + 4, ..right }, FaultReason::MISALIGNED, right.status + 4),
        (Video { bitstream: outside, ..right }, FaultReason::ADDRESS_OUT_OF_RANGE, outside),
        (Video { picture: u64::MAX, ..right }, FaultReason::ADDRESS_OUT_OF_RANGE, u64::MAX),
    ];
    for (packet, reason, address) in &wrong {
        decoder.expect_lost(packet, *reason, *address)?;
    }
    let mut encoder = Studio::encoding(scene, EIGHT.format)?;
    let flush = encoder.packet(VideoFlags::FLUSH, BITSTREAM_ROOM, 0);
    encoder.expect_lost(&flush, bad, 2)?;
    decoder.decode_all(&EIGHT.units()?[..1]).map(drop)
}

pub(super) fn wrong_node(scene: &Scene) -> Result<(), Mismatch> {
    let decoder = Studio::decoding(scene, EIGHT.format)?;
    let number = decoder.created.number;
    let mut tried = 0;
    for (node, opcode) in [
        (EngineType::THREE_D, Opcode::VIDEO_DECODE),
        (EngineType::COPY, Opcode::VIDEO_DECODE),
        (EngineType::VIDEO_DECODE, Opcode::VIDEO_ENCODE),
        (EngineType::VIDEO_ENCODE, Opcode::VIDEO_DECODE),
    ] {
        let mut bench = scene.bench_on(node)?;
        let packet = Video::new(opcode, number, VideoFlags::DRAIN, bench.va(0));
        bench.commands.raw(packet.as_bytes())?;
        bench.expect_fault(FaultReason::NOT_SUPPORTED_BY_NODE, opcode.0.into())?;
        tried += 1;
    }
    require!(tried == 4, "{tried} nodes");
    Ok(())
}
