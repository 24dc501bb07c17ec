// SPDX-License-Identifier: MIT OR Apache-2.0

//! Streams of commands that the host's Vulkan executes.

use super::lab::{self, INCREMENT, LOOP, TRANSFORM};
use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::scene::{Bench, Scene, TIMEOUT};
use crate::own_kernels::modules::Module;
use bellhop_guest_umd::protocol::vulkan::{
    Barrier, Binding, CAPS_VERSION, CommandCaps, Copy, Descriptor, DescriptorKind, Dispatch,
    Encoded, Fill, PipelineHead, QueryCaps, Timestamp, Update, Wait,
};
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::Opcode;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Where the stream, the pipeline, its set and the data are in the bench's memory.
const STREAM: usize = 0;
const PIPELINE: usize = 4096;
const SET: usize = 65_536;
pub(super) const DATA: usize = 131_072;

/// Commands, one after the other.
#[derive(Default)]
pub(super) struct Stream(Vec<u8>);

impl Stream {
    /// Its bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// How many bytes it has.
    pub(super) fn length(&self) -> u64 {
        self.0.len() as u64
    }

    pub(super) fn put<C: Encoded>(mut self, command: C, argument: u32, data: &[u8]) -> Self {
        let padded = data.len().next_multiple_of(8);
        self.0.extend_from_slice(command.with_header(argument, padded).as_bytes());
        self.0.extend_from_slice(data);
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        self
    }

    pub(super) fn barrier(self) -> Self {
        self.put(Barrier::new_zeroed(), 0, &[])
    }

    pub(super) fn fill(self, destination: u64, length: u64, pattern: u32) -> Self {
        self.put(Fill { destination, length, ..Fill::new_zeroed() }, pattern, &[])
    }

    /// One work group of the pipeline in the bench's memory, with its set.
    fn dispatch(self, bench: &Bench, push_constants: &[u8]) -> Self {
        self.dispatch_by(bench, PIPELINE as u64, push_constants)
    }

    /// As [`Self::dispatch`], of the pipeline at another place.
    fn dispatch_by(self, bench: &Bench, pipeline: u64, push_constants: &[u8]) -> Self {
        let dispatch = Dispatch {
            pipeline: bench.va(pipeline),
            groups: [1; 3],
            push_constants: push_constants.len() as u32,
            ..Dispatch::new_zeroed()
        };
        let data = [&bench.va(SET as u64).to_le_bytes()[..], push_constants].concat();
        self.put(dispatch, 1, &data)
    }

    /// [`LOOP`], which writes this number.
    fn count(self, bench: &Bench, number: u32) -> Self {
        self.count_by(bench, PIPELINE as u64, number)
    }

    /// As [`Self::count`], by the pipeline at another place.
    pub(super) fn count_by(self, bench: &Bench, pipeline: u64, number: u32) -> Self {
        self.dispatch_by(bench, pipeline, &number.to_le_bytes())
    }
}

/// A bench whose memory has the pipeline of [`LOOP`], and its set with a descriptor of the data.
pub(super) fn prepare(scene: &Scene) -> Result<Bench, Mismatch> {
    let bench = lab::bench(scene)?;
    put_pipeline(&bench, 1, &LOOP)?;
    put_set(&bench, bench.va(DATA as u64), 4096)?;
    Ok(bench)
}

fn put_pipeline(bench: &Bench, serial: u64, module: &Module) -> Result<(), Mismatch> {
    put_pipeline_at(bench, PIPELINE, serial, module)
}

