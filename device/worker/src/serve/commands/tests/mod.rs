// SPDX-License-Identifier: MIT OR Apache-2.0

//! Decoding and reading, without Vulkan: the window is memory of the test.

mod drawing;
mod images;

use super::described::{Description, Known};
use super::pipelines::Pipelines;
use super::plan::Plan;
use super::reader::Maker;
use super::stream::Stream;
use super::waiting::wait_until;
use super::wrong::{Why, Wrong};
use crate::messages::Malformed;
use crate::messages::commands::{CommandsResult, CommandsTask, CommandsTaskKind, Scope};
use crate::serve::memory::Memory;
use crate::vulkan::{Bounds, Formats, OfBuffers, OfSamplers, Point, VulkanError};
use ash::vk::QueueFlags;
use bellhop_protocol::vulkan::{
    Barrier, Binding, CommandCaps, Copy, Descriptor, DescriptorKind, Dispatch, Encoded, Fill,
    Image, PipelineHead, QueryCaps, Timestamp, Update, Wait,
};
use std::cell::Cell;
use std::rc::Rc;
use zerocopy::{FromZeros, IntoBytes};

const WORDS: usize = 4096;
/// Where a pipeline, sets and data are in the window, in bytes.
const PIPELINE: u64 = 1024;
const SET: u64 = 8192;
const DATA: u64 = 16_384;

const BOUNDS: Bounds = Bounds {
    work_groups: [100; 3],
    push_constants: 128,
    sets: 4,
    uniform: OfBuffers { alignment: 16, longest: 1024 },
    storage: OfBuffers { alignment: 8, longest: 4096 },
    texel_alignment: 16,
    most_texels: 64,
    samplers: OfSamplers {
        most_anisotropy: None,
        most_lod_bias: 4.0,
        mirror_once: false,
        reduce: false,
        have_seams: false,
        custom_borders: [false; 2],
        swizzle_borders: false,
    },
    formats: Formats::none(),
    cube_arrays: false,
    queue_flags: QueueFlags::COMPUTE,
    graphics: None,
    timestamp_bits: 0,
    subgroup_sizes: Some(8..=16),
    null_descriptors: false,
    partially_bound: false,
};

/// Makes a pipeline without Vulkan.
fn of_nothing(_: &Description<'_>) -> Result<(), VulkanError> {
    Ok(())
}

/// A window.
struct Fake {
    _words: Box<[u64]>,
    start: u64,
    memory: Memory,
}

impl Fake {
    fn new() -> Self {
        let mut words = vec![0; WORDS].into_boxed_slice();
        let start = words.as_mut_ptr().expose_provenance() as u64;
        let memory = Memory::new(start..start + WORDS as u64 * 8);
        Self { _words: words, start, memory }
    }

    fn end(&self) -> u64 {
        self.start + WORDS as u64 * 8
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        self.memory.write(self.start + at, bytes).unwrap();
    }

    fn put_pipeline(&self, serial: u64, bindings: &[Binding]) {
        let mut spirv = [0; 6];
        spirv[0] = 0x0723_0203_u32;
        let parts = [bindings.as_bytes(), b"main\0\0\0\0", spirv.as_bytes()].concat();
        let head = PipelineHead {
            serial,
            length: (size_of::<PipelineHead>() + parts.len()) as u32,
            sets: 3,
            bindings: bindings.len() as u32,
            entry_point: 4,
            spirv: 24,
            push_constants: 8,
            ..PipelineHead::new_zeroed()
        };
        self.put(PIPELINE, &[head.as_bytes(), &parts].concat());
    }

    fn put_set(&self, index: u64, address: u64, length: u64) {
        let descriptor = Descriptor { address, length, ..Descriptor::default() };
        self.put(SET + index * 32, descriptor.as_bytes());
    }

    fn plan(&self, stream: &[u8]) -> Result<Plan<(), Image>, Wrong> {
        self.plan_for(&BOUNDS, stream)
    }

