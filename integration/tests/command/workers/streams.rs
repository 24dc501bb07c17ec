// SPDX-License-Identifier: MIT OR Apache-2.0

//! Streams of commands in a worker.

use super::*;
use bellhop_protocol::vulkan::{
    Barrier, Binding, CAPS_VERSION, CommandCaps, Copy, Descriptor, DescriptorKind, Dispatch,
    Encoded, Fill, PipelineHead, QueryCaps, SpecialisationEntry, Timestamp, Update, Wait,
};
use bellhop_worker::messages::commands::{
    CommandsAnswer, CommandsResult, CommandsTask, CommandsTaskKind, Scope,
};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

const SETS: &[u8] = include_bytes!("../../../../device/worker/kernels/sets.spv");
/// Invocations of a work group of it.
const GROUP: u64 = 16;

/// Where things are, far apart and each in pages of its own.
pub(super) const STREAM: u64 = WINDOW.start + 0x10_0000;
pub(super) const PIPELINE: u64 = WINDOW.start + 0x1_0000_0000;
pub(super) const SET: u64 = WINDOW.start + 0x2_0000_0000;
pub(super) const DATA: u64 = WINDOW.start + 0x33_0000_0000;

/// A worker, and the memory that it reaches.
pub(super) struct Streams {
    pub(super) worker: Worker,
    pub(super) pages: Pages,
    pub(super) bytes: Vec<u8>,
}

impl Streams {
    pub(super) fn new() -> Option<Self> {
        let (worker, mut pages) = (worker()?, Pages::new());
        for start in [STREAM, PIPELINE, SET, DATA] {
            for page in 0..16 {
                pages.add(start + page * PAGE, start != SET);
            }
        }
        Some(Self { worker, pages, bytes: Vec::new() })
    }

    pub(super) fn put<C: Encoded>(&mut self, command: C, argument: u32, data: &[u8]) -> &mut Self {
        let padded = data.len().next_multiple_of(8);
        self.bytes.extend_from_slice(command.with_header(argument, padded).as_bytes());
        self.bytes.extend_from_slice(data);
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        self
    }

    pub(super) fn barrier(&mut self) -> &mut Self {
        self.put(Barrier::new_zeroed(), 0, &[])
    }

    pub(super) fn fill(&mut self, destination: u64, length: u64, word: u32) -> &mut Self {
        self.put(Fill { destination, length, ..Fill::new_zeroed() }, word, &[])
    }

    /// Writes what lies in the pages of one range.
    pub(super) fn write(&self, address: u64, bytes: &[u8]) {
        self.pages.file.write_all_at(bytes, self.pages.place(address)).unwrap();
    }

    pub(super) fn words(&self, address: u64, count: usize) -> Vec<u32> {
        let mut words = vec![0; count];
        self.pages.file.read_exact_at(words.as_mut_bytes(), self.pages.place(address)).unwrap();
        words
    }

    /// [`SETS`], with its factor. Its array has three buffers, and its uniform buffer moves.
    fn put_pipeline(&self, serial: u64, factor: u32, spirv: &[u8]) {
        let binding = |set, binding, kind, count, first| Binding {
            set,
            binding,
            kind,
            count,
            first,
            reserved: 0,
        };
        let bindings = [
            binding(0, 2, DescriptorKind::UNIFORM_BUFFER_DYNAMIC, 1, 1),
            binding(2, 1, DescriptorKind::STORAGE_BUFFER, 3, 0),
        ];
        let constant = SpecialisationEntry { id: 3, offset: 4, size: 4, reserved: 0 };
        let mut spirv = spirv.to_vec();
        let length = spirv.len() as u32;
        spirv.resize(spirv.len().next_multiple_of(8), 0);
        let values = [0, factor];
        let parts =
            [bindings.as_bytes(), constant.as_bytes(), values.as_bytes(), b"main\0\0\0\0", &spirv];
        let parts = parts.concat();
        let head = PipelineHead {
            serial,
            length: (size_of::<PipelineHead>() + parts.len()) as u32,
            sets: 3,
            bindings: 2,
            constants: 1,
            values: 8,
            entry_point: 4,
            spirv: length,
            push_constants: 8,
            ..PipelineHead::new_zeroed()
        };
        self.write(PIPELINE, &[head.as_bytes(), &parts].concat());
    }

