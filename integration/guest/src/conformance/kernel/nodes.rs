// SPDX-License-Identifier: MIT OR Apache-2.0

//! Kernels and streams on Compute nodes, beside what the 3D node executes.

use super::commands::Stream;
use super::create::await_count;
use super::lab::{self, COUNT, INCREMENT};
use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::scene::{Bench, Scene, TIMEOUT};
use bellhop_guest_umd::protocol::vulkan::{Attachment, BeginRendering, EndRendering};
use bellhop_guest_umd::{Arguments, CommandBuffer, Error, UserModeQueue};
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::event::FaultReason;
use std::time::{Duration, Instant};
use zerocopy::{FromZeros, IntoBytes};

/// Where data is in the bench's memory.
const DATA: u64 = 131_072;

/// A bench on a Compute node of a device that runs kernels.
fn bench(scene: &Scene) -> Result<Bench, Mismatch> {
    lab::caps(scene)?;
    scene.bench_on(scene.compute_nodes()?)
}

pub(super) fn computes(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = bench(scene)?;
    let kernel = bench.wgsl(INCREMENT)?;
    bench.write_words(0, [0; 1024])?;
    for round in 1..=3 {
        bench.dispatch_over(&kernel, 16, 0, 4096)?;
        bench.run()?;
        require!(bench.words(0, 1024)? == [round; 1024], "round {round} is not what it makes");
    }
    let stream = Stream::default().fill(bench.va(8192), 4096, 7);
    bench.execute(&stream)?;
    require!(bench.words(8192, 1024)? == [7; 1024], "the stream was not executed");
    Ok(())
}

pub(super) fn does_not_draw(scene: &Scene) -> Result<(), Mismatch> {
    let fill = |bench: &Bench| Stream::default().fill(bench.va(DATA), 64, 9);
    let rendering = |stream: Stream| {
        let begin = BeginRendering { extent: [8; 2], layers: 1, ..BeginRendering::new_zeroed() };
        let nothing = [Attachment::NONE; 2];
        stream.put(begin, 0, nothing.as_bytes()).put(EndRendering::new_zeroed(), 0, &[])
    };
    // It is a stream, where there is drawing.
    let mut drawing = lab::bench(scene)?;
    let stream = rendering(fill(&drawing));
    match drawing.execute(&stream) {
        Ok(()) => {}
        Err(_) => return Err(Mismatch::NotOffered("the host's Vulkan does not draw".into())),
    }
    let mut bench = bench(scene)?;
    bench.write_words(DATA as usize, [0; 16])?;
    let before = fill(&bench);
    let offset = before.length();
    bench.expect_malformed(&rendering(before), offset)?;
    let words = bench.words(DATA as usize, 16)?;
    require!(words == [0; 16], "what stands before it was executed");
    bench_again(scene)
}

/// Another bench on the node computes.
fn bench_again(scene: &Scene) -> Result<(), Mismatch> {
    bench(scene)?.expect_computes()
}

/// One process, whose kernel runs without end on the Compute node, and a queue of it on the 3D node.
struct Apart {
    bench: Bench,
    endless: u64,
    other: UserModeQueue,
    /// Increments each of 1,024 words.
    frame: CommandBuffer,
}

impl Apart {
    fn begin(scene: &Scene) -> Result<Self, Mismatch> {
        let mut bench = bench(scene)?;
        let other = bench.queue_on(scene.node(EngineType::THREE_D)?)?;
        bench.write_words(0, [0; 4])?;
        bench.write_words(8192, [0; 1024])?;
        let increment = bench.wgsl(INCREMENT)?;
        let mut frame = CommandBuffer::new(&bench.device, 512)?;
        let mut arguments = Arguments::new();
        arguments.descriptor(bench.va(8192), 4096);
        frame.dispatch_kernel(&increment, [16, 1, 1], &arguments)?;
        let count = bench.wgsl(COUNT)?;
        bench.dispatch_over(&count, 1, 0, 8)?;
        let endless = bench.submit()?;
        await_count(&bench, 0)?;
        Ok(Self { bench, endless, other, frame })
    }

    /// Has a frame made, while the other node computes.
    fn make_frame(&mut self) -> Result<(), Error> {
        let value = self.other.submit(&mut self.frame)?;
        self.other.progress_fence().poll(value, TIMEOUT)
    }

    fn expect_frames(&self, frames: u32) -> Result<(), Mismatch> {
        let words = self.bench.words(8192, 1024)?;
        require!(words == [frames; 1024], "of {frames} frames the first word has {}", words[0]);
        Ok(())
    }
}

pub(super) fn beside_frames(scene: &Scene) -> Result<(), Mismatch> {
    const FRAMES: u32 = 20;
    let mut apart = Apart::begin(scene)?;
    for frame in 1..=FRAMES {
        apart.make_frame()?;
        apart.expect_frames(frame)?;
    }
    // It computed throughout, and ends now.
    match apart.bench.queue.progress_fence().poll(apart.endless, Duration::ZERO) {
        Err(Error::Timeout { .. }) => {}
        other => return Err(Mismatch::Seen(format!("it ended early, with {other:?}"))),
    }
    apart.bench.write_words(4, [1])?;
    apart.bench.queue.progress_fence().poll(apart.endless, TIMEOUT)?;
    Ok(())
}

pub(super) fn hang(scene: &Scene) -> Result<(), Mismatch> {
    let mut apart = Apart::begin(scene)?;
    let mut frames = 0;
    let start = Instant::now();
    let fault = loop {
        require!(start.elapsed() < TIMEOUT, "it is not ended after {frames} frames");
        apart.make_frame()?;
        frames += 1;
        match apart.bench.queue.progress_fence().poll(apart.endless, Duration::ZERO) {
            Err(Error::Timeout { .. }) => {}
            Err(Error::QueueLost { fault: Some(fault), .. }) => break fault,
            other => return Err(Mismatch::Seen(format!("it ended with {other:?}"))),
        }
    };
    require!(fault.reason == FaultReason::ENGINE_TIMEOUT, "{fault}");
    apart.make_frame()?;
    apart.expect_frames(frames + 1)?;
    scene.show(format!("{frames} frames of the same process meanwhile"));
    bench_again(scene)
}