    /// Plans a stream on a device with these bounds.
    fn plan_for(&self, bounds: &Bounds, stream: &[u8]) -> Result<Plan<(), Image>, Wrong> {
        let (memory, pipelines) = (&self.memory, Pipelines::new(9));
        let stream = Stream::read(stream, memory)?;
        Plan::new(&stream, memory, bounds, &mut Making { memory, bounds, pipelines })
    }

    /// A dispatch of the pipeline, with as many offsets.
    fn dispatch(&self, offsets: u32) -> Dispatch {
        let (pipeline, groups) = (self.start + PIPELINE, [1; 3]);
        Dispatch { pipeline, groups, dynamic_offsets: offsets, ..Dispatch::new_zeroed() }
    }
}

/// What makes pipelines and images without Vulkan.
struct Making<'a> {
    memory: &'a Memory,
    bounds: &'a Bounds,
    pipelines: Pipelines<()>,
}

impl Maker for Making<'_> {
    type Pipeline = ();
    type Image = Image;

    fn pipeline(&mut self, point: Point, address: u64) -> Result<Rc<Known<()>>, Why> {
        self.pipelines.find(address, point, self.memory, self.bounds, Some(of_nothing))
    }

    fn image(&mut self, of: &Image) -> Result<Rc<Image>, Why> {
        Ok(Rc::new(*of))
    }
}

fn put<C: Encoded>(bytes: &mut Vec<u8>, command: C, argument: u32, data: &[u8]) {
    bytes.extend_from_slice(
        command.with_header(argument, data.len().next_multiple_of(8)).as_bytes(),
    );
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
}

fn one<C: Encoded>(command: C, argument: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(&mut bytes, command, argument, data);
    bytes
}

fn binding(set: u32, number: u32, kind: DescriptorKind, count: u32, first: u32) -> Binding {
    Binding { set, binding: number, kind, count, first, reserved: 0 }
}

const STORAGE: DescriptorKind = DescriptorKind::STORAGE_BUFFER;
const DYNAMIC: DescriptorKind = DescriptorKind::UNIFORM_BUFFER_DYNAMIC;

#[track_caller]
fn assert_malformed<T>(result: Result<T, Wrong>, what: &str) {
    match result {
        Err(Wrong { offset: 8, why: Why::Malformed(why) }) => {
            assert!(why.contains(what), "{why}, not {what}");
        }
        Err(other) => panic!("{other}, not {what}"),
        Ok(_) => panic!("nothing, not {what}"),
    }
}

#[test]
fn a_task_is_copied_from_the_window_and_from_nowhere_else() {
    let fake = Fake::new();
    fake.put(8, &[7; 16]);
    let kind = CommandsTaskKind::EXECUTE;
    let task = |address, length| CommandsTask { address, length, kind, scope: Scope::ALL };
    let mut bytes = vec![1; 100];
    Stream::copy(&task(fake.start + 8, 16), &fake.memory, &mut bytes).unwrap().unwrap();
    assert_eq!(bytes, [7; 16]);
    let outside = Stream::copy(&task(fake.end() - 8, 16), &fake.memory, &mut bytes).unwrap();
    assert_eq!(outside.unwrap_err().answer().result, CommandsResult::MALFORMED);
    let long = Stream::copy(&task(fake.start, (1 << 20) + 8), &fake.memory, &mut bytes);
    assert!(matches!(long, Err(Malformed::Field(_))));
}

