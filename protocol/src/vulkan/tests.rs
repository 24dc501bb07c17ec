// SPDX-License-Identifier: MIT OR Apache-2.0

//! Streams and pipelines of all kinds.

use super::*;
use alloc::vec;
use alloc::vec::Vec;
use proptest::collection::vec as many;
use proptest::prelude::*;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

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
    (0u16..18, 0u16..30, prop_oneof![0u32..70, any::<u32>()]).prop_map(|(code, units, argument)| {
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
        let room = Dispatch::data_size(addresses.len(), offsets.len(), constants.len() * 4);
        prop_assert_eq!(data.len().next_multiple_of(8), room);
        let dispatch = Dispatch {
            pipeline: 64,
            groups,
            dynamic_offsets: offsets.len() as u32,
            push_constants: constants.len() as u32 * 4,
            ..Dispatch::new_zeroed()
        };
        let mut bytes = Vec::new();
        put(&mut bytes, dispatch, addresses.len() as u32, &data);
        put(&mut bytes, Barrier::new_zeroed(), 0, &[]);
        let all = decoded(&bytes);
        let [(0, Command::Dispatch(told, data)), (_, Command::Barrier(..))] = all[..] else {
            panic!("{all:?}")
        };
        prop_assert_eq!((told.groups, told.pipeline), (groups, 64));
        prop_assert_eq!(told.sets(data).as_bytes(), addresses.as_bytes());
        prop_assert_eq!(told.offsets(data).as_bytes(), offsets.as_bytes());
        prop_assert_eq!(told.constants(data), constants.as_bytes());
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