    /// The set of the uniform buffer, and that of the array, whose second buffer is missing.
    fn put_sets(&self, uniform: u64, buffers: [u64; 2]) {
        let descriptor = |address, length| Descriptor { address, length, ..Descriptor::default() };
        self.write(SET, [descriptor(0, 0), descriptor(uniform, 16)].as_bytes());
        let [first, third] = buffers;
        let set = [descriptor(first, 1024), descriptor(0, 0), descriptor(third, 1024)];
        self.write(SET + PAGE, set.as_bytes());
    }

    /// A dispatch of the pipeline, which adds `first` to the words of one of the buffers.
    fn dispatch(&mut self, how: Dispatch, offset: u32, first: u32, which: u32) -> &mut Self {
        let sets = [SET, 0, SET + PAGE];
        let data = [sets.as_bytes(), [offset, 0, first, which].as_bytes()].concat();
        let dispatch =
            Dispatch { pipeline: PIPELINE, dynamic_offsets: 1, push_constants: 8, ..how };
        self.put(dispatch, 3, &data)
    }

    /// Has the worker begin with the stream, which is then empty, and make its pipelines meanwhile.
    pub(super) fn begin(&mut self) {
        self.begin_with(CommandsTaskKind::MAKE_AND_EXECUTE);
    }

    pub(super) fn begin_with(&mut self, kind: CommandsTaskKind) {
        let bytes = std::mem::take(&mut self.bytes);
        self.write(STREAM, &bytes);
        let task =
            CommandsTask { address: STREAM, length: bytes.len() as u32, kind, scope: Scope::ALL };
        self.worker.task(task.as_bytes()).unwrap();
    }

    /// Waits for the answer, and maps what the worker asks for.
    pub(super) fn answer(&mut self) -> Result<CommandsAnswer, Fault> {
        loop {
            match next(&mut self.worker) {
                Event::Fault(fault) => self.pages.answer(&mut self.worker, fault)?,
                Event::Answer(answer) => return Ok(CommandsAnswer::read(&answer).unwrap()),
                other => panic!("{other:?}"),
            }
        }
    }

    #[track_caller]
    pub(super) fn execute(&mut self) {
        self.begin();
        let answer = self.answer().unwrap();
        assert_eq!(answer.result, CommandsResult::DONE, "{}", answer.text());
    }
}

fn groups(x: u32) -> Dispatch {
    Dispatch { groups: [x, 1, 1], ..Dispatch::new_zeroed() }
}

/// As [`SETS`] says, where all words were of one value before.
fn made(before: u32, [factor, added]: [u32; 2], groups: Range<u64>) -> Vec<u32> {
    let words = (groups.start * GROUP..groups.end * GROUP).map(|index| {
        before.wrapping_mul(factor).wrapping_add(added).wrapping_add((index / GROUP) as u32)
    });
    words.collect()
}