#[test]
fn a_command_that_can_do_nothing_right_is_malformed_where_it_begins() {
    let fake = Fake::new();
    let (start, end) = (fake.start, fake.end());
    let copy = |source, destination, length| {
        one(Copy { source, destination, length, ..Copy::new_zeroed() }, 0, &[])
    };
    let fill =
        |destination, length| one(Fill { destination, length, ..Fill::new_zeroed() }, 1, &[]);
    let update = |destination| one(Update { destination, ..Update::new_zeroed() }, 8, &[1; 8]);
    let indirect = |indirect, base| one(Dispatch { indirect, base, ..fake.dispatch(0) }, 0, &[]);
    let query = |destination, length| {
        one(QueryCaps { destination, length, ..QueryCaps::new_zeroed() }, 0, &[])
    };
    let timestamp = |destination| one(Timestamp { destination, ..Timestamp::new_zeroed() }, 0, &[]);
    let wait = |address| one(Wait { address, ..Wait::new_zeroed() }, 1, &[]);
    let unaligned = Dispatch { pipeline: start + 4, ..fake.dispatch(0) };
    for (what, command) in [
        ("overlap", copy(start, start + 63, 64)),
        ("not in the window", copy(start, end - 63, 64)),
        ("not in the window", copy(start - 1, start + 64, 64)),
        ("not in the window", copy(start, 8, u64::MAX)),
        ("no multiple of 4", fill(start + 2, 4)),
        ("no multiple of 4", fill(start, 6)),
        ("not in the window", fill(end, 4)),
        ("no multiple of 4", update(start + 1)),
        ("not in the window", update(end - 4)),
        ("no multiple of 8", timestamp(start + 4)),
        ("not in the window", timestamp(end)),
        ("no multiple of 4", wait(start + 2)),
        ("not in the window", wait(end)),
        ("not in the window", query(end - 8, 16)),
        ("no multiple of 8", one(unaligned, 0, &[])),
        ("first work group", indirect(start, [0, 1, 0])),
        ("not in the window", indirect(end - 8, [0; 3])),
        ("no multiple of 4", indirect(start + 2, [0; 3])),
        ("an argument", one(Barrier::new_zeroed(), 1, &[])),
    ] {
        let bytes = [one(Barrier::new_zeroed(), 0, &[]), command].concat();
        assert_malformed(Stream::read(&bytes, &fake.memory), what);
    }
    // What is exactly inside, and a query that stores no more than there is.
    let mut bytes = Vec::new();
    for command in [copy(start, end - 64, 64), copy(start, start, 0), fill(end, 0)] {
        bytes.extend(command);
    }
    bytes.extend(query(end - size_of::<CommandCaps>() as u64, u64::MAX));
    assert_eq!(Stream::read(&bytes, &fake.memory).unwrap().commands.len(), 4);
}

#[test]
fn a_stream_is_narrow_if_no_dispatch_has_more_than_one_work_group() {
    let fake = Fake::new();
    let is_narrow = |dispatch: Dispatch| {
        let bytes = [one(fake.dispatch(0), 0, &[]), one(dispatch, 0, &[])].concat();
        Stream::read(&bytes, &fake.memory).unwrap().work().is_narrow()
    };
    assert!(is_narrow(fake.dispatch(0)));
    assert!(is_narrow(Dispatch { groups: [1, 0, 1], ..fake.dispatch(0) }));
    assert!(!is_narrow(Dispatch { groups: [1, 1, 2], ..fake.dispatch(0) }));
    assert!(!is_narrow(Dispatch { indirect: fake.start, ..fake.dispatch(0) }));
}

#[test]
fn descriptors_are_read_where_bindings_say_with_offsets_added() {
    let fake = Fake::new();
    fake.put_pipeline(
        1,
        &[binding(0, 0, STORAGE, 2, 1), binding(0, 7, DYNAMIC, 1, 0), binding(2, 1, STORAGE, 1, 0)],
    );
    let data = fake.start + DATA;
    let data = data.next_multiple_of(16);
    fake.put_set(0, data, 64);
    fake.put_set(1, data + 128, 8);
    fake.put_set(2, 0, 0);
    let sets = [fake.start + SET, 0, 0];
    let with = |offset: u32| [sets.as_bytes(), &offset.to_le_bytes(), &[0; 4]].concat();
    let mut bytes = one(fake.dispatch(1), 3, &with(32));
    put(&mut bytes, fake.dispatch(1), 3, &with(32));
    put(&mut bytes, fake.dispatch(1), 3, &with(48));
    let plan = fake.plan(&bytes).unwrap();
    // The first two dispatches have all in common, the third one set.
    let first = [[data + 128, 8], [0, 0], [data + 32, 64]];
    let third = [[data + 128, 8], [0, 0], [data + 48, 64]];
    let nothing = [[0, 0]];
    let buffers = |descriptors: &[Descriptor]| -> Vec<_> {
        descriptors.iter().map(|it| [it.address, it.length]).collect()
    };
    assert_eq!(buffers(plan.descriptors.all()), [&first[..], &nothing, &third].concat());
    let of: Vec<_> = plan.uses.iter().map(|planned| planned.sets.clone()).collect();
    assert_eq!(of, [[0, 1], [0, 1], [2, 1]]);
    let numbers: Vec<_> = plan.sets.iter().map(|set| set.number).collect();
    assert_eq!(numbers, [0, 2, 0]);
    let of: Vec<_> = plan.descriptors_of(&plan.sets[2]).map(|(_, it)| *it).collect();
    assert_eq!(buffers(&of), third);
    let mut keys = [Vec::new(), Vec::new()];
    plan.tell(&mut keys[0]);
    fake.put_set(0, data, 60);
    fake.plan(&bytes).unwrap().tell(&mut keys[1]);
    assert_ne!(keys[0], keys[1]);
}