pub(super) fn put_pipeline_at(
    bench: &Bench,
    at: usize,
    serial: u64,
    module: &Module,
) -> Result<(), Mismatch> {
    let kind = DescriptorKind::STORAGE_BUFFER;
    let binding = Binding { set: 0, binding: 0, kind, count: 1, first: 0, reserved: 0 };
    let parts = [binding.as_bytes(), b"main\0\0\0\0", module.spirv].concat();
    let length = (size_of::<PipelineHead>() + parts.len()).next_multiple_of(8);
    let head = PipelineHead {
        serial,
        length: length as u32,
        sets: 1,
        bindings: 1,
        entry_point: 4,
        spirv: module.spirv.len() as u32,
        push_constants: module.push_constants,
        ..PipelineHead::new_zeroed()
    };
    bench.write(at, &[head.as_bytes(), &parts].concat())?;
    Ok(())
}

fn put_set(bench: &Bench, address: u64, length: u64) -> Result<(), Mismatch> {
    let descriptor = Descriptor { address, length, ..Descriptor::default() };
    Ok(bench.write(SET, descriptor.as_bytes())?)
}

impl Bench {
    /// Has a stream executed.
    pub(super) fn execute(&mut self, stream: &Stream) -> Result<(), Mismatch> {
        self.append(stream)?;
        Ok(self.run()?)
    }

    fn append(&mut self, stream: &Stream) -> Result<(), Mismatch> {
        self.write(STREAM, &stream.0)?;
        self.commands.execute_commands(self.va(STREAM as u64), stream.0.len() as u32)?;
        Ok(())
    }

    /// Asserts that a stream is none, and that the queue says where.
    pub(super) fn expect_malformed(
        &mut self,
        stream: &Stream,
        offset: u64,
    ) -> Result<(), Mismatch> {
        self.append(stream)?;
        self.expect_fault(FaultReason::BAD_COMMANDS, offset).map(drop)
    }
}

pub(super) fn executed(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = prepare(scene)?;
    let data = bench.va(DATA as u64);
    let copy = Copy { source: data, destination: data + 8192, length: 4096, ..Copy::new_zeroed() };
    let update = Update { destination: data + 16_384, ..Update::new_zeroed() };
    let stream = Stream::default()
        .fill(data, 4096, 7)
        .put(update, 12, b"twelve bytes")
        .barrier()
        .count(&bench, 5)
        .barrier()
        .put(copy, 0, &[])
        .barrier()
        .count(&bench, 100);
    for _ in 0..3 {
        bench.write_words(DATA, [0; 5000])?;
        bench.execute(&stream)?;
        require!(bench.words(DATA, 1)? == [100], "the last dispatch is missing or early");
        let copied = bench.words(DATA + 8192, 1024)?;
        require!(copied[0] == 5 && copied[2..] == [7; 1022], "the copy is missing or out of turn");
        require!(bench.read(DATA + 16_384, 13)? == *b"twelve bytes\0", "other bytes were written");
    }
    // A packet before the stream is done before it begins, and one behind it waits for it.
    let stream = Stream::default().count(&bench, 3);
    bench.commands.fill(data, 4096, 1)?;
    bench.append(&stream)?;
    bench.commands.copy(data, data + 8192, 4096)?;
    bench.run()?;
    let copied = bench.words(DATA + 8192, 1024)?;
    require!(copied[0] == 3 && copied[2..] == [1; 1022], "a packet was not executed in its turn");
    Ok(())
}

pub(super) fn pipelines(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = prepare(scene)?;
    bench.write_words(DATA, [0; 1024])?;
    let stream = Stream::default().count(&bench, 9);
    bench.execute(&stream)?;
    require!(bench.words(DATA, 1)? == [9], "the first pipeline did not run");
    // Another pipeline in its place has another number. A set is read each time.
    put_pipeline(&bench, 2, &TRANSFORM)?;
    put_set(&bench, bench.va(DATA as u64 + 2048), 64)?;
    bench.write_words(DATA, [0; 1024])?;
    let stream = Stream::default().dispatch(&bench, &[]);
    bench.execute(&stream)?;
    // Zero times a number, plus the number of words and the index.
    let expected = (0..1024).map(|at| if (512..528).contains(&at) { 16 + at - 512 } else { 0 });
    require!(bench.words(DATA, 1024)?.into_iter().eq(expected), "not what the second makes");
    Ok(())
}

