// SPDX-License-Identifier: MIT OR Apache-2.0

//! `doorbell.line.*`: the ring's newest packets in the doorbell's line, right and wrong.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::scene::{Bench, Scene, TIMEOUT};
use crate::conformance::source;
use bellhop_guest_umd::{CommandBuffer, Error, Fence};
use bellhop_protocol::features::Features;
use bellhop_protocol::handoff::doorbell_line::COPY_WORDS;
use bellhop_protocol::packet::fence::SignalFence;
use zerocopy::{IntoBytes, transmute};

pub(in crate::conformance) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new("doorbell.line.order", source::UM_DOORBELLS, order).shows(
        "submissions of any length, rung for one by one or several at once, run once each and in \
         order",
    ),
    Behaviour::new("doorbell.line.differs", source::UM_DOORBELLS, differs).shows(
        "of a ring and a line that differ, one is executed, and the queue goes on with what \
         follows",
    ),
    Behaviour::new("doorbell.line.stale", source::UM_DOORBELLS, stale).shows(
        "a copy that is not of the ring's newest packets is not executed: an old one, one that \
         does not fit, one ahead of the ring",
    ),
    Behaviour::new("doorbell.line.torn", source::UM_DOORBELLS, torn).shows(
        "a line with half a packet or none is worth no more than the ring, and costs its own \
         queue alone",
    ),
    Behaviour::new("doorbell.line.of-another", source::UM_DOORBELLS, of_another)
        .shows("a copy of another process's packets does nothing to that process"),
];

/// Words of a signal.
fn signal(fence: &Fence, value: u64) -> [u64; 2] {
    transmute!(SignalFence::new(fence.slot(), value))
}

/// The packets at the beginning of a line, and zeros.
fn line<const N: usize>(packets: [u64; N]) -> [u64; COPY_WORDS] {
    let mut line = [0; COPY_WORDS];
    line[..N].copy_from_slice(&packets);
    line
}

/// A bench whose doorbell is connected and has a line of its own.
fn bench(scene: &Scene) -> Result<Bench, Mismatch> {
    scene.needs(Features::DOORBELL_LINES)?;
    let mut bench = scene.bench()?;
    bench.commands.nop()?;
    bench.run()?;
    bench.commands.nop()?;
    Ok(bench)
}

/// Puts packets into the ring and rings with this line; then a submission follows, which this waits for.
fn ring_with(
    bench: &mut Bench,
    packets: &[u64],
    start: impl FnOnce(u64) -> u64,
    line: [u64; COPY_WORDS],
) -> Result<(), Error> {
    let position = bench.queue.ring_position();
    bench.queue.queue_raw(packets.as_bytes())?;
    // If the doorbell was disconnected meanwhile, the submission connects it and finds all in the ring.
    let rung = bench.queue.ring_with_line(start(position), line);
    rung.ok_or(Error::NotAvailable("a doorbell word of the queue's own"))?;
    let value = bench.queue.submit(&mut bench.commands)?;
    bench.queue.progress_fence().poll(value, TIMEOUT)
}

fn order(scene: &Scene) -> Result<(), Mismatch> {
    const MOST: u64 = 8;
    let mut bench = bench(scene)?;
    let fence = bench.device.create_fence(0)?;
    // Of one to eight packets of one word, and a signal that none of them may overtake.
    let buffers = |value: u64| -> Result<CommandBuffer, Error> {
        let mut commands = CommandBuffer::new(&bench.device, 256)?;
        for _ in 0..value % MOST {
            commands.nop()?;
        }
        commands.raw(signal(&fence, value).as_bytes())?;
        Ok(commands)
    };
    let mut all = (1..=200).map(buffers).collect::<Result<Vec<_>, _>>()?;
    let mut submitted = 0;
    for (commands, value) in all.iter_mut().zip(1u64..) {
        let is_rung = value % 3 != 0;
        let last =
            if is_rung { bench.queue.submit(commands)? } else { bench.queue.queue(commands)? };
        if is_rung && value % 5 == 0 {
            bench.queue.progress_fence().poll(last, TIMEOUT)?;
            let seen = fence.current_value()?;
            require!(seen == value, "after submission {value} the fence is at {seen}");
        }
        submitted = last;
    }
    bench.queue.ring()?;
    bench.queue.progress_fence().poll(submitted, TIMEOUT)?;
    let seen = fence.current_value()?;
    require!(seen == 200, "the fence is at {seen} of 200");
    Ok(())
}

fn differs(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = bench(scene)?;
    let fence = bench.device.create_fence(0)?;
    for round in (10..1000).step_by(10) {
        let (ring, copy) = (signal(&fence, round), line(signal(&fence, round + 1)));
        ring_with(&mut bench, &ring, |position| position, copy)?;
        let seen = fence.current_value()?;
        require!([round, round + 1].contains(&seen), "the fence is at {seen} after {round}");
    }
    Ok(())
}

fn stale(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = bench(scene)?;
    let (fence, never) = (bench.device.create_fence(0)?, bench.device.create_fence(0)?);
    let starts: [fn(u64) -> u64; 8] = [
        // Ahead of the engine, and where no packet begins.
        |position| position + 16,
        |position| position + 8,
        |position| position + 4,
        |position| position - 4,
        |_| u64::MAX,
        |_| 1 << 63,
        // So far back that the write pointer is behind what the line can hold.
        |position| position - 40,
        |_| 0,
    ];
    for (start, value) in starts.into_iter().zip(1..) {
        let [header, argument] = signal(&never, value);
        let copy = [header, argument, header, argument, header, argument];
        ring_with(&mut bench, &signal(&fence, value), start, copy)?;
        let seen = [fence.current_value()?, never.current_value()?];
        require!(seen == [value, 0], "the fences are at {seen:?} after {value}");
    }
    Ok(())
}

fn torn(scene: &Scene) -> Result<(), Mismatch> {
    let mut neighbour = scene.bench()?;
    let garbage = [0, 1, 0xFFFF_FFFF_FFFF_FFFF, 0x0001_0000_0000_0020, 0x0002_0001, 0x0002_0020];
    for first in garbage {
        let mut bench = bench(scene)?;
        let fence = bench.device.create_fence(0)?;
        let [header, value] = signal(&fence, 1);
        let copy = [header, value, first, garbage[2], first, header];
        let ring = [header, value, header, 2, header, 3];
        match ring_with(&mut bench, &ring, |position| position, copy) {
            Ok(()) => {
                let seen = fence.current_value()?;
                require!((1..=3).contains(&seen), "the fence is at {seen}");
            }
            Err(Error::QueueLost { .. }) => {}
            Err(other) => return Err(other.into()),
        }
        neighbour.commands.nop()?;
        neighbour.run()?;
    }
    Ok(())
}

fn of_another(scene: &Scene) -> Result<(), Mismatch> {
    let (mut bench, mut other) = (bench(scene)?, bench(scene)?);
    let before = other.queue.progress_fence().current_value()?;
    let copy = line(signal(other.queue.progress_fence(), before + 100));
    let nop = 0x0001_0000;
    let ended = ring_with(&mut bench, &[nop, nop], |position| position, copy);
    match ended {
        Ok(()) | Err(Error::QueueLost { .. }) => {}
        Err(other) => return Err(other.into()),
    }
    let seen = other.queue.progress_fence().current_value()?;
    require!(seen == before, "its progress fence went from {before} to {seen}");
    other.run()?;
    Ok(())
}
