// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packets that draw rectangles.

use crate::support::data::noise;
use crate::support::rig::*;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::Opcode;
use bellhop_protocol::packet::surface::{
    CopyRect, FillRect, MAX_PITCH, MAX_ROWS, MAX_STRETCH, StretchFilter, StretchRect,
};
use bellhop_protocol::pixel_format::PixelFormat;

#[test]
fn a_rectangle_is_copied_between_surfaces_of_different_pitches_and_nothing_beside_it() {
    let mut guest = Guest::start();
    let mut queue = guest.queue(COPY);
    let size = 1 << 20;
    for (from, to, row, rows) in [
        ((0, 64), (0, 64), 64, 1000),
        ((3, 100), (9, 257), 77, 50),
        ((4090, 4096), (5, 5000), 4096, 40),
        ((0, 1), (1, 2), 1, MAX_ROWS),
        ((0, 100_000), (0, 100_000), 99_999, 10),
    ] {
        let data = noise(size);
        guest.write(SYSTEM, &data);
        guest.write(LOCAL, &vec![0xAA; size]);
        let copy = CopyRect::new((SYSTEM + from.0, from.1), (LOCAL + to.0, to.1), row, rows);
        guest.run(&mut queue, Packets::new().then(copy));
        let mut expected = vec![0xAA; size];
        for y in 0..rows as usize {
            for x in 0..row as usize {
                expected[to.0 as usize + y * to.1 as usize + x] =
                    data[from.0 as usize + y * from.1 as usize + x];
            }
        }
        assert!(guest.read(LOCAL, size) == expected, "{row} bytes in {rows} rows");
    }
}

#[test]
fn a_fill_begins_its_pattern_anew_in_each_row() {
    let mut guest = Guest::start();
    let mut queue = guest.queue(COPY);
    let size = 1 << 19;
    for (at, pitch, row, rows) in
        [(0, 64, 64, 10), (2, 102, 38, 77), (4094, 20_000, 18_002, 20), (0, 2, 2, MAX_ROWS)]
    {
        guest.write(LOCAL, &vec![0xAA; size]);
        let fill = FillRect::new((LOCAL + at, pitch), row, rows, 0x0403_0201);
        guest.run(&mut queue, Packets::new().then(fill));
        let mut expected = vec![0xAA; size];
        for y in 0..rows as usize {
            for x in 0..row as usize {
                expected[at as usize + y * pitch as usize + x] = (x % 4) as u8 + 1;
            }
        }
        assert!(guest.read(LOCAL, size) == expected, "{row} bytes in {rows} rows");
    }
}

#[test]
fn a_rectangle_without_rows_or_columns_changes_nothing() {
    let mut guest = Guest::start();
    let mut queue = guest.queue(COMPUTE);
    guest.write(LOCAL, &[0xAA; 4096]);
    let (somewhere, nowhere) = ((LOCAL, 64), (u64::MAX, 64));
    let stretch = StretchRect::new(
        (LOCAL, 64, [16, 16]),
        (LOCAL + 2048, 64, [16, 16]),
        PixelFormat::X8R8G8B8,
        StretchFilter::NEAREST,
    );
    let packets = Packets::new()
        .then(CopyRect::new(nowhere, somewhere, 0, 64))
        .then(CopyRect::new(nowhere, somewhere, 64, 0))
        .then(FillRect::new((LOCAL, 64), 0, 64, 1))
        .then(FillRect::new((LOCAL, 64), 64, 0, 1))
        .then(stretch.clipped([3, 0, 3, 16]))
        .then(stretch.clipped([0, 16, 16, 16]));
    guest.run(&mut queue, packets);
    assert_eq!(guest.read(LOCAL, 4096), vec![0xAA; 4096]);
}

/// The channels of a pixel, as the formats are defined: blue, green, red, and what is above.
fn split(pixel: &[u8], format: PixelFormat) -> [f64; 4] {
    let mut word = [0; 4];
    word[..pixel.len()].copy_from_slice(pixel);
    let word = u32::from_le_bytes(word);
    let widths: [u32; 4] = match format {
        PixelFormat::R5G6B5 => [5, 6, 5, 0],
        PixelFormat::X2R10G10B10 => [10, 10, 10, 2],
        _ => [8, 8, 8, 8],
    };
    let mut rest = u64::from(word);
    widths.map(|width| {
        let channel = rest % (1 << width);
        rest >>= width;
        channel as f64
    })
}

