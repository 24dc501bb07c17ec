// SPDX-License-Identifier: MIT OR Apache-2.0

//! `packet.*`: what packets do.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::scene::{Bench, MEMORY, Scene};
use crate::conformance::source;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::Opcode;
use bellhop_protocol::packet::dispatch::{Kernel, xor_stream};
use bellhop_protocol::packet::flow::{MAX_INDIRECT_DEPTH, NOP};
use bellhop_protocol::packet::surface::{StretchFilter, StretchRect};
use bellhop_protocol::packet::transfer::COMPARE_EQUAL;
use bellhop_protocol::pixel_format::PixelFormat;
use xxhash_rust::xxh64::xxh64;
use zerocopy::IntoBytes;

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new("packet.nop", source::KMD_RINGS, nop).shows("NOP does nothing, on every node"),
    Behaviour::new("packet.copy", source::PROTOCOL_PACKETS, copy)
        .shows("COPY copies exactly the range, whatever its alignment, across pages"),
    Behaviour::new("packet.fill", source::PROTOCOL_PACKETS, fill)
        .shows("FILL repeats its pattern over exactly the range"),
    Behaviour::new("packet.write-data", source::PROTOCOL_PACKETS, write_data)
        .shows("WRITE_DATA writes exactly the bytes that it carries, 1 to 256"),
    Behaviour::new("packet.compare", source::PROTOCOL_PACKETS, compare)
        .shows("COMPARE tells where ranges first differ, or that they are equal"),
    Behaviour::new("packet.hash", source::PROTOCOL_PACKETS, hash)
        .shows("HASH writes the XXH64 digest of any length, 0 included"),
    Behaviour::new("packet.timestamp", source::PROTOCOL_PACKETS, timestamp)
        .shows("TIMESTAMP writes a clock that never goes backwards"),
    Behaviour::new("packet.dispatch.xor-stream", source::PROTOCOL_PACKETS, xor)
        .shows("the 3D node runs its kernel, and running it twice gives the source back"),
    Behaviour::new("packet.compute-node", source::PROTOCOL_PACKETS, on_compute_node)
        .shows("a Compute node copies and runs the same kernel, and scales no pixels"),
    Behaviour::new("packet.indirect-buffer.nested", source::KMD_RINGS, nested)
        .shows("indirect buffers nest as deep as allowed, and execution continues behind each"),
    Behaviour::new("packet.order", source::KMD_RINGS, order)
        .shows("each packet sees what the packets before it wrote"),
];

/// Bytes without a pattern.
fn noise(length: usize) -> Vec<u8> {
    (0..length as u64).map(|index| xor_stream(7, index) as u8).collect()
}

fn nop(scene: &Scene) -> Result<(), Mismatch> {
    for engine_type in [EngineType::THREE_D, EngineType::COPY] {
        let mut bench = scene.bench_on(engine_type)?;
        bench.commands.nop()?.nop()?;
        bench.run()?;
    }
    Ok(())
}

fn copy(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench_on(EngineType::COPY)?;
    let source = noise(20_000);
    for (from, to, length) in [
        (0, 100_000, 20_000),
        (1, 100_003, 4097),
        (4095, 102_399, 2),
        (5, 99_999, 1),
        (7, 100_001, 0),
    ] {
        bench.write(0, &source)?;
        bench.write(90_000, &[0xEE; 40_000])?;
        bench.commands.copy(bench.va(from), bench.va(to), length)?;
        bench.run()?;
        let (from, to, length) = (from as usize, to as usize, length as usize);
        let copied = bench.read(to, length)?;
        require!(
            copied == source[from..from + length],
            "{length} bytes from {from} to {to} differ"
        );
        let before = bench.read(to - 1, 1)?;
        let behind = bench.read(to + length, 1)?;
        require!(before == [0xEE] && behind == [0xEE], "bytes beside the range were written");
    }
    Ok(())
}

fn fill(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    bench.write(0, &[0xEE; 12_000])?;
    bench.commands.fill(bench.va(4), 8200, 0x0403_0201)?;
    bench.run()?;
    let bytes = bench.read(0, 8300)?;
    require!(bytes[..4] == [0xEE; 4] && bytes[8204] == 0xEE, "bytes beside the range were written");
    let pattern = bytes[4..8204].chunks(4).all(|word| word == [1, 2, 3, 4]);
    require!(pattern, "the range does not hold the pattern");
    Ok(())
}

fn write_data(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let data = noise(256);
    for length in [1, 7, 8, 9, 255, 256] {
        bench.write(0, &[0xEE; 8192])?;
        // The range crosses a page's end.
        bench.commands.write_data(bench.va(4090), &data[..length])?;
        bench.run()?;
        let bytes = bench.read(4089, length + 2)?;
        require!(bytes[1..=length] == data[..length], "{length} bytes differ");
        require!(bytes[0] == 0xEE && bytes[length + 1] == 0xEE, "{length} bytes wrote more");
    }
    Ok(())
}

