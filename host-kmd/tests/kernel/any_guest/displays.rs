// SPDX-License-Identifier: MIT OR Apache-2.0

//! Steps about displays: topologies, flips, presents, and what monitors do meanwhile.

use super::seen::{Seen, Step};
use crate::bench::{Bench, Client, bytes, bytes_with_list, fence_values};
use crate::model::monitors::{monitor, path, source_mode, target_mode};
use bellhop_host_kmd::hardware::GuestId;
use bellhop_protocol::control::allocation::{
    AllocationFlags, AllocationKind, CreateAllocation, SegmentSet,
};
use bellhop_protocol::control::display::{
    CommitVidPn, EnumVidPnCofuncModality, IsSupportedVidPn, Pivot, QueryChildRelations,
    QueryChildStatus, QueryDeviceDescriptor, RecommendMonitorModes, Rotation, Scaling, VidPnPath,
};
use bellhop_protocol::control::flip::{
    ControlInterrupt, GetScanLine, SetPointerPosition, SetPointerShape, SetVidPnSourceAddress,
    SetVidPnSourceOwner, SetVidPnSourceVisibility,
};
use bellhop_protocol::control::present::{Present, PresentKind, Rect, Surface};
use bellhop_protocol::control::{Handle, RequestCode};
use bellhop_protocol::packet::surface::StretchFilter;
use bellhop_protocol::pixel_format::PixelFormat;
use std::time::Duration;
use zerocopy::FromZeros;

/// The kinds of steps from which on, and up to which, they are requests about displays.
pub(super) const FIRST: u8 = 64;
/// The kind of step that is no request: a VSYNC, a monitor that is plugged in.
pub(super) const HAPPEN: u8 = 73;

/// The sources of a GPU, each with a target.
const SOURCES: usize = 2;

/// Gives a guest two monitors on each GPU, and lets its process show something on one of them.
pub(super) fn light(bench: &mut Bench, client: Client) {
    for model in &bench.models {
        for child in 0..SOURCES as u32 {
            model.plug(client.guest, child, Some(monitor()));
        }
    }
    bench.interrupt();
    let request = CommitVidPn { paths: 1, reserved: 0 };
    let request = bytes_with_list(client.process, &request, &[path(0, 0)]);
    let (status, _) = bench.raw(client.guest, request);
    assert!(status.is_success());
}

/// Requests after which no process shows anything.
pub(super) fn darken(seen: &Seen) -> Vec<Vec<u8>> {
    let processes = seen.0.iter().filter(|(code, ..)| *code == RequestCode::CREATE_PROCESS);
    let request = CommitVidPn { paths: 0, reserved: 0 };
    processes.map(|(_, process, _)| bytes(*process, &request)).collect()
}

/// Displays pass all tickets from now on.
pub(super) fn let_go(bench: &mut Bench, guests: [GuestId; 2]) {
    for model in &bench.models {
        model.state().displays.lets_go_late = false;
        guests.iter().for_each(|guest| model.let_go(*guest));
    }
    bench.interrupt();
}

/// Something happens beside the guest's requests.
pub(super) fn happen(bench: &mut Bench, guest: GuestId, [a, b, c, d]: [usize; 4]) {
    let (source, model) = (b as u32 % 2, &bench.models[b / 2 % bench.gpus()]);
    match a % 8 {
        0..=3 => model.vsync(guest, source),
        4 => model.plug(guest, source, (c % 2 == 0).then(monitor)),
        5 => {
            model.state().displays.lets_go_late = c % 2 == 0;
            model.let_go(guest);
        }
        // A VSYNC may be late, or never come.
        6 => bench.later(Duration::from_millis(d as u64 * 4)),
        _ => {}
    }
    bench.interrupt();
}

/// The paths of a request about topologies: none to three, of so many sources and targets.
fn paths([_, b, c, d]: [usize; 4], sources: usize) -> Vec<VidPnPath> {
    let scaling = [1, 1, 1, 1, 2, 3, 4, 9][d % 8];
    let rotation = [1, 1, 1, 1, 2, 3, 4, 0][d / 8 % 8];
    let (source_size, target_size) =
        [((64, 32), (64, 32)), ((32, 32), (32, 32)), ((32, 32), (64, 32)), ((48, 40), (65, 32))]
            [d / 64 % 4];
    let pinned = [15, 15, 0, d as u32 % 32][b / 64 % 4];
    let at = |choice: usize, bit: usize| ((choice >> bit) % sources) as u32;
    let path = |place: usize| VidPnPath {
        flags: pinned,
        scaling: Scaling(scaling),
        rotation: Rotation(rotation),
        source_mode: source_mode(source_size.0, source_size.1),
        target_mode: target_mode(target_size.0, target_size.1),
        ..path(at(c, 2 * place), at(c, 2 * place + 1))
    };
    (0..b / 4 % 4).map(path).collect()
}

/// A surface that lies in two pages, or does not.
fn surface(allocation: Handle, choice: usize) -> Surface {
    let (width, height) = [(64, 32), (32, 32), (1, 1), (64, 33)][choice % 4];
    let offset = [0, 0, 0, 4096][choice / 4 % 4];
    Surface { allocation, offset, pitch: 256, width, height, format: PixelFormat::X8R8G8B8 }
}