/// Both with one work group, which one thread does, and with several.
#[test]
fn every_command_does_what_it_is_for_and_does_it_again() {
    let Some(mut streams) = Streams::new() else { return };
    streams.put_pipeline(1, 3, SETS);
    let (uniform, first, third) = (DATA, DATA + 0x2000, DATA + 0x4000);
    streams.put_sets(uniform, [first, third]);
    streams.write(uniform + 64, [0, 100_u32, 0, 0].as_bytes());
    streams.write(uniform + 128, [0, 200_u32, 0, 0].as_bytes());
    for count in [1, 4] {
        let words = DATA + 0x6000;
        streams.write(words, [count, 1, 1].as_bytes());
        let mut times = 0..;
        let mut time = || DATA + 0x7000 + 8 * times.next().unwrap();
        for _ in 0..3 {
            streams
                .fill(first, 1024, 5)
                .fill(third, 1024, 6)
                .put(Timestamp { destination: time(), ..Timestamp::new_zeroed() }, 0, &[])
                .barrier()
                .dispatch(groups(count), 64, 10, 0)
                .dispatch(Dispatch { base: [2, 0, 0], ..groups(count) }, 128, 20, 2)
                .dispatch(groups(0), 64, 0, 2)
                .barrier()
                .put(
                    Copy {
                        source: first + 4,
                        destination: DATA + 0x8001,
                        length: 256,
                        ..Copy::new_zeroed()
                    },
                    0,
                    &[],
                )
                .put(
                    Update { destination: DATA + 0x9000, ..Update::new_zeroed() },
                    12,
                    b"twelve bytes",
                )
                .put(Timestamp { destination: time(), ..Timestamp::new_zeroed() }, 0, &[])
                .barrier();
            if count > 1 {
                streams.dispatch(Dispatch { indirect: words, ..groups(0) }, 64, 0, 0);
            }
            streams.execute();
            let of_first = made(5, [3, 110], 0..count.into());
            let again = of_first.iter().zip(made(0, [0, 100], 0..count.into()));
            let again: Vec<_> = again.map(|(word, added)| word * 3 + added).collect();
            let expected = if count > 1 { &again } else { &of_first };
            let length = expected.len();
            assert_eq!(&streams.words(first, length), expected);
            assert_eq!(streams.words(first + length as u64 * 4, 1), [5]);
            let of_third = made(6, [3, 220], 2..2 + u64::from(count));
            assert_eq!(streams.words(third + 2 * GROUP * 4, of_third.len()), of_third);
            assert_eq!(streams.words(third, 1), [6]);
            assert_eq!(streams.words(third + 2 * GROUP * 4 + of_third.len() as u64 * 4, 1), [6]);
            let mut copied = [0; 257];
            let place = streams.pages.place(DATA + 0x8001);
            streams.pages.file.read_exact_at(&mut copied, place).unwrap();
            let mut source = of_first.clone();
            source.resize(65, 5);
            assert_eq!(copied[..256], *source[1..].as_bytes());
            assert_eq!(copied[256], 0);
            assert_eq!(streams.words(DATA + 0x9000, 4).as_bytes(), b"twelve bytes\0\0\0\0");
            streams.write(DATA + 0x8000, &[0; 512]);
            streams.write(DATA + 0x9000, &[0; 16]);
        }
        let taken: Vec<_> =
            (0..6).map(|index| streams.pages.load(DATA + 0x7000 + index * 8)).collect();
        assert!(taken[0] > 0 && taken.is_sorted(), "{taken:?}");
    }
}

#[test]
fn a_stream_that_comes_again_sees_other_pipelines_and_sets() {
    let Some(mut streams) = Streams::new() else { return };
    let (first, third) = (DATA + 0x2000, DATA + 0x4000);
    streams.put_sets(DATA, [first, third]);
    let run = |streams: &mut Streams, address| {
        streams.write(address, &[0; 64]);
        streams.dispatch(groups(1), 0, 7, 0).execute();
        let words = streams.words(address, GROUP as usize);
        streams.write(address, [1_u32; 16].as_bytes());
        streams.dispatch(groups(1), 0, 7, 0).execute();
        (words[0], streams.words(address, 1)[0])
    };
    streams.put_pipeline(1, 3, SETS);
    assert_eq!(run(&mut streams, first), (7, 10));
    streams.put_pipeline(2, 5, SETS);
    assert_eq!(run(&mut streams, first), (7, 12));
    streams.put_sets(DATA, [third, first]);
    assert_eq!(run(&mut streams, third), (7, 12));
    assert_eq!(streams.words(first, 1), [5 + 7]);
}

