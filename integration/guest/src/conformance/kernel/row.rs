// SPDX-License-Identifier: MIT OR Apache-2.0

//! Streams of commands that are submitted before the one in front of them is done.

use super::commands::{DATA, Stream, prepare, put_pipeline_at};
use super::lab::LOOP;
use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::scene::{Bench, Scene, TIMEOUT};
use bellhop_guest_umd::protocol::vulkan::{Copy, Wait};
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::event::FaultReason;
use zerocopy::FromZeros;

/// Bytes from a stream to the next.
const STREAM: usize = 512;
/// Where the first stream waits: for this word to become 1.
const GATE: usize = DATA + 8192;
/// Where the first stream says that it has begun.
const BEGUN: usize = GATE + 4;
/// Submissions of another node's that pass before the gate opens. Meanwhile the engine looks for what comes next.
const PASSED: u32 = 200;

/// A stream that begins, and waits at the gate.
fn first(bench: &Bench) -> Stream {
    let wait = Wait { address: bench.va(GATE as u64), ..Wait::new_zeroed() };
    Stream::default().fill(bench.va(BEGUN as u64), 4, 1).put(wait, 1, &[])
}

/// Submits streams one by one, and opens the gate when the first has begun and some time has passed. Returns the last one's value.
fn submit(scene: &Scene, bench: &mut Bench, streams: &[Stream]) -> Result<u64, Mismatch> {
    let mut elsewhere = scene.bench_on(EngineType::COPY)?;
    bench.write_words(GATE, [0; 2])?;
    let mut last = 0;
    for (number, stream) in streams.iter().enumerate() {
        let place = number * STREAM;
        bench.write(place, stream.bytes())?;
        bench.commands.reset();
        bench.commands.execute_commands(bench.va(place as u64), stream.length() as u32)?;
        last = bench.queue.submit(&mut bench.commands)?;
    }
    while bench.words(BEGUN, 1)? == [0] {
        std::thread::yield_now();
    }
    for _ in 0..PASSED {
        elsewhere.commands.reset();
        elsewhere.commands.fill(elsewhere.va(0), 4, 1)?;
        elsewhere.run()?;
    }
    bench.write_words(GATE, [1])?;
    Ok(last)
}

pub(super) fn in_a_row(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = prepare(scene)?;
    let data = bench.va(DATA as u64);
    bench.write_words(DATA, [0; 16])?;
    let mut streams = vec![first(&bench)];
    // Each keeps what the one before it left. Two lack a pipeline each, and the others are done at once.
    for number in 0..6 {
        let destination = data + 4096 + 4 * number;
        let keep = Copy { source: data, destination, length: 4, ..Copy::new_zeroed() };
        let stream = Stream::default().put(keep, 0, &[]).barrier();
        let at = 4096 + 16_384 * (number as usize / 3);
        streams.push(if number % 3 == 0 {
            put_pipeline_at(&bench, at, 10 + number, &LOOP)?;
            stream.count_by(&bench, at as u64, 100 + number as u32)
        } else {
            stream.fill(data, 4, 100 + number as u32)
        });
    }
    let last = submit(scene, &mut bench, &streams)?;
    bench.queue.progress_fence().poll(last, TIMEOUT)?;
    let seen = bench.words(DATA + 4096, 6)?;
    require!(seen == [0, 100, 101, 102, 103, 104], "they found {seen:?}");
    require!(bench.words(DATA, 1)? == [105], "the last one was not executed");
    Ok(())
}

pub(super) fn behind_a_fault(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = prepare(scene)?;
    let end = bench.memory.gpu_va() + bench.memory.size();
    bench.write_words(DATA, [0; 16])?;
    // Its last command reaches memory that is not there, when the ones before it are done.
    let streams =
        [first(&bench).fill(end, 4, 1), Stream::default().fill(bench.va(DATA as u64), 64, 7)];
    let last = submit(scene, &mut bench, &streams)?;
    let ended = bench.finish(last);
    bench.expect_lost(ended, FaultReason::WRITE_PAGE_FAULT, end)?;
    require!(bench.words(DATA, 16)? == [0; 16], "what was behind the fault was executed");
    Ok(())
}
