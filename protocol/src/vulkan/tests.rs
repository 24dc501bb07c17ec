// SPDX-License-Identifier: MIT OR Apache-2.0

//! Streams and pipelines of all kinds.

use super::*;
use alloc::vec;
use alloc::vec::Vec;
use proptest::collection::vec as many;
use proptest::prelude::*;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

fn put<C: Encoded>(bytes: &mut Vec<u8>, command: C, argument: u32, data: &[u8]) {
    let padded = data.len().next_multiple_of(8);
    bytes.extend_from_slice(command.with_header(argument, padded).as_bytes());
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
}

fn decoded(bytes: &[u8]) -> Vec<(usize, Command<'_>)> {
    commands(bytes).map(Result::unwrap).collect()
}

/// A header with a code that is near those that exist, and a short length.
fn header() -> impl Strategy<Value = CommandHeader> {
    (0u16..40, 0u16..30, prop_oneof![0u32..70, any::<u32>()]).prop_map(|(code, units, argument)| {
        CommandHeader { code: CommandCode(code), units, argument }
    })
}

proptest! {
    #[test]
    fn whatever_bytes_are_decoding_them_ends_and_skips_none(
        headers in many((header(), many(any::<u8>(), 0..240)), 0..8),
    ) {
        let bytes: Vec<_> = headers
            .iter()
            .flat_map(|(header, data)| [header.as_bytes(), data].concat())
            .collect();
        let mut end = 0;
        for command in commands(&bytes) {
            match command {
                Ok((offset, _)) => {
                    prop_assert_eq!(offset, end);
                    let (header, _) = CommandHeader::read_from_prefix(&bytes[offset..]).unwrap();
                    end += header.size();
                }
                Err(error) => {
                    prop_assert_eq!(error.offset(), end);
                    end = bytes.len();
                }
            }
        }
        prop_assert_eq!(end, bytes.len());
    }

    #[test]
    fn a_dispatch_comes_back_as_what_was_sent(
        addresses in many(any::<u64>(), 0..=MAX_SETS as usize),
        offsets in many(any::<u32>(), 0..=MAX_DYNAMIC_OFFSETS as usize),
        constants in many(any::<u32>(), 0..=MAX_PUSH_CONSTANTS as usize / 4),
        groups: [u32; 3],
    ) {
        let mut data = addresses.as_bytes().to_vec();
        data.extend_from_slice(offsets.as_bytes());
        data.resize(data.len().next_multiple_of(8), 0);
        data.extend_from_slice(constants.as_bytes());
        let dispatch = Dispatch {
            pipeline: 64,
            groups,
            dynamic_offsets: offsets.len() as u32,
            push_constants: constants.len() as u32 * 4,
            ..Dispatch::new_zeroed()
        };
        let dispatch = dispatch.with_header(addresses.len() as u32, 0);
        prop_assert_eq!(data.len().next_multiple_of(8), dispatch.resources().size());
        let mut bytes = Vec::new();
        put(&mut bytes, dispatch, addresses.len() as u32, &data);
        put(&mut bytes, Barrier::new_zeroed(), 0, &[]);
        let all = decoded(&bytes);
        let [(0, Command::Dispatch(told, data)), (_, Command::Barrier(..))] = all[..] else {
            panic!("{all:?}")
        };
        prop_assert_eq!((told.groups, told.pipeline), (groups, 64));
        let resources = told.resources();
        prop_assert_eq!(resources.set_addresses(data).as_bytes(), addresses.as_bytes());
        prop_assert_eq!(resources.offsets(data).as_bytes(), offsets.as_bytes());
        prop_assert_eq!(resources.constants(data), constants.as_bytes());
    }

    #[test]
    fn an_update_comes_back_with_its_bytes(words in many(any::<u32>(), 0..64)) {
        let (mut bytes, data) = (Vec::new(), words.as_bytes());
        let update = Update { destination: 8, ..Update::new_zeroed() };
        put(&mut bytes, update, data.len() as u32, data);
        let all = decoded(&bytes);
        prop_assert!(matches!(all[..], [(0, Command::Update(_, told))] if told == data));
    }

    #[test]
    fn a_pipeline_comes_back_and_whatever_becomes_of_it_reading_it_ends(
        sets in many(many((0u32..4, 0u32..10), 0..4), 0..=MAX_SETS as usize),
        constants in many(any::<u64>(), 0..4),
        words in many(any::<u32>(), 5..40),
        changed in many((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut: prop::sample::Index,
    ) {
        let bindings = (0..).zip(&sets).flat_map(|(set, bindings)| {
            (0..).zip(bindings).map(move |(binding, (count, kind))| Binding {
                set, binding, kind: DescriptorKind(*kind), count: *count, first: 4 * binding, reserved: 0,
            })
        });
        let bindings: Vec<_> = bindings.collect();
        let entries = (0..constants.len() as u32)
            .map(|id| SpecialisationEntry { id, offset: id * 8, size: 8, reserved: 0 });
        let entries: Vec<_> = entries.collect();
        let mut spirv = words.as_bytes().to_vec();
        spirv.resize(spirv.len().next_multiple_of(8), 0);
        let parts = [
            bindings.as_bytes(), entries.as_bytes(), constants.as_bytes(), b"main\0\0\0\0", &spirv,
        ].concat();
        let head = PipelineHead {
            serial: 1,
            length: (size_of::<PipelineHead>() + parts.len()) as u32,
            sets: sets.len() as u32,
            bindings: bindings.len() as u32,
            constants: entries.len() as u32,
            values: constants.len() as u32 * 8,
            entry_point: 4,
            spirv: words.len() as u32 * 4,
            ..PipelineHead::new_zeroed()
        };
        let mut aligned = vec![0u64; head.length as usize / 8];
        aligned.as_mut_bytes().copy_from_slice(&[head.as_bytes(), &parts].concat());
        let read = PipelineParts::read(aligned.as_bytes()).unwrap();
        prop_assert_eq!(read.bindings, &bindings);
        prop_assert_eq!(read.constants, &entries);
        prop_assert_eq!((read.values, read.entry_point), (constants.as_bytes(), &b"main"[..]));
        prop_assert_eq!(read.spirv, words.as_bytes());
        let bytes = aligned.as_mut_bytes();
        let cut = cut.index(bytes.len());
        prop_assert!(PipelineParts::read(&bytes[..cut]).is_err());
        for (at, value) in changed {
            let at = at.index(bytes.len());
            bytes[at] = value;
            let _ = PipelineParts::read(bytes);
        }
    }
}

#[test]
fn what_is_larger_than_it_may_be_is_no_command() {
    type Change = fn(&mut Vec<u8>);
    let cases: [Change; 4] = [
        |bytes| put(bytes, Dispatch::new_zeroed(), MAX_SETS + 1, &[0; 72]),
        |bytes| {
            let dispatch = Dispatch { push_constants: 260, ..Dispatch::new_zeroed() };
            put(bytes, dispatch, 0, &[0; 264]);
        },
        |bytes| {
            let dispatch = Dispatch { dynamic_offsets: 65, ..Dispatch::new_zeroed() };
            put(bytes, dispatch, 0, &[0; 264]);
        },
        |bytes| put(bytes, Update::new_zeroed(), 6, &[0; 6]),
    ];
    for change in cases {
        let mut bytes = Vec::new();
        put(&mut bytes, Barrier::new_zeroed(), 0, &[]);
        change(&mut bytes);
        let all: Vec<_> = commands(&bytes).collect();
        assert!(all[0].is_ok() && all.len() == 2, "{all:?}");
        assert!(matches!(all[1], Err(CommandError::Argument { offset: 8, .. })), "{all:?}");
    }
}

fn words<T: IntoBytes + Immutable + ?Sized>(bytes: &mut Vec<u8>, part: &T) {
    bytes.extend_from_slice(part.as_bytes());
    bytes.resize(bytes.len().next_multiple_of(8), 0);
}

/// A graphics pipeline of a vertex and a fragment stage, with one of everything else.
fn graphics_pipeline() -> Vec<u8> {
    let stage = |stage, constants, values| Stage {
        stage,
        constants,
        values,
        entry_point: 4,
        spirv: 20,
        ..Stage::new_zeroed()
    };
    let mut head = GraphicsPipelineHead {
        serial: 7,
        sets: 1,
        bindings: 1,
        stages: 2,
        vertex_bindings: 1,
        vertex_attributes: 1,
        colors: 1,
        states: 3,
        viewports: 1,
        scissors: 1,
        ..GraphicsPipelineHead::new_zeroed()
    };
    let mut bytes = Vec::new();
    words(&mut bytes, &head);
    let kind = DescriptorKind::INPUT_ATTACHMENT;
    words(&mut bytes, &Binding { kind, count: 1, ..Binding::new_zeroed() });
    words(&mut bytes, &VertexBinding { stride: 12, ..VertexBinding::new_zeroed() });
    words(&mut bytes, &VertexAttribute { format: 106, ..VertexAttribute::new_zeroed() });
    words(&mut bytes, &Blend { format: 37, write_mask: 15, ..Blend::new_zeroed() });
    words(&mut bytes, &[0u32, 1, 9]);
    words(&mut bytes, &Viewport { extent: [64.0; 2], ..Viewport::new_zeroed() });
    words(&mut bytes, &Scissor { extent: [64; 2], ..Scissor::new_zeroed() });
    words(&mut bytes, &[stage(1, 1, 4), stage(16, 0, 0)]);
    words(&mut bytes, &SpecialisationEntry { size: 4, ..SpecialisationEntry::new_zeroed() });
    words(&mut bytes, &5u32);
    words(&mut bytes, b"vert");
    words(&mut bytes, &[1u32; 5]);
    words(&mut bytes, b"frag");
    words(&mut bytes, &[2u32; 5]);
    head.length = bytes.len() as u32;
    bytes[..size_of::<GraphicsPipelineHead>()].copy_from_slice(head.as_bytes());
    bytes
}

#[test]
fn a_graphics_pipeline_comes_back_in_its_parts() {
    let bytes = graphics_pipeline();
    let parts = GraphicsPipelineParts::read(&bytes).unwrap();
    assert_eq!(parts.bindings[0].kind, DescriptorKind::INPUT_ATTACHMENT);
    assert_eq!((parts.vertex_bindings[0].stride, parts.vertex_attributes[0].format), (12, 106));
    assert_eq!((parts.colors[0].format, parts.states), (37, &[0, 1, 9][..]));
    assert_eq!(parts.viewports[0].extent, [64.0; 2]);
    assert_eq!(parts.scissors[0].extent, [64; 2]);
    let [vertex, fragment] = &parts.stages[..] else { panic!("{parts:?}") };
    assert_eq!((vertex.entry_point, fragment.entry_point), (&b"vert"[..], &b"frag"[..]));
    assert_eq!((vertex.constants.len(), vertex.values), (1, &[5, 0, 0, 0][..]));
    assert_eq!(fragment.spirv, [2u32; 5].as_bytes());
}

#[test]
fn a_graphics_pipeline_that_breaks_a_rule_is_refused() {
    type Break = fn(&mut GraphicsPipelineHead);
    let breaks: [Break; 13] = [
        |head| head.serial = 0,
        |head| head.length += 8,
        |head| head.sets = MAX_SETS + 1,
        |head| head.sets = 0,
        |head| head.bindings = MAX_BINDINGS + 1,
        |head| head.push_constants = 2,
        |head| head.stages = 0,
        |head| head.stages = MAX_STAGES + 1,
        |head| head.vertex_attributes = MAX_VERTEX_BINDINGS + 1,
        |head| head.colors = MAX_COLORS + 1,
        |head| head.states = MAX_STATES + 1,
        |head| head.viewports = MAX_VIEWPORTS + 1,
        |head| head.state.reserved = 1,
    ];
    let bytes = graphics_pipeline();
    let size = size_of::<GraphicsPipelineHead>();
    for (number, spoil) in breaks.into_iter().enumerate() {
        let mut bytes = bytes.clone();
        let mut head = GraphicsPipelineHead::read_from_bytes(&bytes[..size]).unwrap();
        spoil(&mut head);
        bytes[..size].copy_from_slice(head.as_bytes());
        assert!(GraphicsPipelineParts::read(&bytes).is_err(), "{number}");
    }
    for end in (0..bytes.len()).step_by(8) {
        assert!(GraphicsPipelineParts::read(&bytes[..end]).is_err());
    }
}

proptest! {
    #[test]
    fn whatever_becomes_of_a_graphics_pipeline_reading_it_ends(
        at in 0usize..420,
        value: u32,
    ) {
        let mut bytes = graphics_pipeline();
        let at = at * 4 % bytes.len();
        bytes[at..at + 4].copy_from_slice(value.as_bytes());
        let _ = GraphicsPipelineParts::read(&bytes);
    }
}

#[test]
fn a_rendering_comes_back_with_its_attachments() {
    let attachment = |view| Attachment { view, clear: [1, 2, 3, 4], ..Attachment::default() };
    let (all, mut bytes) = ([attachment(8), attachment(16), Attachment::default()], Vec::new());
    put(&mut bytes, BeginRendering::new_zeroed(), 1, all.as_bytes());
    put(&mut bytes, SetState::new_zeroed(), 0, &[]);
    put(&mut bytes, SetState { words: 3, ..SetState::new_zeroed() }, 2, [1u32, 2, 3].as_bytes());
    let buffers = [VertexBuffer { address: 64, length: 8, stride: 4 }];
    let set = SetVertexBuffers { count: 1, ..SetVertexBuffers::new_zeroed() };
    put(&mut bytes, set, 31, buffers.as_bytes());
    let commands = decoded(&bytes);
    let [
        (_, Command::BeginRendering(_, told)),
        _,
        (_, Command::SetState(_, state)),
        (_, Command::SetVertexBuffers(_, bound)),
    ] = commands[..]
    else {
        panic!("{commands:?}")
    };
    assert!(BeginRendering::attachments(told).eq(all));
    assert!(SetState::words(state).eq([1, 2, 3]));
    assert!(SetVertexBuffers::buffers(bound).eq(buffers));
}

#[test]
fn what_stores_transformed_vertices_comes_back_with_its_buffers() {
    let buffers = [
        TransformBuffer { address: 64, length: 8, counter: 4 },
        TransformBuffer { address: 128, length: 16, counter: 0 },
    ];
    let (counters, mut bytes) = ([4u64, 0, 12], Vec::new());
    put(&mut bytes, BeginTransform::new_zeroed(), 2, buffers.as_bytes());
    put(&mut bytes, EndTransform::new_zeroed(), 3, counters.as_bytes());
    let commands = decoded(&bytes);
    let [(_, Command::BeginTransform(_, begun)), (_, Command::EndTransform(_, ended))] =
        commands[..]
    else {
        panic!("{commands:?}")
    };
    assert!(BeginTransform::buffers(begun).eq(buffers));
    assert!(EndTransform::counters(ended).eq(counters));
}

#[test]
fn a_command_with_more_than_there_can_be_is_refused() {
    let too_many = [
        (BeginRendering::new_zeroed().with_header(MAX_COLORS + 1, 0).as_bytes().to_vec()),
        SetState { words: MAX_STATE + 1, ..SetState::new_zeroed() }
            .with_header(0, 0)
            .as_bytes()
            .to_vec(),
        SetVertexBuffers { count: 2, ..SetVertexBuffers::new_zeroed() }
            .with_header(MAX_VERTEX_BINDINGS - 1, 0)
            .as_bytes()
            .to_vec(),
        BindGraphics { push_constants: 2, ..BindGraphics::new_zeroed() }
            .with_header(0, 0)
            .as_bytes()
            .to_vec(),
        BeginTransform::new_zeroed().with_header(MAX_TRANSFORM_BUFFERS + 1, 0).as_bytes().to_vec(),
        EndTransform::new_zeroed().with_header(MAX_TRANSFORM_BUFFERS + 1, 0).as_bytes().to_vec(),
    ];
    for bytes in too_many {
        let told = commands(&bytes).next();
        assert!(matches!(told, Some(Err(CommandError::Argument { offset: 0, .. }))), "{told:?}");
    }
}
