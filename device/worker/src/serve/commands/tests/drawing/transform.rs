// SPDX-License-Identifier: MIT OR Apache-2.0

//! Transformed vertices that are stored, conditions, and what extensions add to pipelines and draws.

use super::*;
use bellhop_protocol::vulkan::{
    BeginConditional, BeginTransform, DrawByteCount, DrawIndexed, EndConditional, EndTransform,
    SetIndexBuffer, TransformBuffer,
};

/// `VkQueryType`s.
const STORED: u32 = 1_000_028_004;
const MADE: u32 = 1_000_382_000;
/// `VK_INDEX_TYPE_UINT8_EXT`.
const BYTES: u32 = 1_000_265_000;

impl Commands {
    fn store(self, buffers: &[TransformBuffer]) -> Self {
        self.with(BeginTransform::new_zeroed(), buffers.len() as u32, buffers.as_bytes())
    }

    fn store_no_more(self, counters: &[u64]) -> Self {
        self.with(EndTransform::new_zeroed(), counters.len() as u32, counters.as_bytes())
    }

    fn only_if(self, address: u64, inverted: u32) -> Self {
        self.with(BeginConditional { address, ..BeginConditional::new_zeroed() }, inverted, &[])
    }

    fn in_any_case(self) -> Self {
        self.with(EndConditional::new_zeroed(), 0, &[])
    }
}

#[test]
fn storing_and_conditions_are_where_they_may_be_and_end() {
    let fake = Fake::new();
    let buffer = TransformBuffer { address: fake.start, length: 64, counter: 0 };
    let new = || Commands::new().render(&[NONE, NONE]);
    let stored = || new().store(&[buffer]);
    let outside = || Commands::new().only_if(fake.start, 0);
    let inside = || new().only_if(fake.start, 1);
    let views = BeginRendering { extent: [8; 2], view_mask: 3, ..BeginRendering::new_zeroed() };
    let viewed = Commands::new().with(views, 0, [NONE, NONE].as_bytes());
    let other = BindGraphics { pipeline: fake.start + 8, ..BindGraphics::new_zeroed() };
    let wait = Wait { address: fake.start, ..Wait::new_zeroed() };
    stored().draw().store_no_more(&[]).end().read(&fake).unwrap();
    outside().render(&[NONE, NONE]).draw().end().in_any_case().read(&fake).unwrap();
    inside().draw().in_any_case().end().read(&fake).unwrap();
    for (what, commands) in [
        ("outside of a rendering", Commands::new().store(&[buffer])),
        ("of several views", viewed.store(&[buffer])),
        ("while others are", stored().store(&[buffer])),
        ("that has not begun", new().store_no_more(&[])),
        ("still stored", stored().end()),
        ("another pipeline", stored().with(other, 0, &[])),
        ("inside of a condition", outside().only_if(fake.start, 0)),
        ("has not begun there", new().in_any_case()),
        ("has not begun there", inside().in_any_case().in_any_case()),
        ("has not begun there", outside().render(&[NONE, NONE]).in_any_case()),
        ("not ended where it was begun", inside().end()),
        ("a condition that does not end", outside()),
        ("does not go there", outside().with(wait, 0, &[])),
        (
            "outside of a rendering",
            Commands::new().with(
                DrawByteCount { counter: fake.start, stride: 4, ..DrawByteCount::new_zeroed() },
                0,
                &[],
            ),
        ),
    ] {
        refused(commands.read(&fake), what);
    }
}

