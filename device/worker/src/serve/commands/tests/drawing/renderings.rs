// SPDX-License-Identifier: MIT OR Apache-2.0

//! Renderings, their attachments, and draws in them.

use super::*;

fn depth(fake: &Fake) -> Attachment {
    let image = Image { usage: DEPTHS, format: D32_S8, levels: 1, ..image(fake) };
    fake.attach(1, image, DEPTH | STENCIL)
}

#[test]
fn attachments_that_do_not_fit_their_rendering_are_refused() {
    let fake = Fake::new();
    let color = fake.color();
    let begin = BeginRendering { extent: [8; 2], layers: 1, ..BeginRendering::new_zeroed() };
    let with = |begin: BeginRendering, attachments: &[Attachment]| {
        let count = attachments.len() as u32 - 2;
        Commands::new().with(begin, count, attachments.as_bytes()).end().plan(&fake, rich())
    };
    let all = [color, depth(&fake), depth(&fake)];
    with(begin, &all).unwrap();
    with(BeginRendering { layers: 0, view_mask: 0b1010, ..begin }, &all).unwrap();
    with(BeginRendering { offset: [8, 0], layers: 4, ..begin }, &all).unwrap();
    for (what, begin) in [
        ("layers and views", BeginRendering { layers: 0, ..begin }),
        ("layers and views", BeginRendering { view_mask: 1, ..begin }),
        ("impossible area", BeginRendering { extent: [0, 8], ..begin }),
        ("impossible area", BeginRendering { offset: [u32::MAX, 0], ..begin }),
        ("impossible area", BeginRendering { extent: [8, 1 << 31], ..begin }),
        ("larger", BeginRendering { extent: [65, 8], ..begin }),
        ("larger", BeginRendering { layers: 5, ..begin }),
        ("more views", BeginRendering { layers: 0, view_mask: 16, ..begin }),
        ("smaller", BeginRendering { offset: [9, 0], ..begin }),
        ("smaller", BeginRendering { offset: [0, 1], ..begin }),
    ] {
        refused(with(begin, &all), what);
    }
    refused(with(begin, &[NONE; 7]), "more attachments");
    let attached = |color: Attachment| with(begin, &[color, NONE, NONE]);
    for (what, color) in [
        ("unknown way", Attachment { load: 3, ..color }),
        ("unknown way", Attachment { store: 2, ..color }),
        ("reserved", Attachment { reserved: 1, ..color }),
        ("nowhere", Attachment { resolve_mode: 2, ..color }),
        ("in no way", Attachment { resolve_view: color.view, ..color }),
        ("ended", Attachment { serial: 8, ..color }),
        ("ended", Attachment { serial: 0, ..color }),
        ("not aligned", Attachment { view: color.view + 4, ..color }),
        ("not in the window", Attachment { view: fake.end(), ..color }),
        (
            "several samples",
            Attachment { resolve_view: color.view, resolve_serial: 7, resolve_mode: 2, ..color },
        ),
        ("not for such", depth(&fake)),
    ] {
        refused(attached(color), what);
    }
    refused(with(begin, &[NONE, color, NONE]), "not for such");
    let other = fake.attach(2, Image { usage: DEPTHS, format: D32_S8, ..image(&fake) }, DEPTH);
    refused(with(begin, &[depth(&fake), other]), "one view");
    let cleared = Attachment { load: 1, clear: [2.0_f32.to_bits(), 0, 0, 0], ..other };
    refused(with(begin, &[cleared, NONE]), "0 to 1");
    let bytes = Commands::new().render(&[NONE; 2]).end().0;
    refused(fake.plan_for(&bounds(), &bytes).map(drop), "does not draw");
}