#[test]
fn a_stream_waits_for_its_pipelines_which_are_made_apart_from_it() {
    let Some(mut streams) = Streams::new() else { return };
    streams.put_sets(DATA, [DATA + 0x2000, DATA + 0x4000]);
    let added = |streams: &Streams| streams.words(DATA + 0x2000, 1)[0];
    let run = |streams: &mut Streams, count, kind| {
        streams.dispatch(groups(count), 0, 7, 0).begin_with(kind);
        let answer = streams.answer().unwrap();
        (answer.result, added(streams))
    };
    let execute = CommandsTaskKind::EXECUTE;
    streams.put_pipeline(1, 1, SETS);
    assert_eq!(run(&mut streams, 1, execute), (CommandsResult::LACKS, 0));
    streams.worker.task(CommandsTask::MAKE.as_bytes()).unwrap();
    // It was copied: another description makes no difference, and no memory is reached.
    streams.put_pipeline(2, 3, SETS);
    assert!(matches!(next(&mut streams.worker), Event::Answer(_)));
    streams.put_pipeline(1, 3, SETS);
    assert_eq!(run(&mut streams, 1, execute), (CommandsResult::DONE, 7));
    // One that is made where a stream runs is not made anew, and one that nothing lacked makes no difference.
    streams.put_pipeline(2, 1, SETS);
    assert_eq!(
        run(&mut streams, 1, CommandsTaskKind::MAKE_AND_EXECUTE),
        (CommandsResult::DONE, 14)
    );
    streams.worker.task(CommandsTask::MAKE.as_bytes()).unwrap();
    assert!(matches!(next(&mut streams.worker), Event::Answer(_)));
    assert_eq!(run(&mut streams, 1, execute), (CommandsResult::DONE, 21));
    // What cannot be made is told where it is used.
    streams.put_pipeline(3, 1, &[3; 64]);
    assert_eq!(run(&mut streams, 1, execute), (CommandsResult::LACKS, 21));
    streams.worker.task(CommandsTask::MAKE.as_bytes()).unwrap();
    assert!(matches!(next(&mut streams.worker), Event::Answer(_)));
    assert_eq!(run(&mut streams, 1, execute), (CommandsResult::LACKS, 21));
    let makes = CommandsTaskKind::MAKE_AND_EXECUTE;
    assert_eq!(run(&mut streams, 1, makes), (CommandsResult::MALFORMED, 21));
}

#[test]
fn a_wait_holds_what_is_behind_it_until_a_processor_stores_the_word() {
    let Some(mut streams) = Streams::new() else { return };
    let wait = Wait { address: DATA + 4, ..Wait::new_zeroed() };
    streams.fill(DATA, 4, 1).put(wait, 3, &[]).fill(DATA + 8, 4, 2).begin();
    while streams.words(DATA, 1) == [0] {
        match streams.worker.next(Some(Duration::from_millis(1))).unwrap() {
            Some(Event::Fault(fault)) => {
                streams.pages.answer(&mut streams.worker, fault).unwrap();
            }
            other => assert_eq!(other, None),
        }
    }
    // The worker maps the word's page, if it has not yet, and says no more.
    while let Some(event) = streams.worker.next(Some(Duration::from_millis(50))).unwrap() {
        let Event::Fault(fault) = event else { panic!("{event:?}") };
        streams.pages.answer(&mut streams.worker, fault).unwrap();
    }
    assert_eq!(streams.words(DATA + 8, 1), [0]);
    streams.write(DATA + 4, &3_u32.to_le_bytes());
    let answer = streams.answer().unwrap();
    assert_eq!(answer.result, CommandsResult::DONE);
    assert_eq!(streams.words(DATA, 3), [1, 3, 2]);
}

