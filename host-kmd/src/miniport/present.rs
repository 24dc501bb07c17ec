// SPDX-License-Identifier: MIT OR Apache-2.0

//! `DxgkDdiPresent`: fills a DMA buffer with the packets that draw a surface on another.
//!
//! Every address of the buffer is in an allocation that the submission lists, for all bytes that the packet accesses:
//! the surfaces are checked against their allocations, and each packet is in its surface.

use crate::ddi::dma_buffer::{DmaBuffer, RenderAllocation};
use crate::ddi::present::{PresentArguments, PresentError};
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::node_context::PatchLocation;
use bellhop_protocol::control::present::{PresentKind, Rect, Surface};
use bellhop_protocol::packet::surface::{
    CopyRect, FillRect, MAX_PITCH, MAX_STRETCH, StretchFilter, StretchRect, extent,
};
use std::mem::offset_of;
use zerocopy::{Immutable, IntoBytes};

const fn invalid(field: &'static str, value: u64) -> PresentError {
    PresentError::InvalidParameter { field, value }
}

/// A surface that lies in its allocation.
#[derive(Debug, Clone, Copy)]
struct Checked {
    surface: Surface,
    /// Bytes of a pixel.
    bytes: u32,
    /// Its allocation's place in the allocation list.
    index: u32,
}

impl Checked {
    fn new(
        surface: Surface,
        allocation: Option<&RenderAllocation>,
        index: u32,
    ) -> Result<Self, PresentError> {
        let Surface { offset, pitch, width, height, format, .. } = surface;
        let bytes = format.bytes().ok_or(invalid("format", format.0.into()))?;
        let most = u32::from(MAX_STRETCH);
        for (field, value) in [("width", width), ("height", height)] {
            if !(1..=most).contains(&value) {
                return Err(invalid(field, value.into()));
            }
        }
        let row = width * bytes;
        if pitch < row || pitch > MAX_PITCH || !pitch.is_multiple_of(bytes) {
            return Err(invalid("pitch", pitch.into()));
        }
        let end = offset.checked_add(extent(pitch, row, height));
        let size = allocation.map_or(0, |allocation| allocation.size);
        if end.is_none_or(|end| end > size) || !offset.is_multiple_of(bytes.into()) {
            return Err(invalid("offset", offset));
        }
        Ok(Self { surface, bytes, index })
    }

    fn whole(&self) -> Rect {
        Rect::new(0, 0, self.surface.width, self.surface.height)
    }

    /// Offset in the allocation of a pixel.
    fn at(&self, x: u32, y: u32) -> u64 {
        let Surface { offset, pitch, .. } = self.surface;
        offset + u64::from(y) * u64::from(pitch) + u64::from(x) * u64::from(self.bytes)
    }

    /// Checks a rectangle of it.
    fn check(&self, field: &'static str, rect: &Rect) -> Result<(), PresentError> {
        if self.whole().contains(rect) {
            return Ok(());
        }
        Err(invalid(field, u64::from(rect.right) << 32 | u64::from(rect.bottom)))
    }
}

/// A DMA buffer that grows.
#[derive(Debug, Default)]
struct Building(Vec<u8>, Vec<PatchLocation>);

impl Building {
    /// Adds a packet, and for each of its addresses, in order, the field's offset, the surface and the offset in its
    /// allocation.
    fn add<P: IntoBytes + Immutable>(&mut self, packet: &P, addresses: &[(usize, &Checked, u64)]) {
        let start = self.0.len();
        self.1.extend(addresses.iter().map(|(field, surface, offset)| PatchLocation {
            allocation_index: surface.index,
            // At most 64 packets of 48 bytes.
            patch_offset: (start + field) as u32,
            allocation_offset: *offset,
        }));
        self.0.extend_from_slice(packet.as_bytes());
    }
}