#[test]
fn attachments_of_several_samples_are_alike_and_are_resolved_as_their_numbers_are() {
    let fake = Fake::new();
    let with = |attachments: &[Attachment], device| {
        Commands::new().render(attachments).end().plan(&fake, device)
    };
    let base = Image { usage: COLORS, levels: 1, ..image(&fake) };
    let (several, integers) = (Image { samples: 4, ..base }, 98);
    let resolved = |mode, format, other: Image| {
        let to = fake.attach(3, other, COLOR);
        let of = fake.attach(2, Image { format, ..several }, COLOR);
        Attachment { resolve_view: to.view, resolve_serial: 7, resolve_mode: mode, ..of }
    };
    with(&[resolved(2, RGBA8, base), NONE, NONE], plain()).unwrap();
    with(&[resolved(1, integers, Image { format: integers, ..base }), NONE, NONE], plain())
        .unwrap();
    for (what, mode, format, other) in [
        ("no way", 1, RGBA8, base),
        ("no way", 3, RGBA8, base),
        ("no way", 2, integers, Image { format: integers, ..base }),
        ("its format", 2, RGBA8, Image { format: 43, ..base }),
        ("several samples", 2, RGBA8, several),
    ] {
        refused(with(&[resolved(mode, format, other), NONE, NONE], rich()), what);
    }
    let (one, other) = (fake.color(), fake.attach(2, several, COLOR));
    refused(with(&[one, other, NONE, NONE], rich()), "different numbers of samples");
}

#[test]
fn draws_have_what_their_pipeline_and_rendering_take() {
    let fake = Fake::new();
    let color = fake.color();
    pipelines::put_graphics(&fake, 1, |_| {});
    let new = || Commands::new().vertices(&fake).bind(&fake);
    let drawn = |commands: Commands| commands.draw().end().plan(&fake, rich());
    drawn(new().render(&[color, NONE, NONE])).unwrap();
    refused(drawn(Commands::new().render(&[color, NONE, NONE])), "without a pipeline");
    let unbound = Commands::new().bind(&fake).render(&[color, NONE, NONE]);
    refused(drawn(unbound), "without a vertex buffer");
    refused(drawn(new().render(&[NONE, NONE])), "other attachments");
    refused(drawn(new().render(&[NONE, NONE, NONE])), "other attachments");
    refused(drawn(new().render(&[color, depth(&fake), NONE])), "other attachments");
    let views = BeginRendering { extent: [8; 2], view_mask: 1, ..BeginRendering::new_zeroed() };
    refused(drawn(new().with(views, 1, [color, NONE, NONE].as_bytes())), "other views");
    pipelines::put_graphics(&fake, 2, |parts| parts.state.samples = 4);
    refused(drawn(new().render(&[color, NONE, NONE])), "number of samples");
    // Dynamic state that does not fit the pipeline.
    let set = |commands: Commands, state, words: &[u32]| {
        let set = SetState { words: words.len() as u32, ..SetState::new_zeroed() };
        commands.with(set, state, words.as_bytes())
    };
    pipelines::put_graphics(&fake, 3, |parts| {
        parts.states = vec![1_000_267_002, 1_000_267_004, 1_000_267_005];
        parts.scissors.clear();
    });
    let dynamic = || new().render(&[color, NONE, NONE]);
    drawn(dynamic()).unwrap();
    drawn(set(dynamic(), 1_000_267_002, &[5])).unwrap();
    refused(drawn(set(dynamic(), 1_000_267_002, &[1])), "another class");
    refused(drawn(set(dynamic(), 1_000_267_004, &[1; 8])), "viewports");
    let far = VertexBuffer { address: fake.start, length: 64, stride: 257 };
    let set_far = SetVertexBuffers { count: 1, ..SetVertexBuffers::new_zeroed() };
    refused(drawn(dynamic().with(set_far, 0, far.as_bytes())), "farther");
}