/// A surface in the test's own memory.
struct Picture {
    bytes: Vec<u8>,
    pitch: usize,
    size: [usize; 2],
    format: PixelFormat,
}

impl Picture {
    /// The channels of the pixel at a place; beyond the edge, the edge's.
    fn at(&self, x: i64, y: i64) -> [f64; 4] {
        let [x, y] = [(x, self.size[0]), (y, self.size[1])]
            .map(|(at, side)| at.clamp(0, side as i64 - 1) as usize);
        let bytes = self.format.bytes().unwrap() as usize;
        let start = y * self.pitch + x * bytes;
        split(&self.bytes[start..start + bytes], self.format)
    }

    /// The channels of a pixel of this picture scaled to another size, by the definition of the filter.
    fn scaled(&self, to: [usize; 2], filter: StretchFilter, pixel: [usize; 2]) -> [f64; 4] {
        let middle = [0, 1]
            .map(|side| (pixel[side] as f64 + 0.5) * self.size[side] as f64 / to[side] as f64);
        if filter == StretchFilter::NEAREST {
            return self.at(middle[0].floor() as i64, middle[1].floor() as i64);
        }
        let [x, y] = middle.map(|middle| (middle - 0.5).max(0.0));
        let (left, top) = (x.floor() as i64, y.floor() as i64);
        let (right, down) = (x.fract(), y.fract());
        let corners = [(0, 0), (1, 0), (0, 1), (1, 1)].map(|(x, y)| self.at(left + x, top + y));
        [0, 1, 2, 3].map(|channel| {
            let [a, b, c, d] = corners.map(|corner| corner[channel]);
            (a * (1.0 - right) + b * right) * (1.0 - down) + (c * (1.0 - right) + d * right) * down
        })
    }
}