/// `DxgkDdiPresent` for a node of this type.
///
/// # Errors
/// Fails if the surfaces do not lie in their allocations, the rectangles not in the surfaces, or the node does not
/// draw that.
pub(super) fn present(
    arguments: &PresentArguments<'_>,
    engine_type: EngineType,
) -> Result<DmaBuffer, PresentError> {
    let PresentArguments { request, dirty, allocations, .. } = *arguments;
    let reads = request.kind != PresentKind::COLOR_FILL;
    let destination = Checked::new(request.destination, allocations.last(), reads.into())?;
    let target = request.destination_rect;
    destination.check("destination_rect", &target)?;
    for rect in dirty {
        if !target.contains(rect) {
            return Err(invalid("rects", u64::from(rect.right) << 32 | u64::from(rect.bottom)));
        }
    }
    let whole = [target];
    let parts = if dirty.is_empty() { &whole } else { dirty };
    let source = match reads {
        true => Some(read_surface(arguments, &destination)?),
        false => None,
    };
    let mut building = Building::default();
    match (request.kind, source) {
        (PresentKind::COLOR_FILL, _) => {
            let pattern = match destination.bytes {
                2 => request.color & 0xFFFF | request.color << 16,
                _ => request.color,
            };
            for part in parts {
                let row = part.width() * destination.bytes;
                let pitch = destination.surface.pitch;
                let fill = FillRect::new((0, pitch), row, part.height(), pattern);
                let to = destination.at(part.left, part.top);
                building.add(&fill, &[(offset_of!(FillRect, destination), &destination, to)]);
            }
        }
        (PresentKind::BLT, Some(source)) => {
            let from = request.source_rect;
            for part in parts {
                let (right, down) = (part.left - target.left, part.top - target.top);
                let row = part.width() * destination.bytes;
                let pitches = (source.surface.pitch, destination.surface.pitch);
                let copy = CopyRect::new((0, pitches.0), (0, pitches.1), row, part.height());
                let read = source.at(from.left + right, from.top + down);
                let write = destination.at(part.left, part.top);
                building.add(
                    &copy,
                    &[
                        (offset_of!(CopyRect, source), &source, read),
                        (offset_of!(CopyRect, destination), &destination, write),
                    ],
                );
            }
        }
        (PresentKind::STRETCH, Some(source)) => {
            if engine_type != EngineType::THREE_D {
                return Err(PresentError::NotSupported);
            }
            let from = request.source_rect;
            // Sides are at most `MAX_STRETCH`.
            let size = |rect: Rect| [rect.width() as u16, rect.height() as u16];
            let stretch = StretchRect::new(
                (0, source.surface.pitch, size(from)),
                (0, destination.surface.pitch, size(target)),
                destination.surface.format,
                request.filter,
            );
            let read = source.at(from.left, from.top);
            let write = destination.at(target.left, target.top);
            for part in parts {
                let [left, right] = [part.left, part.right].map(|x| (x - target.left) as u16);
                let [top, bottom] = [part.top, part.bottom].map(|y| (y - target.top) as u16);
                building.add(
                    &stretch.clipped([left, top, right, bottom]),
                    &[
                        (offset_of!(StretchRect, source), &source, read),
                        (offset_of!(StretchRect, destination), &destination, write),
                    ],
                );
            }
        }
        (kind, _) => return Err(invalid("kind", kind.0.into())),
    }
    let Building(packets, patch_locations) = building;
    Ok(DmaBuffer { packets, patch_locations })
}