#[test]
fn draws_of_indices_and_from_memory_have_them() {
    let fake = Fake::new();
    let color = fake.color();
    pipelines::put_graphics(&fake, 1, |_| {});
    let new = || Commands::new().vertices(&fake).bind(&fake).render(&[color, NONE, NONE]);
    let indices = |commands: Commands| {
        let set = SetIndexBuffer { address: fake.start, length: 8, ..SetIndexBuffer::new_zeroed() };
        commands.with(set, 0, &[])
    };
    let indexed = |indices, first_index| DrawIndexed {
        indices,
        first_index,
        instances: 1,
        ..DrawIndexed::new_zeroed()
    };
    let planned = |commands: Commands, device| commands.end().plan(&fake, device);
    planned(indices(new()).with(indexed(3, 1), 0, &[]), plain()).unwrap();
    planned(indices(new()).with(indexed(0, u32::MAX), 0, &[]), plain()).unwrap();
    refused(planned(indices(new()).with(indexed(4, 1), 0, &[]), plain()), "more indices");
    refused(planned(indices(new()).with(indexed(u32::MAX, 9), 0, &[]), plain()), "more indices");
    refused(planned(new().with(indexed(1, 0), 0, &[]), plain()), "an index buffer");
    let draw =
        DrawIndirect { address: fake.start, most: 1, stride: 0, ..DrawIndirect::new_zeroed() };
    let several = DrawIndirect { most: 2, stride: 20, ..draw };
    let counted = DrawIndirect { count: fake.start, ..draw };
    planned(new().with(draw, 0, &[]), plain()).unwrap();
    planned(new().with(several, 0, &[]), rich()).unwrap();
    planned(new().with(counted, 0, &[]), rich()).unwrap();
    refused(planned(new().with(draw, 1, &[]), plain()), "an index buffer");
    refused(planned(new().with(several, 0, &[]), plain()), "more indirect draws");
    let many = DrawIndirect { most: 9, ..several };
    refused(planned(new().with(many, 0, &[]), rich()), "more indirect draws");
    refused(planned(new().with(counted, 0, &[]), plain()), "does not look there");
    let statistics = BeginQuery { statistics: 1, ..BeginQuery::new_zeroed() };
    let precise = BeginQuery { flags: 1, ..BeginQuery::new_zeroed() };
    for (begin, kind) in [(statistics, 1), (precise, 0)] {
        let end = EndQuery { destination: fake.start, ..EndQuery::new_zeroed() };
        let query = || Commands::new().with(begin, kind, &[]).with(end, kind, &[]);
        query().plan(&fake, rich()).unwrap();
        refused(query().plan(&fake, plain()), "does not count");
    }
}

#[test]
fn a_part_to_clear_is_in_the_rendering() {
    let fake = Fake::new();
    let color = fake.color();
    let begin = BeginRendering {
        offset: [2, 0],
        extent: [8; 2],
        layers: 2,
        ..BeginRendering::new_zeroed()
    };
    let clear = |clear: ClearAttachment, argument| {
        let attachments = [color, NONE, NONE];
        let begun = Commands::new().with(begin, 1, attachments.as_bytes());
        begun.with(clear, argument, &[]).end().plan(&fake, plain())
    };
    let good = ClearAttachment {
        aspect: COLOR,
        offset: [2, 0],
        extent: [8, 8],
        layer: 1,
        layers: 1,
        ..ClearAttachment::new_zeroed()
    };
    clear(good, 0).unwrap();
    for (what, bad) in [
        ("area", ClearAttachment { offset: [1, 0], ..good }),
        ("area", ClearAttachment { offset: [3, 0], ..good }),
        ("area", ClearAttachment { extent: [8, 9], ..good }),
        ("area", ClearAttachment { extent: [0, 8], ..good }),
        ("area", ClearAttachment { offset: [2, u32::MAX], ..good }),
        ("layers", ClearAttachment { layers: 2, ..good }),
        ("layers", ClearAttachment { layers: 0, ..good }),
        ("layers", ClearAttachment { layer: u32::MAX, ..good }),
    ] {
        refused(clear(bad, 0), what);
    }
    refused(clear(good, 1), "does not have");
}