fn present(seen: &Seen, [a, b, c, d]: [usize; 4]) -> Vec<u8> {
    let (process, context) = seen.pick(RequestCode::CREATE_NODE_CONTEXT, a);
    let allocation = |choice| {
        let picked = seen.pick_of(process, RequestCode::CREATE_ALLOCATION, choice);
        surface(picked, choice / 4)
    };
    let kind = PresentKind(c as u32 % 4);
    let side = |choice: usize| [1, 8, 32, 40][choice % 4];
    let is_fill = kind == PresentKind::COLOR_FILL;
    let rect = Rect::new(0, 0, side(d), side(d / 4));
    let request = Present {
        context,
        kind,
        filter: StretchFilter(if kind == PresentKind::STRETCH { c as u32 / 4 % 3 } else { 0 }),
        source: if is_fill { Surface::new_zeroed() } else { allocation(b) },
        destination: allocation(b / 2 + 1),
        source_rect: if is_fill { Rect::default() } else { rect },
        destination_rect: match kind {
            PresentKind::STRETCH => Rect::new(0, 0, side(d / 16), side(d / 64)),
            _ => rect,
        },
        color: if is_fill { d as u32 } else { 0 },
        rects: c as u32 / 16 % 4,
    };
    let dirty = [Rect::new(0, 0, 1, 1), Rect::new(4, 4, 8, 8), Rect::new(0, 0, 40, 1)];
    bytes_with_list(process, &request, &dirty[..c / 16 % 4])
}

fn flip(seen: &Seen, [a, b, c, d]: [usize; 4], sources: usize) -> Vec<u8> {
    let (process, allocation) = seen.pick(RequestCode::CREATE_ALLOCATION, a);
    let fence = seen.pick_of(process, RequestCode::CREATE_NATIVE_FENCE, c / 4);
    let fences = fence_values(&[(fence, d as u64 % 4), (fence, d as u64 % 8)]);
    let fences = &fences[..c % 3];
    let request = SetVidPnSourceAddress {
        source: (b / 64 % sources) as u32,
        flags: b as u32 % 4,
        allocation,
        offset: [0, 0, 0, 256][b / 4 % 4],
        pitch: 256,
        fences: fences.len() as u32,
        flip: 1 + d as u64,
    };
    bytes_with_list(process, &request, fences)
}

/// The request of a step.
pub(super) fn request(step: &Step, seen: &Seen, gpus: usize) -> Option<Vec<u8>> {
    let [a, b, c, d] = step.choice;
    let sources = SOURCES * gpus;
    let (process, _) = seen.pick(RequestCode::CREATE_PROCESS, a);
    Some(match step.kind {
        64 | 65 => {
            let list = paths(step.choice, sources);
            let paths = list.len() as u32;
            match b % 4 {
                0 => bytes_with_list(process, &IsSupportedVidPn { paths, reserved: 0 }, &list),
                1 => {
                    let (pivot_path, pivot) = (c as u32 / 64, Pivot(1 + b as u32 / 16 % 4));
                    let request = EnumVidPnCofuncModality { paths, pivot_path, pivot, first: 0 };
                    bytes_with_list(process, &request, &list)
                }
                _ => bytes_with_list(process, &CommitVidPn { paths, reserved: 0 }, &list),
            }
        }
        66 => {
            let (source, on) = ((b / 64 % sources) as u32, c as u32 % 2);
            match b % 4 {
                0 => bytes(process, &SetVidPnSourceVisibility { source, visible: on }),
                1 => bytes(process, &ControlInterrupt { source, flags: on }),
                2 => bytes(0, &GetScanLine { source, reserved: 0 }),
                _ => {
                    let (other, _) = seen.pick(RequestCode::CREATE_PROCESS, c);
                    bytes(process, &SetVidPnSourceOwner { source, process: on * other })
                }
            }
        }
        67 | 68 => flip(seen, step.choice, sources),
        69 => {
            // The first of a GPU.
            let source = (b / 2 % gpus * SOURCES) as u32;
            let is_there = c % 2 == 0;
            if b % 2 == 0 {
                let (x, y, flags) = (c as i32 - 64, d as i32, u32::from(is_there));
                bytes(process, &SetPointerPosition { source, x, y, flags })
            } else {
                let (process, allocation) = seen.pick(RequestCode::CREATE_ALLOCATION, a);
                let none = SetPointerShape::new_zeroed();
                let shape = SetPointerShape {
                    width: 16,
                    height: 1 + d as u32 % 32,
                    pitch: 64,
                    hot_x: d as u32 % 20,
                    allocation,
                    ..none
                };
                bytes(process, if is_there { &shape } else { &none })
            }
        }
        70 => present(seen, step.choice),
        71 => {
            let (process, device) = seen.pick(RequestCode::CREATE_DEVICE, a);
            let shared = AllocationFlags::SHARED.bits() * u32::from(b % 8 == 7);
            let request = CreateAllocation {
                supported_segments: SegmentSet::PRIVATE.bits(),
                flags: AllocationFlags::PRIMARY.bits() | shared,
                ..CreateAllocation::fixed(device, AllocationKind::PAGED, 2 * 4096, 0)
            };
            bytes(process, &request)
        }
        72 => {
            let child = (c % (sources + 1)) as u32;
            match b % 4 {
                0 => bytes(0, &QueryChildRelations { reserved: 0 }),
                1 => bytes(0, &QueryChildStatus { child, reserved: 0 }),
                2 => bytes(0, &QueryDeviceDescriptor { child, offset: d as u32 % 4 * 128 }),
                _ => bytes(0, &RecommendMonitorModes { child, first: d as u32 % 4 }),
            }
        }
        _ => return None,
    })
}
