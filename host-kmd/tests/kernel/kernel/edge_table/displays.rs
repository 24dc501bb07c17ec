// SPDX-License-Identifier: MIT OR Apache-2.0

//! The rows of requests about displays. The guest shows source 0 on target 0, 64 x 32 pixels.

use super::row::*;
use super::world::{SIZE, World};
use crate::bench::fence_values;
use crate::display::path;
use bellhop_protocol::control::RequestCode;
use bellhop_protocol::control::display::{
    CommitVidPn, EnumVidPnCofuncModality, IsSupportedVidPn, Pivot, QueryChildRelations,
    QueryChildStatus, QueryDeviceDescriptor, RecommendMonitorModes,
};
use bellhop_protocol::control::flip::{
    ControlInterrupt, GetScanLine, SetPointerPosition, SetPointerShape, SetVidPnSourceAddress,
    SetVidPnSourceOwner, SetVidPnSourceVisibility,
};
use bellhop_protocol::status::Status;

/// Bytes of a picture of 64 x 32 pixels, four bytes each.
const PICTURE: u64 = 64 * 32 * 4;

fn source() -> Field {
    only("source", 4, 0, Status::GRAPHICS_SOURCE_NOT_IN_TOPOLOGY)
}

fn child() -> Field {
    if_so("child", 4, |child| child < 2)
}

/// The fields of a path about which any answer is a success.
fn asked_path() -> Vec<Field> {
    let mut fields = vec![
        any("source", 4),
        any("target", 4),
        if_so("flags", 4, |flags| flags < 16),
        any("scaling", 4),
        any("rotation", 4),
        zero("reserved", 4),
    ];
    fields.extend(["width", "height", "format"].map(|name| any(name, 4)));
    fields.push(zero("source_mode.reserved", 4));
    fields.extend((0..8).map(|_| any("target_mode", 4)));
    fields
}

/// The fields of a path that is committed: no edge but these makes a functional VidPN.
fn committed_path() -> Vec<Field> {
    let refused = Status::GRAPHICS_VIDPN_TOPOLOGY_NOT_SUPPORTED;
    let known = move |name, most: u64| {
        field(name, 4, move |seen| if seen <= most { Ok(()) } else { Err(refused) })
    };
    let one = move |name, value| only(name, 4, value, refused);
    vec![
        known("source", 1),
        known("target", 1),
        field("flags", 4, move |flags| match flags {
            15 => Ok(()),
            0..15 => Err(refused),
            _ => Err(Status::INVALID_PARAMETER),
        }),
        one("scaling", 1),
        one("rotation", 1),
        zero("reserved", 4),
        one("width", 64),
        one("height", 32),
        one("format", 1),
        zero("source_mode.reserved", 4),
        one("target_mode.width", 64),
        one("target_mode.height", 32),
        one("target_mode.total_width", 70),
        one("target_mode.total_height", 35),
        one("target_mode.refresh_numerator", 60),
        one("target_mode.refresh_denominator", 1),
        one("target_mode.flags", 0),
        one("target_mode.min_refresh", 0),
    ]
}