#[test]
fn what_a_pipeline_or_the_device_does_not_take_is_malformed() {
    let fake = Fake::new();
    let data = (fake.start + DATA).next_multiple_of(16);
    let dynamic = binding(0, 0, DYNAMIC, 1, 0);
    fake.put_pipeline(1, &[dynamic]);
    let set = (fake.start + SET).to_le_bytes();
    let plan_with = |dispatch: Dispatch, offset: u32, constants: &[u8]| {
        let data = [&set[..], &offset.to_le_bytes(), &[0; 4], constants].concat();
        fake.plan(&[one(Barrier::new_zeroed(), 0, &[]), one(dispatch, 1, &data)].concat())
    };
    fake.put_set(0, data, 64);
    let good = fake.dispatch(1);
    assert!(plan_with(good, 16, &[]).is_ok());
    assert_malformed(plan_with(good, 8, &[]), "no multiple of 16");
    assert_malformed(plan_with(good, 1 << 30, &[]), "not in the window");
    let constants = |bytes| Dispatch { push_constants: bytes, ..good };
    assert!(plan_with(constants(8), 16, &[1; 8]).is_ok());
    assert_malformed(plan_with(constants(12), 16, &[1; 12]), "push constants");
    let groups = |base, groups| Dispatch { base, groups, ..good };
    assert!(plan_with(groups([99, 0, u32::MAX], [1, 1, 0]), 0, &[]).is_ok());
    assert_malformed(plan_with(groups([0; 3], [1, 101, 1]), 0, &[]), "work groups");
    assert_malformed(plan_with(groups([u32::MAX, 0, 0], [1; 3]), 0, &[]), "work groups");
    let none = Dispatch { dynamic_offsets: 0, ..good };
    let bytes = [one(Barrier::new_zeroed(), 0, &[]), one(none, 1, &set)].concat();
    assert_malformed(fake.plan(&bytes), "dynamic offsets");
    let wild = Dispatch { pipeline: fake.end() - 8, ..good };
    assert_malformed(plan_with(wild, 0, &[]), "not in the window");
    for (address, length, what) in [
        (data, 0, "0 bytes"),
        (data, 1025, "1025 bytes"),
        (data + 8, 64, "no multiple"),
        (fake.end().next_multiple_of(16), 64, "not in the window"),
        (u64::MAX - 15, 64, "not in the window"),
    ] {
        fake.put_set(0, address, length);
        assert_malformed(plan_with(good, 0, &[]), what);
    }
    fake.put_set(0, data, 64);
    for field in [16, 24] {
        fake.put(SET + field, &[1]);
        assert_malformed(plan_with(good, 0, &[]), "not its kind's");
        fake.put(SET + field, &[0]);
    }
    let timestamp = Timestamp { destination: data, ..Timestamp::new_zeroed() };
    let bytes = [one(Barrier::new_zeroed(), 0, &[]), one(timestamp, 0, &[])].concat();
    assert_malformed(fake.plan(&bytes), "a timestamp");
}