pub(super) fn caps(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = lab::bench(scene)?;
    let data = bench.va(DATA as u64);
    let length = size_of::<CommandCaps>();
    bench.write(DATA, &[9; size_of::<CommandCaps>() + 8])?;
    let query = QueryCaps { destination: data, length: length as u64, ..QueryCaps::new_zeroed() };
    let times = [data + 8192, data + 8200]
        .map(|at| Timestamp { destination: at, ..Timestamp::new_zeroed() });
    let stream =
        Stream::default().put(query, 0, &[]).put(times[0], 0, &[]).barrier().put(times[1], 0, &[]);
    bench.execute(&stream)?;
    let bytes = bench.read(DATA, length)?;
    let told =
        CommandCaps::read_from_bytes(&bytes).map_err(|_| Mismatch::Seen("too short".into()))?;
    let caps = lab::caps(scene)?;
    require!(told.version == CAPS_VERSION, "version {}", told.version);
    require!(told.api_version == caps.api_version, "Vulkan {:#x}", told.api_version);
    let name = told.name.split(|byte| *byte == 0).next().unwrap_or_default();
    require!(
        name.starts_with(caps.device.split(|b| *b == 0).next().unwrap_or_default()),
        "another name"
    );
    require!(bench.read(DATA + length, 8)? == [9; 8], "more was written than asked for");
    let (first, second) = (bench.word(DATA + 8192)?, bench.word(DATA + 8200)?);
    require!(first > 0 && first <= second, "times {first} and {second}");
    Ok(())
}

pub(super) fn waits(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = lab::bench(scene)?;
    bench.write_words(DATA, [0; 4])?;
    let data = bench.va(DATA as u64);
    let wait = Wait { address: data + 4, ..Wait::new_zeroed() };
    let stream = Stream::default().fill(data, 4, 1).put(wait, 3, &[]).fill(data + 8, 4, 2);
    bench.append(&stream)?;
    let value = bench.submit()?;
    // What is before the wait is executed while it waits.
    while bench.words(DATA, 1)? == [0] {
        std::thread::yield_now();
    }
    require!(bench.words(DATA + 8, 1)? == [0], "it did not wait");
    bench.write_words(DATA + 4, [3])?;
    bench.queue.progress_fence().poll(value, TIMEOUT)?;
    require!(bench.words(DATA + 8, 1)? == [2], "it did not go on");
    Ok(())
}

pub(super) fn malformed(scene: &Scene) -> Result<(), Mismatch> {
    let first = |bench: &Bench| Stream::default().fill(bench.va(DATA as u64), 64, 9);
    let offset = first(&prepare(scene)?).0.len() as u64;
    type Change = fn(&Bench, Stream) -> Stream;
    let cases: [(&str, Change); 6] = [
        ("an unknown command", |_, mut stream| {
            stream.0.extend_from_slice(&[0xEE, 0, 1, 0, 0, 0, 0, 0]);
            stream
        }),
        ("a command that ends early", |_, mut stream| {
            stream.0.extend_from_slice(&[2, 0, 2, 0, 0, 0, 0, 0]);
            stream
        }),
        ("a command without a length", |_, mut stream| {
            stream.0.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0]);
            stream
        }),
        ("too many sets", |_, stream| stream.put(Dispatch::new_zeroed(), 9, &[0; 72])),
        ("an address that is not aligned", |bench, stream| {
            stream.fill(bench.va(DATA as u64) + 2, 4, 0)
        }),
        ("a pipeline that is none", |bench, stream| {
            let dispatch = Dispatch { pipeline: bench.va(SET as u64), ..Dispatch::new_zeroed() };
            stream.put(dispatch, 0, &[])
        }),
    ];
    for (what, change) in cases {
        let mut bench = prepare(scene)?;
        bench.write_words(DATA, [0; 16])?;
        let stream = change(&bench, first(&bench));
        let seen = bench.expect_malformed(&stream, offset);
        seen.map_err(|mismatch| Mismatch::Seen(format!("{what}: {mismatch}")))?;
        require!(bench.words(DATA, 16)? == [0; 16], "{what}: what stands before it was executed");
    }
    for length in [4, (1 << 20) + 8] {
        let mut bench = prepare(scene)?;
        bench.commands.execute_commands(bench.va(STREAM as u64), length)?;
        bench.expect_fault(FaultReason::BAD_COMMANDS, length.into())?;
    }
    lab::bench(scene)?.expect_computes()
}

