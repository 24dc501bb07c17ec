// SPDX-License-Identifier: MIT OR Apache-2.0

//! Displays: topologies, flips, and what ends while it is shown.

mod flips;
mod lifetimes;
mod machine;
mod topology;

use crate::bench::{Bench, Client, Refused, bytes_with_list, fence_values};
use crate::model::Model;
pub(crate) use crate::model::monitors::{caps, monitor, path, source_mode, target_mode};
use bellhop_host_kmd::dxgkrnl::Limits;
use bellhop_host_kmd::hardware::GuestId;
use bellhop_host_kmd::port::RequestToken;
use bellhop_protocol::control::allocation::{
    AllocationFlags, AllocationKind, CreateAllocation, SegmentSet,
};
use bellhop_protocol::control::display::{CommitVidPn, Constraint, VidPnPath};
use bellhop_protocol::control::flip::{FlipFlags, SetVidPnSourceAddress};
use bellhop_protocol::control::{Handle, ReplyHeader};
use bellhop_protocol::event::{Event, EventKind, FlipOutcome};
use bellhop_protocol::status::Status;
use std::sync::Arc;
use zerocopy::FromBytes;

/// A host with displays, a guest with a monitor at each connector, and a client.
pub(crate) fn world() -> (Bench, Client) {
    let mut bench = Bench::of(vec![Arc::new(Model::with_displays(caps()))], Limits::default());
    let guest = bench.guest(1);
    for child in 0..2 {
        bench.model.plug(guest, child, Some(monitor()));
    }
    bench.interrupt();
    bench.events.clear();
    let client = bench.client(guest);
    (bench, client)
}

/// A world that shows source 0 on target 0.
pub(crate) fn lit() -> (Bench, Client) {
    let (mut bench, client) = world();
    assert_eq!(commit(&mut bench, client, &[path(0, 0)]), Ok(()));
    (bench, client)
}

/// Commits paths; the reply comes at once.
pub(crate) fn commit(
    bench: &mut Bench,
    client: Client,
    paths: &[VidPnPath],
) -> Result<(), (Constraint, u32)> {
    let token = begin_commit(bench, client, paths);
    let (ReplyHeader { status, detail, .. }, _) =
        bench.reply(client.guest, token).expect("an answer at once");
    match status {
        Status::SUCCESS => Ok(()),
        Status::GRAPHICS_VIDPN_TOPOLOGY_NOT_SUPPORTED => {
            Err((Constraint((detail >> 32) as u32), detail as u32))
        }
        other => panic!("{other}"),
    }
}

pub(crate) fn begin_commit(bench: &mut Bench, client: Client, paths: &[VidPnPath]) -> RequestToken {
    let request = CommitVidPn { paths: paths.len() as u32, reserved: 0 };
    bench.send(client.guest, bytes_with_list(client.process, &request, paths))
}

/// A primary of 64 x 32 pixels that pages, in private memory.
pub(crate) fn primary(bench: &mut Bench, client: Client) -> Handle {
    primary_with(bench, client, AllocationFlags::PRIMARY)
}

pub(crate) fn primary_with(bench: &mut Bench, client: Client, flags: AllocationFlags) -> Handle {
    let request = CreateAllocation {
        supported_segments: SegmentSet::PRIVATE.bits(),
        flags: flags.bits(),
        ..CreateAllocation::fixed(client.device, AllocationKind::PAGED, 2 * 4096, 0)
    };
    bench.call(client, &request).unwrap().allocation
}

pub(crate) fn address(allocation: Handle, flip: u64, flags: FlipFlags) -> SetVidPnSourceAddress {
    SetVidPnSourceAddress {
        source: 0,
        flags: flags.bits(),
        allocation,
        offset: 0,
        pitch: 256,
        fences: 0,
        flip,
    }
}

/// Sends a flip of source 0 that waits for these fences.
pub(crate) fn begin_flip(
    bench: &mut Bench,
    client: Client,
    request: SetVidPnSourceAddress,
    fences: &[(Handle, u64)],
) -> RequestToken {
    let fences = fence_values(fences);
    let request = SetVidPnSourceAddress { fences: fences.len() as u32, ..request };
    bench.send(client.guest, bytes_with_list(client.process, &request, &fences))
}

/// Flips source 0 at the next VSYNC; the reply comes at once.
pub(crate) fn flip(
    bench: &mut Bench,
    client: Client,
    allocation: Handle,
    number: u64,
) -> Result<(), Refused> {
    let request = address(allocation, number, FlipFlags::empty());
    let token = begin_flip(bench, client, request, &[]);
    let (header, _) = bench.reply(client.guest, token).expect("an answer at once");
    if header.status == Status::SUCCESS { Ok(()) } else { Err((header.status, header.detail)) }
}

/// A VSYNC of a source, and its interrupt.
pub(crate) fn vsync(bench: &mut Bench, guest: GuestId, source: u32) {
    bench.model.vsync(guest, source);
    bench.interrupt();
}

/// The flips that ended since the last time, and how.
pub(crate) fn take_flipped(bench: &mut Bench) -> Vec<(u64, FlipOutcome)> {
    let flipped = |event: &Event| event.kind == EventKind::FLIPPED;
    let ended = bench.events.extract_if(.., |(_, event)| flipped(event));
    ended.map(|(_, event)| (event.value, event.outcome)).collect()
}

/// The body of a reply.
pub(crate) fn body<T: FromBytes>(bench: &Bench, guest: GuestId, token: RequestToken) -> T {
    let (header, body) = bench.reply(guest, token).expect("an answer at once");
    assert_eq!(header.status, Status::SUCCESS);
    let Ok(body) = T::read_from_bytes(body) else { panic!("a reply of another size") };
    body
}