/// The rows of a request about displays.
pub(super) fn displays(code: RequestCode, world: &World) -> Vec<Row> {
    let process = world.client.process;
    let (picture, _) = world.fixed;
    let row = match code {
        RequestCode::QUERY_CHILD_RELATIONS => {
            row(0, &QueryChildRelations { reserved: 0 }, vec![zero("reserved", 8)])
        }
        RequestCode::QUERY_CHILD_STATUS => {
            let request = QueryChildStatus { child: 0, reserved: 0 };
            row(0, &request, vec![child(), zero("reserved", 4)])
        }
        RequestCode::QUERY_DEVICE_DESCRIPTOR => {
            let request = QueryDeviceDescriptor { child: 0, offset: 128 };
            let offset = if_so("offset", 4, |offset| [0, 128].contains(&offset));
            row(0, &request, vec![child(), offset])
        }
        RequestCode::RECOMMEND_MONITOR_MODES => {
            let request = RecommendMonitorModes { child: 0, first: 0 };
            row(0, &request, vec![child(), any("first", 4)])
        }
        RequestCode::IS_SUPPORTED_VIDPN => {
            let request = IsSupportedVidPn { paths: 1, reserved: 0 };
            let mut fields = vec![count("paths", 1), zero("reserved", 4)];
            fields.extend(asked_path());
            row_with_list(process, &request, &[path(0, 0)], fields)
        }
        RequestCode::ENUM_VIDPN_COFUNC_MODALITY => {
            let (pivot_path, pivot) = (0, Pivot::SCALING);
            let request = EnumVidPnCofuncModality { paths: 1, pivot_path, pivot, first: 0 };
            let mut fields = vec![
                count("paths", 1),
                if_so("pivot_path", 4, |path| path == 0),
                if_so("pivot", 4, |pivot| (1..5).contains(&pivot)),
                any("first", 4),
            ];
            fields.extend(asked_path());
            row_with_list(process, &request, &[path(0, 0)], fields)
        }
        RequestCode::COMMIT_VIDPN => {
            let request = CommitVidPn { paths: 1, reserved: 0 };
            let mut fields = vec![count("paths", 1), zero("reserved", 4)];
            fields.extend(committed_path());
            row_with_list(process, &request, &[path(0, 0)], fields)
        }
        RequestCode::SET_VIDPN_SOURCE_VISIBILITY => {
            let request = SetVidPnSourceVisibility { source: 0, visible: 1 };
            row(process, &request, vec![source(), if_so("visible", 4, |visible| visible < 2)])
        }
        RequestCode::SET_VIDPN_SOURCE_ADDRESS => {
            let request = SetVidPnSourceAddress {
                source: 0,
                flags: 0,
                allocation: picture,
                offset: 0,
                pitch: 256,
                fences: 1,
                flip: 7,
            };
            let fields = vec![
                source(),
                if_so("flags", 4, |flags| flags < 4),
                handle("allocation", picture),
                if_so("offset", 8, |offset| {
                    offset.is_multiple_of(256)
                        && offset.checked_add(PICTURE).is_some_and(|end| end <= SIZE)
                }),
                if_so("pitch", 4, |pitch| pitch == 256),
                count("fences", 1),
                if_so("flip", 8, |flip| flip != 0),
                handle("fence", world.fence),
                any("value", 8),
            ];
            let fences = fence_values(&[(world.fence, 1)]);
            row_with_list(process, &request, &fences, fields)
        }
        RequestCode::GET_SCAN_LINE => {
            row(0, &GetScanLine { source: 0, reserved: 0 }, vec![source(), zero("reserved", 4)])
        }
        RequestCode::CONTROL_INTERRUPT => {
            let request = ControlInterrupt { source: 0, flags: 1 };
            row(process, &request, vec![source(), if_so("flags", 4, |flags| flags < 2)])
        }
        RequestCode::SET_POINTER_SHAPE => {
            let request = SetPointerShape {
                source: 0,
                width: 64,
                height: 2,
                pitch: 256,
                hot_x: 0,
                hot_y: 0,
                allocation: picture,
                offset: 0,
            };
            let fields = vec![
                source(),
                if_so("width", 4, |width| (1..=64).contains(&width)),
                if_so("height", 4, |height| (1..=64).contains(&height)),
                if_so("pitch", 4, |pitch| pitch % 4 == 0 && (256..=4096).contains(&pitch)),
                if_so("hot_x", 4, |x| x < 64),
                if_so("hot_y", 4, |y| y < 2),
                // Without a shape, the width must be 0 too.
                field("allocation", 8, move |seen| match seen {
                    _ if seen == picture.0 => Ok(()),
                    0 => Err(Status::INVALID_PARAMETER),
                    _ => Err(Status::INVALID_HANDLE),
                })
                .naming(0, 64),
                if_so("offset", 8, |offset| {
                    offset % 4 == 0 && offset.checked_add(512).is_some_and(|end| end <= SIZE)
                }),
            ];
            row(process, &request, fields)
        }
        RequestCode::SET_POINTER_POSITION => {
            let request = SetPointerPosition { source: 0, x: -5, y: 7, flags: 1 };
            let flags = if_so("flags", 4, |flags| flags < 2);
            row(process, &request, vec![source(), any("x", 4), any("y", 4), flags])
        }
        RequestCode::SET_VIDPN_SOURCE_OWNER => {
            let request = SetVidPnSourceOwner { source: 0, process };
            let granted = field("process", 4, move |seen| match seen {
                0 => Ok(()),
                _ if seen == u64::from(process) => Ok(()),
                _ => Err(Status::INVALID_HANDLE),
            });
            row(process, &request, vec![source(), granted])
        }
        code => panic!("{code} has no row"),
    };
    vec![row]
}