pub(super) fn faults(scene: &Scene) -> Result<(), Mismatch> {
    // The stream itself, beyond the memory.
    let mut bench = prepare(scene)?;
    let end = bench.memory.gpu_va() + bench.memory.size();
    bench.commands.execute_commands(end - 8, 16)?;
    bench.expect_fault(FaultReason::READ_PAGE_FAULT, end)?;
    // What a command writes.
    let mut bench = prepare(scene)?;
    bench.append(&Stream::default().fill(end, 4, 1))?;
    bench.expect_fault(FaultReason::WRITE_PAGE_FAULT, end)?;
    // What a descriptor covers.
    let mut bench = prepare(scene)?;
    let descriptor = Descriptor { address: end, length: 256, ..Descriptor::default() };
    bench.write(SET, descriptor.as_bytes())?;
    let stream = Stream::default().count(&bench, 1);
    bench.append(&stream)?;
    let submitted = bench.submit();
    match submitted.and_then(|value| bench.finish(value)) {
        Err(bellhop_guest_umd::Error::QueueLost { fault: Some(fault), .. }) => {
            let is_there = (end..end + 256).contains(&fault.address);
            require!(fault.reason.is_page_fault() && is_there, "{fault}, not at {end:#x}");
        }
        other => return Err(Mismatch::Seen(format!("it ended with {other:?}"))),
    }
    lab::bench(scene)?.expect_computes()
}

pub(super) fn hang(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = lab::bench(scene)?;
    let mut neighbour = lab::bench(scene)?;
    let kernel = neighbour.wgsl(INCREMENT)?;
    neighbour.write_words(0, [0; 1024])?;
    neighbour.dispatch_over(&kernel, 16, 0, 4096)?;
    bench.write_words(DATA, [0; 4])?;
    let data = bench.va(DATA as u64);
    let wait = Wait { address: data + 4, ..Wait::new_zeroed() };
    bench.append(&Stream::default().fill(data, 4, 1).put(wait, 3, &[]))?;
    let value = bench.queue.submit(&mut bench.commands)?;
    while bench.words(DATA, 1)? == [0] {
        std::thread::yield_now();
    }
    let value_there = neighbour.queue.submit(&mut neighbour.commands)?;
    neighbour.queue.progress_fence().poll(value_there, TIMEOUT)?;
    require!(neighbour.words(0, 1024)? == [1; 1024], "a neighbour's dispatch is missing");
    match bench.queue.progress_fence().poll(value, TIMEOUT) {
        Err(bellhop_guest_umd::Error::QueueLost { fault: Some(fault), .. }) => {
            require!(fault.reason == FaultReason::ENGINE_TIMEOUT, "{fault}");
        }
        other => return Err(Mismatch::Seen(format!("it ended with {other:?}"))),
    }
    neighbour.expect_computes()
}

pub(super) fn not_on_copy_nodes(scene: &Scene) -> Result<(), Mismatch> {
    lab::caps(scene)?;
    let mut bench = scene.bench_on(EngineType::COPY)?;
    bench.append(&Stream::default().barrier())?;
    let opcode = Opcode::EXECUTE_COMMANDS;
    bench.expect_fault(FaultReason::NOT_SUPPORTED_BY_NODE, opcode.0.into()).map(drop)
}
