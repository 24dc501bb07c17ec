// SPDX-License-Identifier: MIT OR Apache-2.0

//! The rows of `PRESENT`. One pixel is drawn, the first of a surface, so that the smallest of all edges is a surface,
//! too. Which rectangles fit where is in `queue/node_contexts/presenting.rs`.

use super::row::*;
use super::world::{SIZE, World};
use super::{EDGES, cut};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::present::{Present, PresentKind, Rect, Surface};
use bellhop_protocol::packet::surface::StretchFilter;
use bellhop_protocol::pixel_format::PixelFormat;
use zerocopy::FromZeros;

/// The side of each surface, in pixels, and its pitch in bytes. It is a page.
const SIDE: u32 = 32;
const PITCH: u32 = SIDE * 4;
/// The pixel that is drawn.
const PIXEL: Rect = Rect::new(0, 0, 1, 1);

fn surface(allocation: Handle) -> Surface {
    let format = PixelFormat::X8R8G8B8;
    Surface { allocation, offset: 0, pitch: PITCH, width: SIDE, height: SIDE, format }
}

/// Makes a field name something else at each edge.
fn naming_all(field: Field, other: impl Fn(u64) -> u64) -> Field {
    let bytes = field.bytes;
    EDGES.iter().map(|edge| cut(*edge, bytes)).fold(field, |field, edge| {
        let named = other(edge);
        field.naming(edge, named)
    })
}

/// The fields of a surface that is read or written.
fn drawn(allocation: Handle) -> Vec<Field> {
    let most = SIZE - PAGE_SIZE;
    vec![
        handle("allocation", allocation),
        if_so("offset", 8, move |offset| offset % 4 == 0 && offset <= most),
        // A page as pitch makes the surface end behind its allocation, which is then said of its begin.
        if_so("pitch", 4, |_| false).naming(PAGE_SIZE, 0),
        // Rows that are longer than the pitch, as which they are refused.
        naming_all(if_so("width", 4, |width| width == 1), |width| {
            if (1..=1 << 14).contains(&width) { PITCH.into() } else { width }
        }),
        naming_all(if_so("height", 4, |height| height == 1), |height| {
            if (1..=1 << 14).contains(&height) { 0 } else { height }
        }),
        if_so("format", 4, |format| format == 1),
    ]
}

/// The fields of a rectangle of one pixel, which a reply names by its right and lower ends.
fn pixel() -> Vec<Field> {
    let end = 1 << 32 | 1;
    let one = |name| if_so(name, 4, |end| end == 1);
    vec![
        zero("left", 4).at(end),
        zero("top", 4).at(end),
        naming_all(one("right"), |right| right << 32 | 1),
        naming_all(one("bottom"), |bottom| 1 << 32 | bottom),
    ]
}

/// The rows of a present: with a dirty rectangle, and each kind.
pub(super) fn presents(world: &World) -> Vec<Row> {
    let process = world.client.process;
    let context = world.nodes[0].context;
    let (source, destination) = (world.fixed.0, world.paged);
    let blt = Present {
        context,
        kind: PresentKind::BLT,
        filter: StretchFilter::NEAREST,
        source: surface(source),
        destination: surface(destination),
        source_rect: PIXEL,
        destination_rect: PIXEL,
        color: 0,
        rects: 1,
    };
    let fields = |kind: Field, filter: Field| {
        let head = vec![handle("context", context), kind, filter];
        let parts = [head, drawn(source), drawn(destination), pixel(), pixel()];
        let tail = vec![zero("color", 4), count("rects", 1)];
        parts.into_iter().flatten().chain(tail).chain(pixel()).collect()
    };
    let copy = fields(if_so("kind", 4, |kind| kind == 1), zero("filter", 4));
    // A stretch of a pixel to a pixel is also a copy.
    let is_known = |kind: u64| [1, 3].contains(&kind);
    let stretch = fields(if_so("kind", 4, is_known), if_so("filter", 4, |filter| filter < 2));
    // A kind without a source has none: of another number, the first byte that is not zero is named.
    let none = |name, bytes| {
        naming_all(zero(name, bytes), |value| {
            let bytes = value.to_le_bytes();
            bytes.into_iter().find(|byte| *byte != 0).unwrap_or(0).into()
        })
    };
    let color = 0x1234;
    let mut fill = vec![
        handle("context", context),
        // Another kind has no colour.
        if_so("kind", 4, |_| false).at(color),
        zero("filter", 4),
        Field { is_number: false, ..none("source.allocation", 8) },
        none("source.offset", 8),
    ];
    fill.extend(["pitch", "width", "height", "format"].map(|name| none(name, 4)));
    fill.extend(drawn(destination));
    fill.extend(["left", "top", "right", "bottom"].map(|name| none(name, 4)));
    fill.extend(pixel());
    fill.extend([any("color", 4), count("rects", 1)]);
    fill.extend(pixel());
    let filled = Present {
        kind: PresentKind::COLOR_FILL,
        source: Surface::new_zeroed(),
        source_rect: Rect::default(),
        color: color as u32,
        ..blt
    };
    let stretched = Present { kind: PresentKind::STRETCH, ..blt };
    let row = |request: &Present, fields| row_with_list(process, request, &[PIXEL], fields);
    vec![row(&blt, copy), row(&stretched, stretch), row(&filled, fill)]
}