#[test]
fn what_the_vulkan_can_do_is_stored_in_its_turn() {
    let Some(mut streams) = Streams::new() else { return };
    let query = |length| QueryCaps { destination: DATA, length, ..QueryCaps::new_zeroed() };
    streams.fill(DATA, 8192, 9).put(query(u64::MAX), 0, &[]).execute();
    let words = streams.words(DATA, size_of::<CommandCaps>() / 4 + 1);
    let (caps, rest) = CommandCaps::read_from_prefix(words.as_bytes()).unwrap();
    assert_eq!(rest, 9_u32.as_bytes());
    assert_eq!(caps.version, CAPS_VERSION);
    assert!(caps.name.starts_with(b"llvmpipe"), "{:?}", caps.name);
    assert_eq!(caps.device_type, 4);
    assert!(caps.api_version >= 0x40_3000 && caps.timestamp_bits > 0);
    // Drawing, computing and copies.
    assert_eq!(caps.queue_flags, 0b111);
    // `maxImageDimension1D` and `nonCoherentAtomSize` are the first and the last of the limits.
    let limit = |at: usize| u32::read_from_prefix(&caps.limits[at..]).unwrap().0;
    assert!(limit(0).is_power_of_two() && limit(496).is_power_of_two(), "{:?}", caps.limits);
    assert!(caps.features.iter().all(|feature| *feature <= 1));
    let all = [&caps.features_1_1[..], &caps.features_1_2[..47], &caps.features_1_3[..15]];
    assert!(all.iter().all(|features| features.iter().all(|feature| *feature <= 1)));
    // `bufferDeviceAddress` and `maintenance4` are what this Vulkan has.
    assert_eq!((caps.features_1_2[37], caps.features_1_3[14]), (1, 1));
    assert!(caps.properties_1_2.windows(8).any(|name| name == b"llvmpipe"));
    assert_eq!(u32::read_from_prefix(&caps.properties_1_3).unwrap().0, 8);
    streams.fill(DATA, 4096, 0x0909_0909).put(query(7), 0, &[]).execute();
    assert_eq!(streams.words(DATA, 2), [CAPS_VERSION, (caps.api_version & 0xFF_FFFF) | (9 << 24)]);
}

#[test]
fn nothing_of_a_malformed_stream_is_executed_and_the_worker_goes_on() {
    let Some(mut streams) = Streams::new() else { return };
    streams.put_pipeline(1, 1, SETS);
    streams.put_sets(DATA, [DATA + 0x2000 + 1, DATA + 0x4000]);
    streams.fill(DATA, 4, 1).dispatch(groups(1), 0, 0, 0).begin();
    let answer = streams.answer().unwrap();
    assert_eq!((answer.result, answer.offset), (CommandsResult::MALFORMED, 24));
    assert!(answer.text().contains("multiple"), "{}", answer.text());
    streams.fill(DATA, 4, 1).fill(DATA + 1, 4, 1).begin();
    assert_eq!(streams.answer().unwrap().offset, 24);
    // A pipeline whose SPIR-V is none, as Vulkan sees it or as everybody does.
    streams.put_pipeline(2, 1, &[3; 64]);
    streams.fill(DATA, 4, 1).dispatch(groups(1), 0, 0, 0).begin();
    let answer = streams.answer().unwrap();
    assert_eq!((answer.result, answer.offset), (CommandsResult::MALFORMED, 24));
    assert_eq!(streams.words(DATA, 1), [0]);
    streams.fill(DATA, 4, 1).execute();
    assert_eq!(streams.words(DATA, 1), [1]);
}

#[test]
fn memory_that_is_not_there_is_a_fault_at_its_address() {
    let end = DATA + 16 * PAGE;
    for (address, store) in [(end, true), (SET, true), (end, false)] {
        let Some(mut streams) = Streams::new() else { return };
        if store {
            streams.fill(address, 4, 1);
        } else {
            let copy = Copy { source: end, destination: DATA, length: 4, ..Copy::new_zeroed() };
            streams.put(copy, 0, &[]);
        }
        streams.begin();
        let fault = streams.answer().unwrap_err();
        assert_eq!((fault.address, fault.store), (address, store));
    }
}