#[test]
fn more_descriptors_than_a_stream_may_have_are_refused_before_memory_is_taken_for_them() {
    let fake = Fake::new();
    fake.put_pipeline(1, &[binding(0, 0, DYNAMIC, 64, 0), binding(0, 1, STORAGE, 1 << 15, 0)]);
    let mut bytes = Vec::new();
    for number in 0..10_u32 {
        let offsets = [number; 64];
        put(&mut bytes, fake.dispatch(64), 1, &[&[0; 8], offsets.as_bytes()].concat());
    }
    let Err(wrong) = fake.plan(&bytes) else { panic!("they fit") };
    assert!(wrong.to_string().contains("more descriptors"), "{wrong}");
}

#[test]
fn a_pipeline_is_made_once_and_again_when_another_has_its_address() {
    let fake = Fake::new();
    let mut pipelines = Pipelines::new(9);
    let made = Cell::new(0);
    let mut find = || {
        let make = |of: &Description<'_>| {
            let Description::Compute(_, module) = of else { panic!("it draws") };
            assert_eq!((module.spirv.len(), &*module.entry_point), (6, c"main"));
            made.set(made.get() + 1);
            Ok(made.get())
        };
        pipelines.find(fake.start + PIPELINE, COMPUTE, &fake.memory, &BOUNDS, Some(make))
    };
    fake.put_pipeline(7, &[]);
    let serial = |known: &Known<i32>| (known.serial, *known.made);
    assert_eq!(serial(&find().unwrap()), (7, 1));
    // Nothing but the serial number is looked at.
    fake.put(PIPELINE + 8, &[0xFF; 8]);
    assert_eq!(serial(&find().unwrap()), (7, 1));
    fake.put_pipeline(8, &[binding(1, 0, DYNAMIC, 3, 0)]);
    let known = find().unwrap();
    assert_eq!(serial(&known), (8, 2));
    assert_eq!((known.dynamic, known.sets[1].len(), known.push_constants), (3, 1, 8));
    // What is none does not take the place of what was made.
    fake.put(PIPELINE, &9_u64.to_le_bytes());
    fake.put(PIPELINE + 8, &7_u32.to_le_bytes());
    assert!(matches!(find(), Err(Why::Malformed(_))));
    fake.put(PIPELINE, &8_u64.to_le_bytes());
    assert_eq!(serial(&find().unwrap()), (8, 2));
}

#[test]
fn the_pipeline_that_was_used_longest_ago_makes_room_for_another() {
    let fake = Fake::new();
    fake.put_pipeline(1, &[]);
    let mut description = vec![0; 80];
    fake.memory.read(fake.start + PIPELINE, &mut description).unwrap();
    let mut pipelines = Pipelines::new(2);
    let mut made = Vec::new();
    for at in [0, 128, 0, 256, 0, 128, 256] {
        fake.put(at, &description);
        let make = |_: &Description<'_>| {
            made.push(at);
            Ok(())
        };
        pipelines.find(fake.start + at, COMPUTE, &fake.memory, &BOUNDS, Some(make)).unwrap();
    }
    assert_eq!(made, [0, 128, 256, 128, 256]);
}