#[test]
fn a_stretched_rectangle_is_what_its_filter_says_in_every_format() {
    let mut guest = Guest::start();
    let mut queue = guest.queue(COMPUTE);
    for format in PixelFormat::ALL {
        let bytes = format.bytes().unwrap();
        for (from, to) in [
            ([20, 10], [20, 10]),
            ([20, 10], [61, 33]),
            ([61, 33], [20, 10]),
            ([1, 1], [9, 7]),
            ([5000, 3], [7, 2]),
            ([2, 2], [3000, 2]),
        ] {
            for filter in StretchFilter::ALL {
                let pitches = [from, to].map(|[width, _]: [u16; 2]| u32::from(width) * bytes + 12);
                let length = pitches[0] as usize * usize::from(from[1]);
                let data = noise(length);
                guest.write(SYSTEM, &data);
                let stretch = StretchRect::new(
                    (SYSTEM, pitches[0], from),
                    (LOCAL, pitches[1], to),
                    *format,
                    *filter,
                );
                guest.run(&mut queue, Packets::new().then(stretch));
                let picture = Picture {
                    bytes: data,
                    pitch: pitches[0] as usize,
                    size: from.map(usize::from),
                    format: *format,
                };
                let drawn = guest.read(LOCAL, pitches[1] as usize * usize::from(to[1]));
                for y in 0..usize::from(to[1]) {
                    for x in 0..usize::from(to[0]) {
                        let start = y * pitches[1] as usize + x * bytes as usize;
                        let got = split(&drawn[start..start + bytes as usize], *format);
                        let wanted = picture.scaled(to.map(usize::from), *filter, [x, y]);
                        for (got, wanted) in got.iter().zip(wanted) {
                            // Steps of 1/256 of a place, and of 1 in the result. A channel of 10 bits has 1,023 steps.
                            let most = match *filter {
                                StretchFilter::NEAREST => 0.0,
                                _ if *format == PixelFormat::X2R10G10B10 => 9.0,
                                _ => 3.0,
                            };
                            let off = (got - wanted).abs();
                            assert!(
                                off <= most,
                                "{format} {from:?} {to:?} {filter} {x} {y}: {off}"
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_rectangle_drawn_in_parts_is_the_whole_one() {
    let mut guest = Guest::start();
    let mut queue = guest.queue(COMPUTE);
    let (from, to) = ([33, 21], [100, 80]);
    guest.write(SYSTEM, &noise(33 * 21 * 4));
    let stretch = |address| {
        StretchRect::new(
            (SYSTEM, 33 * 4, from),
            (address, 400, to),
            PixelFormat::A8R8G8B8,
            StretchFilter::BILINEAR,
        )
    };
    guest.write(LOCAL, &vec![0; 64_000]);
    let parts = [[0, 0, 37, 80], [37, 0, 100, 11], [37, 11, 100, 80]];
    let packets = Packets::new().then(stretch(LOCAL));
    let packets = parts
        .iter()
        .fold(packets, |packets, part| packets.then(stretch(LOCAL + 32_000).clipped(*part)));
    guest.run(&mut queue, packets);
    assert!(guest.read(LOCAL, 32_000) == guest.read(LOCAL + 32_000, 32_000));
}

#[test]
fn what_no_surface_has_is_a_fault_that_names_it() {
    let bad = |packet: Packets, value: u64| {
        let mut guest = Guest::start();
        let mut queue = guest.queue(COMPUTE);
        let fault = guest.run_into_fault(&mut queue, &packet);
        assert_eq!((fault.reason, fault.address), (FaultReason::BAD_RECTANGLE, value));
    };
    let copy = |pitch, row, rows| {
        Packets::new().then(CopyRect::new((SYSTEM, pitch), (LOCAL, 4096), row, rows))
    };
    bad(copy(64, 65, 1), 65);
    bad(copy(MAX_PITCH + 1, 64, 1), u64::from(MAX_PITCH) + 1);
    bad(copy(64, 64, MAX_ROWS + 1), u64::from(MAX_ROWS) + 1);
    bad(Packets::new().then(FillRect::new((LOCAL, 64), 66, 1, 0)), 66);
    let (source, target) = ((SYSTEM, 64, [16, 16]), (LOCAL, 64, [16, 16]));
    let (format, filter) = (PixelFormat::X8R8G8B8, StretchFilter::NEAREST);
    let stretch = StretchRect::new(source, target, format, filter);
    bad(Packets::new().then(stretch.clipped([0, 0, 17, 16])), 17);
    bad(Packets::new().then(stretch.clipped([0, 9, 16, 8])), 9);
    for (size, value) in [([0, 16], 0), ([16, MAX_STRETCH + 1], u64::from(MAX_STRETCH) + 1)] {
        bad(
            Packets::new().then(StretchRect::new((SYSTEM, 64, size), target, format, filter)),
            value,
        );
    }
    let unknown = StretchRect::new(source, target, format, StretchFilter(7));
    bad(Packets::new().then(unknown), 7);
    let unknown = StretchRect::new(source, target, PixelFormat(99), filter);
    bad(Packets::new().then(unknown), 99);
}

#[test]
fn a_rectangle_that_ends_in_an_unmapped_page_is_drawn_up_to_there() {
    let mut guest = Guest::start();
    let mut queue = guest.queue(COPY);
    let (start, unmapped) = (0x5000_0000, 0x5000_2000);
    guest.map(start, bellhop_host_kmd::hardware::Segment::Local, 0, 0x2000, true);
    guest.write(LOCAL, &[0; 0x2000]);
    let fill = Packets::new().then(FillRect::new((start, 4096), 4096, 3, 0x0101_0101));
    let fault = guest.run_into_fault(&mut queue, &fill);
    assert_eq!((fault.reason, fault.address), (FaultReason::WRITE_PAGE_FAULT, unmapped));
    assert_eq!(guest.read(LOCAL, 0x2000), vec![1; 0x2000]);
}

#[test]
fn copy_nodes_do_not_stretch() {
    let mut guest = Guest::start();
    let mut queue = guest.queue(COPY);
    let stretch = StretchRect::new(
        (SYSTEM, 64, [16, 16]),
        (LOCAL, 64, [16, 16]),
        PixelFormat::X8R8G8B8,
        StretchFilter::NEAREST,
    );
    let fault = guest.run_into_fault(&mut queue, &Packets::new().then(stretch));
    let opcode = u64::from(Opcode::STRETCH_RECT.0);
    assert_eq!((fault.reason, fault.address), (FaultReason::NOT_SUPPORTED_BY_NODE, opcode));
}