/// The surface that is read, with its rectangle checked.
fn read_surface(
    arguments: &PresentArguments<'_>,
    destination: &Checked,
) -> Result<Checked, PresentError> {
    let request = arguments.request;
    let source = Checked::new(request.source, arguments.allocations.first(), 0)?;
    source.check("source_rect", &request.source_rect)?;
    if source.surface.format != destination.surface.format {
        return Err(invalid("format", source.surface.format.0.into()));
    }
    let (from, to) = (request.source_rect, request.destination_rect);
    let is_blt = request.kind == PresentKind::BLT;
    if is_blt && (from.width(), from.height()) != (to.width(), to.height()) {
        return Err(invalid("source_rect", u64::from(from.right) << 32 | u64::from(from.bottom)));
    }
    let is_known = [StretchFilter::NEAREST, StretchFilter::BILINEAR].contains(&request.filter);
    if !is_known {
        return Err(invalid("filter", request.filter.0.into()));
    }
    Ok(source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellhop_protocol::control::Handle;
    use bellhop_protocol::control::present::Present;
    use bellhop_protocol::packet::Packet;
    use bellhop_protocol::pixel_format::PixelFormat;
    use proptest::prelude::*;

    const READ: RenderAllocation = RenderAllocation { size: 64 << 10, writable: false };
    const WRITTEN: RenderAllocation = RenderAllocation { size: 128 << 10, writable: true };
    const LIST: [RenderAllocation; 2] = [READ, WRITTEN];

    fn surface(offset: u64, pitch: u32, width: u32, height: u32, format: PixelFormat) -> Surface {
        Surface { allocation: Handle(1), offset, pitch, width, height, format }
    }

    fn none() -> Surface {
        surface(0, 0, 0, 0, PixelFormat(0))
    }

    /// Draws a rectangle of 8 by 4 pixels from (2, 1) to (10, 20).
    fn blt() -> Present {
        let format = PixelFormat::X8R8G8B8;
        Present {
            context: Handle(1),
            kind: PresentKind::BLT,
            filter: StretchFilter::NEAREST,
            source: surface(256, 256, 64, 64, format),
            destination: surface(512, 1024, 200, 100, format),
            source_rect: Rect::new(2, 1, 10, 5),
            destination_rect: Rect::new(10, 20, 18, 24),
            color: 0,
            rects: 0,
        }
    }

    fn presented(request: &Present, dirty: &[Rect]) -> Result<DmaBuffer, PresentError> {
        let fills = request.kind == PresentKind::COLOR_FILL;
        let allocations = if fills { &LIST[1..] } else { &LIST[..] };
        let arguments = PresentArguments { node: 0, request, dirty, allocations };
        present(&arguments, EngineType::THREE_D)
    }

    #[test]
    fn a_copy_is_one_packet_for_each_dirty_rectangle() {
        let whole = presented(&blt(), &[]).unwrap();
        let copy = CopyRect::new((0, 256), (0, 1024), 32, 4);
        assert_eq!(whole.packets, copy.as_bytes());
        let places: Vec<_> = whole
            .patch_locations
            .iter()
            .map(|at| (at.allocation_index, at.allocation_offset))
            .collect();
        // Row 1 and column 2 of a surface at 256; row 20 and column 10 of one at 512.
        assert_eq!(places, [(0, 256 + 256 + 8), (1, 512 + 20 * 1024 + 40)]);
        let dirty = [Rect::new(10, 20, 11, 21), Rect::new(17, 23, 18, 24)];
        let parts = presented(&blt(), &dirty).unwrap();
        let pixel = CopyRect::new((0, 256), (0, 1024), 4, 1);
        assert_eq!(parts.packets, [pixel.as_bytes(), pixel.as_bytes()].concat());
        let last = &parts.patch_locations[2..];
        assert_eq!(
            [last[0].allocation_offset, last[1].allocation_offset],
            [256 + 4 * 256 + 9 * 4, 512 + 23 * 1024 + 17 * 4]
        );
        assert_eq!([last[0].patch_offset, last[1].patch_offset], [40 + 8, 40 + 16]);
    }

    #[test]
    fn a_colour_of_16_bits_is_in_the_pattern_twice() {
        let fill = Present {
            kind: PresentKind::COLOR_FILL,
            source: none(),
            source_rect: Rect::default(),
            destination: surface(0, 512, 200, 100, PixelFormat::R5G6B5),
            destination_rect: Rect::new(1, 2, 4, 7),
            color: 0xF81F,
            ..blt()
        };
        let buffer = presented(&fill, &[]).unwrap();
        assert_eq!(buffer.packets, FillRect::new((0, 512), 6, 5, 0xF81F_F81F).as_bytes());
        assert_eq!(buffer.patch_locations[0].allocation_offset, 2 * 512 + 2);
        assert_eq!(buffer.patch_locations[0].allocation_index, 0);
    }

    #[test]
    fn a_stretch_is_clipped_to_dirty_rectangles_and_needs_a_compute_node() {
        let stretch = Present {
            kind: PresentKind::STRETCH,
            filter: StretchFilter::BILINEAR,
            destination_rect: Rect::new(10, 20, 110, 60),
            ..blt()
        };
        let buffer = presented(&stretch, &[Rect::new(11, 22, 13, 25)]).unwrap();
        let (from, to) = ((0, 256, [8, 4]), (0, 1024, [100, 40]));
        let packet = StretchRect::new(from, to, PixelFormat::X8R8G8B8, StretchFilter::BILINEAR);
        assert_eq!(buffer.packets, packet.clipped([1, 2, 3, 5]).as_bytes());
        let arguments =
            PresentArguments { node: 1, request: &stretch, dirty: &[], allocations: &LIST };
        for node in [EngineType::COPY, EngineType::COMPUTE] {
            assert_eq!(present(&arguments, node), Err(PresentError::NotSupported));
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        let refused = |request: Present, dirty: &[Rect], field, value| {
            assert_eq!(presented(&request, dirty), Err(invalid(field, value)));
        };
        let Present { source, destination, .. } = blt();
        let with = |source, destination| Present { source, destination, ..blt() };
        refused(Present { kind: PresentKind(9), ..blt() }, &[], "kind", 9);
        refused(Present { filter: StretchFilter(9), ..blt() }, &[], "filter", 9);
        refused(with(Surface { width: 0, ..source }, destination), &[], "width", 0);
        refused(with(Surface { height: 16385, ..source }, destination), &[], "height", 16385);
        refused(with(Surface { pitch: 252, ..source }, destination), &[], "pitch", 252);
        refused(with(Surface { pitch: 258, ..source }, destination), &[], "pitch", 258);
        refused(with(Surface { offset: 2, ..source }, destination), &[], "offset", 2);
        // The last byte of 64 rows of 256 bytes lies behind the allocation's.
        let last = READ.size - 64 * 256;
        assert!(presented(&with(Surface { offset: last, ..source }, destination), &[]).is_ok());
        refused(with(Surface { offset: last + 4, ..source }, destination), &[], "offset", last + 4);
        let far = u64::MAX - 3;
        refused(with(source, Surface { offset: far, ..destination }), &[], "offset", far);
        let other = Surface { format: PixelFormat::A8R8G8B8, ..source };
        refused(with(other, destination), &[], "format", 2);
        refused(with(Surface { format: PixelFormat(7), ..source }, destination), &[], "format", 7);
        let rect = |right, bottom| u64::from(right) << 32 | u64::from(bottom);
        let outside = Present { destination_rect: Rect::new(193, 20, 201, 24), ..blt() };
        refused(outside, &[], "destination_rect", rect(201_u32, 24_u32));
        let empty = Present { source_rect: Rect::new(2, 1, 2, 5), ..blt() };
        refused(empty, &[], "source_rect", rect(2_u32, 5_u32));
        let larger = Present { source_rect: Rect::new(2, 1, 11, 5), ..blt() };
        refused(larger, &[], "source_rect", rect(11_u32, 5_u32));
        refused(blt(), &[Rect::new(10, 20, 19, 24)], "rects", rect(19_u32, 24_u32));
    }

    fn number() -> impl Strategy<Value = u32> {
        prop_oneof![6 => 0..80u32, 2 => 200..300u32, 1 => any::<u32>()]
    }

    fn any_surface() -> impl Strategy<Value = Surface> {
        (prop_oneof![4 => 0..4096u64, 1 => any::<u64>()], number(), number(), number(), 0..6u32)
            .prop_map(|(offset, pitch, width, height, format)| {
                surface(offset & !3, pitch << 2, width, height, PixelFormat(format))
            })
    }

    fn any_rect() -> impl Strategy<Value = Rect> {
        [number(), number(), number(), number()].prop_map(|[left, top, width, height]| {
            Rect::new(left, top, left.saturating_add(width), top.saturating_add(height))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        /// The packets of a DMA buffer reach only the surfaces' allocations.
        #[test]
        fn whatever_is_drawn_lies_in_the_allocations(
            kind in 0..5u32, source in any_surface(), destination in any_surface(),
            source_rect in any_rect(), destination_rect in any_rect(), same in any::<bool>(),
            dirty in proptest::collection::vec(any_rect(), 0..3),
        ) {
            let mut request = Present { kind: PresentKind(kind), source, destination,
                source_rect, destination_rect, ..blt() };
            if same {
                request.source.format = destination.format;
                request.source_rect = Rect::new(0, 0, destination_rect.width(), destination_rect.height());
            }
            if let Ok(buffer) = presented(&request, &dirty) {
                let mut locations = buffer.patch_locations.iter();
                let list = if kind == PresentKind::COLOR_FILL.0 { &LIST[1..] } else { &LIST[..] };
                let mut inside = |length: u64, write: bool| {
                    let at = locations.next().unwrap();
                    let allocation = &list[at.allocation_index as usize];
                    assert!(at.allocation_offset + length <= allocation.size);
                    assert!(allocation.writable || !write);
                };
                let mut rest = &buffer.packets[..];
                while !rest.is_empty() {
                    let (packet, size) = Packet::decode(rest).unwrap();
                    match packet {
                        Packet::CopyRect(copy) => {
                            let length = |pitch: u32| {
                                u64::from(copy.rows - 1) * u64::from(pitch)
                                    + u64::from(copy.header.argument)
                            };
                            inside(length(copy.source_pitch), false);
                            inside(length(copy.destination_pitch), true);
                        }
                        Packet::FillRect(fill) => {
                            let before = u64::from(fill.rows - 1) * u64::from(fill.pitch);
                            inside(before + u64::from(fill.row), true);
                        }
                        Packet::StretchRect(stretch) => {
                            let bytes = u64::from(stretch.format().bytes().unwrap());
                            let length = |pitch: u32, [width, height]: [u16; 2]| {
                                u64::from(height - 1) * u64::from(pitch) + u64::from(width) * bytes
                            };
                            inside(length(stretch.source_pitch, stretch.source_size), false);
                            inside(
                                length(stretch.destination_pitch, stretch.destination_size),
                                true,
                            );
                        }
                        other => panic!("{other:?}"),
                    }
                    rest = &rest[size..];
                }
                assert!(locations.next().is_none());
            }
        }
    }
}