/// What finds pipelines and makes none.
const NEVER: Option<Make> = None;
type Make = fn(&Description<'_>) -> Result<u64, VulkanError>;
const COMPUTE: Point = Point::Compute;

#[test]
fn pipelines_that_lack_are_copied_and_made_later_and_those_that_fail_are_left_out() {
    let fake = Fake::new();
    let places = [PIPELINE, PIPELINE + 128, PIPELINE + 256].map(|at| fake.start + at);
    fake.put_pipeline(7, &[]);
    let mut description = vec![0; 80];
    fake.memory.read(fake.start + PIPELINE, &mut description).unwrap();
    fake.put(PIPELINE + 128, &description);
    let mut pipelines = Pipelines::new(9);
    let is_there = |pipelines: &mut Pipelines<u64>| match pipelines.find(
        places[0],
        COMPUTE,
        &fake.memory,
        &BOUNDS,
        NEVER,
    ) {
        Ok(known) => Some(known.serial),
        Err(Why::Lacks) => None,
        Err(other) => panic!("{other:?}"),
    };
    assert_eq!(is_there(&mut pipelines), None);
    // The third is none, and each is noted once.
    let places_of = |count: usize| places.into_iter().take(count).map(|at| (COMPUTE, at));
    pipelines.note_lacking(places_of(3).chain(places_of(3)), &fake.memory);
    fake.put(PIPELINE, &8_u64.to_le_bytes());
    let made = pipelines.make_lacking(&BOUNDS, |_| Ok(1)).unwrap();
    assert_eq!((made.serial, *made.made, pipelines.lack()), (7, 1, true));
    let failed = pipelines.make_lacking(&BOUNDS, |_| Err(VulkanError::Lacks("patience")));
    assert!(failed.is_none() && !pipelines.lack());
    assert_eq!(is_there(&mut pipelines), None, "the description is another one now");
    fake.put(PIPELINE, &7_u64.to_le_bytes());
    assert_eq!(is_there(&mut pipelines), Some(7));
    // What is there is not noted, and what was noted before is forgotten.
    pipelines.note_lacking(places_of(3), &fake.memory);
    pipelines.note_lacking(places_of(1), &fake.memory);
    assert!(!pipelines.lack() && pipelines.make_lacking(&BOUNDS, |_| Ok(9)).is_none());
}

#[test]
fn a_pipeline_for_a_device_that_cannot_have_it_is_not_made() {
    let fake = Fake::new();
    let with = |bounds: &Bounds, change: &dyn Fn(&mut PipelineHead)| {
        fake.put_pipeline(1, &[]);
        let mut head = PipelineHead::new_zeroed();
        fake.memory.read(fake.start + PIPELINE, head.as_mut_bytes()).unwrap();
        change(&mut head);
        fake.put(PIPELINE, head.as_bytes());
        let mut pipelines = Pipelines::new(9);
        let at = fake.start + PIPELINE;
        let found = pipelines.find(at, COMPUTE, &fake.memory, bounds, Some(of_nothing));
        found.map(drop)
    };
    let none = Bounds { subgroup_sizes: None, ..BOUNDS };
    assert!(with(&none, &|_| {}).is_ok());
    assert!(with(&BOUNDS, &|head| head.subgroup_size = 16).is_ok());
    assert!(with(&BOUNDS, &|head| head.stage_flags = 3).is_ok());
    assert!(with(&BOUNDS, &|head| head.subgroup_size = 12).is_err());
    assert!(with(&BOUNDS, &|head| head.subgroup_size = 32).is_err());
    assert!(with(&BOUNDS, &|head| head.stage_flags = 4).is_err());
    assert!(with(&none, &|head| head.subgroup_size = 8).is_err());
    assert!(with(&BOUNDS, &|head| head.sets = 5).is_err());
    assert!(with(&BOUNDS, &|head| head.push_constants = 132).is_err());
}

#[test]
fn a_failure_of_vulkan_is_no_mistake_of_the_guest() {
    let fake = Fake::new();
    fake.put_pipeline(1, &[]);
    let mut pipelines = Pipelines::<()>::new(9);
    let make = |_: &Description<'_>| Err(VulkanError::Lacks("patience"));
    let found = pipelines.find(fake.start + PIPELINE, COMPUTE, &fake.memory, &BOUNDS, Some(make));
    let answer = found.unwrap_err().at(24).answer();
    assert_eq!((answer.result, answer.offset), (CommandsResult::FAILED, 24));
    assert_eq!(answer.text(), "no patience");
}

#[test]
fn a_wait_ends_when_the_word_has_the_value_and_not_before() {
    let looks = Cell::new(0);
    wait_until(5, || {
        looks.set(looks.get() + 1);
        Ok::<_, ()>(if looks.get() > 210 { 5 } else { looks.get() % 5 })
    })
    .unwrap();
    assert_eq!(looks.get(), 211);
    assert_eq!(wait_until(5, || Err(1)), Err(1));
}