fn compare(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench_on(EngineType::COPY)?;
    let bytes = noise(50_000);
    bench.write(0, &bytes)?;
    bench.write(100_001, &bytes)?;
    let mut compared = |length: u64| {
        bench.commands.compare(bench.va(0), bench.va(100_001), length, bench.va(200_000))?;
        bench.run()?;
        bench.word(200_000)
    };
    let equal = compared(50_000)?;
    require!(equal == COMPARE_EQUAL, "equal ranges compare as {equal:#x}");
    let nothing = compared(0)?;
    require!(nothing == COMPARE_EQUAL, "empty ranges compare as {nothing:#x}");
    for place in [0u64, 4096, 33_333, 49_999] {
        let different = [!bytes[place as usize]];
        bench.write(100_001 + place as usize, &different)?;
        bench.commands.compare(bench.va(0), bench.va(100_001), 50_000, bench.va(200_000))?;
        bench.run()?;
        let result = bench.word(200_000)?;
        require!(result == place, "a difference at {place} was found at {result:#x}");
        bench.write(100_001 + place as usize, &[bytes[place as usize]])?;
    }
    Ok(())
}

fn hash(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let bytes = noise(70_000);
    bench.write(3, &bytes)?;
    for (length, seed) in [(0, 0), (1, 0), (31, 5), (32, 5), (4096, 1), (70_000, u64::MAX)] {
        bench.commands.hash(bench.va(3), length as u64, seed, bench.va(100_000))?;
        bench.run()?;
        let digest = bench.word(100_000)?;
        let expected = xxh64(&bytes[..length], seed);
        require!(digest == expected, "{length} bytes hash to {digest:#x}, not {expected:#x}");
    }
    Ok(())
}

fn timestamp(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let mut last = 0;
    for _ in 0..10 {
        let (first, second) = (bench.va(0), bench.va(8));
        bench.commands.timestamp(first)?.timestamp(second)?;
        bench.run()?;
        let (first, second) = (bench.word(0)?, bench.word(8)?);
        require!(last <= first && first <= second, "{last}, {first}, {second} ns");
        last = second;
    }
    require!(last > 0, "the clock stands at 0");
    Ok(())
}

fn xor(scene: &Scene) -> Result<(), Mismatch> {
    xor_on(scene.bench()?)
}

fn on_compute_node(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench_on(scene.compute_nodes()?)?;
    bench.write(0, &noise(64))?;
    bench.commands.copy(bench.va(0), bench.va(64), 64)?;
    bench.run()?;
    require!(bench.read(64, 64)? == noise(64), "the copy differs");
    xor_on(scene.bench_on(EngineType::COMPUTE)?)?;
    let (from, to) = ((bench.va(0), 16, [4, 4]), (bench.va(64), 16, [4, 4]));
    let packet = StretchRect::new(from, to, PixelFormat::A8R8G8B8, StretchFilter::NEAREST);
    bench.commands.stretch_rect(&packet)?;
    let opcode = u64::from(Opcode::STRETCH_RECT.0);
    bench.expect_fault(FaultReason::NOT_SUPPORTED_BY_NODE, opcode).map(drop)
}

fn xor_on(mut bench: Bench) -> Result<(), Mismatch> {
    let bytes = noise(MEMORY as usize / 4);
    let length = bytes.len() as u64;
    bench.write(0, &bytes)?;
    let (from, to) = (bench.va(0), bench.va(MEMORY / 2));
    bench.commands.dispatch(Kernel::XOR_STREAM, from, to, length, 99)?;
    bench.run()?;
    let made = bench.read(MEMORY as usize / 2, bytes.len())?;
    for (index, (made, word)) in made.chunks(8).zip(bytes.chunks(8)).enumerate() {
        let mask = xor_stream(99, index as u64).to_le_bytes();
        let right =
            made.iter().zip(word).zip(mask).all(|((made, byte), mask)| *made == byte ^ mask);
        require!(right, "word {index} is wrong");
    }
    bench.commands.dispatch(Kernel::XOR_STREAM, to, to, length, 99)?;
    bench.run()?;
    require!(bench.read(MEMORY as usize / 2, bytes.len())? == bytes, "twice is not the source");
    Ok(())
}

fn nested(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    // Buffer `level` writes its mark, executes the next, and writes another mark.
    let levels = MAX_INDIRECT_DEPTH - 1;
    let buffer_at = |level: usize| (level * 4096) as u64;
    let marks = 100_000;
    for level in 0..levels {
        let mut packets = Vec::new();
        let mark = |packets: &mut Vec<u8>, place: u64| {
            let to = bench.va(marks + 16 * level as u64 + place);
            packets.extend(bellhop_protocol::packet::transfer::Timestamp::new(to).as_bytes());
        };
        mark(&mut packets, 0);
        if level + 1 < levels {
            let inner = bellhop_protocol::packet::flow::IndirectBuffer::new(
                bench.va(buffer_at(level + 1)),
                if level + 2 < levels { 48 } else { 32 },
            );
            packets.extend(inner.as_bytes());
        }
        mark(&mut packets, 8);
        packets.extend(NOP.as_bytes());
        bench.write(buffer_at(level) as usize, &packets)?;
    }
    bench.commands.indirect_buffer(bench.va(0), if levels > 1 { 48 } else { 32 })?;
    bench.run()?;
    let mut entered = Vec::new();
    let mut left = Vec::new();
    for level in 0..levels {
        entered.push(bench.word(marks as usize + 16 * level)?);
        left.push(bench.word(marks as usize + 16 * level + 8)?);
    }
    left.reverse();
    let order = [entered, left].concat();
    require!(order[0] > 0 && order.is_sorted(), "entered and left at {order:?} ns");
    Ok(())
}

fn order(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    bench.write(0, &noise(64))?;
    for step in 0..50u64 {
        bench.commands.copy(bench.va(step * 64), bench.va((step + 1) * 64), 64)?;
    }
    bench.run()?;
    require!(bench.read(50 * 64, 64)? == noise(64), "a chain of copies lost its bytes");
    Ok(())
}