#[test]
fn what_is_stored_and_looked_at_is_in_the_window() {
    let fake = Fake::new();
    let (start, end) = (fake.start, fake.end());
    let new = || Commands::new().render(&[NONE, NONE]);
    let buffer = |address, length, counter| {
        new().store(&[TransformBuffer { address, length, counter }]).store_no_more(&[]).end()
    };
    let counter = |address| {
        let some = TransformBuffer { address: start, length: 4, counter: 0 };
        new().store(&[some]).store_no_more(&[address]).end()
    };
    let draw = |draw: DrawByteCount| new().with(draw, 0, &[]).end();
    let good = DrawByteCount { counter: start, stride: 4, ..DrawByteCount::new_zeroed() };
    let query = |stream, reserved, kind| {
        let begin = BeginQuery { stream, reserved, ..BeginQuery::new_zeroed() };
        Commands::new().with(begin, kind, &[])
    };
    buffer(0, u64::MAX, 0).read(&fake).unwrap();
    buffer(end - 8, 8, end - 4).read(&fake).unwrap();
    counter(0).read(&fake).unwrap();
    draw(good).read(&fake).unwrap();
    for (what, commands) in [
        ("no multiple of 4", buffer(start + 2, 8, 0)),
        ("no multiple of 4", buffer(start, 8, start + 1)),
        ("not in the window", buffer(end - 4, 8, 0)),
        ("not in the window", buffer(start, u64::MAX, 0)),
        ("not in the window", buffer(start, 8, end)),
        ("without room", buffer(start, 0, 0)),
        ("no multiple of 4", counter(start + 2)),
        ("not in the window", counter(end)),
        ("stored nowhere", draw(DrawByteCount { counter: 0, ..good })),
        ("stored nowhere", draw(DrawByteCount { stride: 0, ..good })),
        ("no multiple of 4", draw(DrawByteCount { offset: 2, ..good })),
        ("no multiple of 4", draw(DrawByteCount { counter: start + 2, ..good })),
        ("not in the window", draw(DrawByteCount { counter: end, ..good })),
        ("a condition of no word", Commands::new().only_if(0, 0)),
        ("a condition of no word", Commands::new().only_if(start, 2)),
        ("no multiple of 4", Commands::new().only_if(start + 1, 0)),
        ("not in the window", Commands::new().only_if(end, 0)),
        ("of a stream", query(4, 0, STORED)),
        ("of a stream", query(4, 0, MADE)),
        ("of a stream", query(1, 0, 0)),
        ("reserved", query(0, 1, STORED)),
    ] {
        refused(commands.read(&fake), what);
    }
}

#[test]
fn a_device_does_what_its_extensions_say_and_nothing_else() {
    let fake = Fake::new();
    let color = fake.color();
    let new = || Commands::new().vertices(&fake).bind(&fake).render(&[color, NONE, NONE]);
    pipelines::put_graphics(&fake, 1, |_| {});
    let buffer = TransformBuffer { address: fake.start, length: 64, counter: 0 };
    let stored = |buffers: &[TransformBuffer], counters: &[u64]| {
        new().store(buffers).draw().store_no_more(counters).end()
    };
    let again = |stride| {
        let draw = DrawByteCount { counter: fake.start, stride, ..DrawByteCount::new_zeroed() };
        new().with(draw, 0, &[]).end()
    };
    let indexed = || {
        let set = SetIndexBuffer { address: fake.start, length: 8, ..SetIndexBuffer::new_zeroed() };
        let draw = DrawIndexed { indices: 8, instances: 1, ..DrawIndexed::new_zeroed() };
        new().with(set, BYTES, &[]).with(draw, 0, &[]).end()
    };
    let condition = || Commands::new().only_if(fake.start, 0).in_any_case();
    let query = |kind, stream| {
        let begin = BeginQuery { stream, ..BeginQuery::new_zeroed() };
        let end = EndQuery { destination: fake.start, stream, ..EndQuery::new_zeroed() };
        Commands::new().with(begin, kind, &[]).with(end, kind, &[])
    };
    for (what, commands) in [
        ("does not", stored(&[buffer], &[])),
        ("does not take", again(32)),
        ("has none", indexed()),
        ("has none", condition()),
        ("does not count", query(STORED, 0)),
        ("does not count", query(MADE, 0)),
    ] {
        commands.plan(&fake, rich()).unwrap();
        refused(commands.plan(&fake, plain()), what);
    }
    query(STORED, 3).plan(&fake, rich()).unwrap();
    for (what, commands) in [
        ("more buffers", stored(&[buffer; 3], &[])),
        ("more buffers", stored(&[buffer], &[0; 3])),
        ("longer", stored(&[TransformBuffer { length: 65, ..buffer }], &[])),
        ("does not take", again(33)),
    ] {
        refused(commands.plan(&fake, rich()), what);
    }
}
