// SPDX-License-Identifier: MIT OR Apache-2.0

//! Memory: types, mappings, parts, addresses.

use crate::case::{Case, case};
use crate::lab::{Failure, Lab, Outcome, module, require, same};
use ash::vk;
use std::sync::atomic::Ordering;

pub(super) const CASES: &[Case] = &[
    case(
        "memory.stays",
        "what the processor stores is there after the mapping ended and began again",
        stays,
    ),
    case(
        "memory.each-type",
        "a buffer in each type of memory that it may be in is copied from and to",
        each_type,
    ),
    case(
        "memory.several-in-one",
        "buffers in parts of one memory do not touch each other",
        several_in_one,
    ),
    case("memory.large", "64 MiB are filled to the last word", large),
    case("memory.many", "512 allocations at once hold what each was given", many),
    case(
        "memory.freed-comes-again",
        "2 GiB are allocated, 32 MiB after 32 MiB, and given back each time",
        freed_comes_again,
    ),
    case(
        "memory.too-much",
        "an allocation beyond the heap is refused with a reason, and others still work",
        too_much,
    ),
    case(
        "memory.to-the-limit",
        "memory is given out until there is no more, and as much again once it was given back",
        to_the_limit,
    ),
    case(
        "memory.address",
        "a buffer's address is that of the memory, and a shader reads and writes by it",
        address,
    ),
    case("memory.addresses-apart", "no two buffers overlap by their addresses", addresses_apart),
    case(
        "memory.seen-while-executing",
        "the processor sees a value while later commands still execute",
        seen_while_executing,
    ),
];

fn stays(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (_, needs) = gpu.bare_buffer(4096)?;
    let visible = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
    let memory = gpu.allocate(4096, gpu.memory_type(needs.memory_type_bits, visible)?)?;
    gpu.while_mapped(memory, 4096, |words| {
        (0..).zip(words).for_each(|(number, word)| word.store(number * 3, Ordering::Relaxed));
    })?;
    let seen: Vec<u32> = gpu.while_mapped(memory, 4096, |words| {
        words.iter().map(|word| word.load(Ordering::Relaxed)).collect()
    })?;
    same!(seen, (0..1024).map(|number| number * 3).collect::<Vec<u32>>());
    Ok(())
}

fn each_type(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (_, needs) = gpu.bare_buffer(256)?;
    let (from, to) = (gpu.buffer_of(&[0x1234_5678; 64])?, gpu.buffer(64)?);
    let mut tried = 0;
    for index in (0..32).filter(|index| needs.memory_type_bits & (1 << index) != 0) {
        to.write(&[0; 64]);
        let between = gpu.buffer_of_type(64, index)?;
        gpu.run(|commands| {
            commands.copy(&from, &between, &[(0, 0, 64)]).barrier();
            commands.copy(&between, &to, &[(0, 0, 64)]).barrier();
        })?;
        same!(to.read(), vec![0x1234_5678; 64]);
        tried += 1;
    }
    require!(tried > 0, "a buffer may be in no memory");
    Ok(())
}

fn several_in_one(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (_, needs) = gpu.bare_buffer(256)?;
    let visible = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
    let stride = needs.size.next_multiple_of(needs.alignment);
    let index = gpu.memory_type(needs.memory_type_bits, visible)?;
    let memory = gpu.allocate(stride * 16, index)?;
    let words = gpu.map(memory, stride * 16)?;
    words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    let mut parts = Vec::new();
    for number in 0..16 {
        let (raw, _) = gpu.bare_buffer(256)?;
        let start = (number * stride / 4) as usize;
        let seen = words.get(start..start + 64).unwrap_or_default();
        parts.push(gpu.bind((raw, 256), memory, number * stride, seen)?);
    }
    gpu.run(|commands| {
        for (number, part) in (1..).zip(&parts) {
            commands.fill(part, 0, vk::WHOLE_SIZE, number);
        }
        commands.barrier();
    })?;
    for (number, part) in (1u32..).zip(&parts) {
        same!(part.read(), vec![number; 64]);
        same!(
            part.address,
            parts.first().map_or(0, |part| part.address) + u64::from(number - 1) * stride
        );
    }
    Ok(())
}

fn large(lab: &Lab) -> Outcome {
    const WORDS: usize = 16 << 20;
    let gpu = lab.gpu()?;
    let buffer = gpu.buffer_with(WORDS, vk::MemoryPropertyFlags::HOST_VISIBLE)?;
    gpu.run(|commands| {
        commands.fill(&buffer, 0, vk::WHOLE_SIZE, 0x5a5a_a5a5).barrier();
    })?;
    require!(
        buffer.words.iter().all(|word| word.load(Ordering::Relaxed) == 0x5a5a_a5a5),
        "a word is missing"
    );
    Ok(())
}

fn many(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let buffers: Outcome<Vec<_>> = (0..512).map(|number| gpu.buffer_of(&[number; 16])).collect();
    let buffers = buffers?;
    let all = gpu.buffer(512)?;
    gpu.run(|commands| {
        for (number, buffer) in (0..).zip(&buffers) {
            commands.copy(buffer, &all, &[(15, number, 1)]);
        }
        commands.barrier();
    })?;
    same!(all.read(), (0..512).collect::<Vec<u32>>());
    Ok(())
}

fn freed_comes_again(lab: &Lab) -> Outcome {
    const WORDS: u64 = 8 << 20;
    let gpu = lab.gpu()?;
    let seen = gpu.buffer(1)?;
    for round in 0..64 {
        gpu.with_short_lived(WORDS * 4, |buffer| {
            gpu.run(|commands| {
                commands.fill(buffer, 0, vk::WHOLE_SIZE, round).barrier();
                commands.copy(buffer, &seen, &[(WORDS - 1, 0, 1)]).barrier();
            })
        })?;
        same!(seen.word(0), round);
    }
    Ok(())
}

fn too_much(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let memory = lab.memory();
    let kind = memory.memory_types_as_slice().first().copied().unwrap_or_default();
    let heaps = memory.memory_heaps_as_slice();
    let heap = heaps.get(kind.heap_index as usize).copied().unwrap_or_default();
    let wanted = heap.size;
    // A valid program asks for no more at once than the heap has, and this one for twice as much.
    let _first = gpu.allocate(wanted, 0);
    match gpu.allocate(wanted, 0) {
        Err(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY) => {}
        // A processor's driver may promise more than there is.
        Ok(_) if !lab.is_bellhop() => {}
        other => return Err(Failure::seen(format!("{wanted} bytes: {other:?}"))),
    }
    let buffer = gpu.buffer(16)?;
    gpu.run(|commands| {
        commands.fill(&buffer, 0, vk::WHOLE_SIZE, 3).barrier();
    })?;
    same!(buffer.read(), vec![3; 16]);
    Ok(())
}

fn to_the_limit(lab: &Lab) -> Outcome {
    const PIECE: u64 = 4 << 20;
    let memory = lab.memory();
    let kind = memory.memory_types_as_slice().first().copied().unwrap_or_default();
    let heaps = memory.memory_heaps_as_slice();
    let heap = heaps.get(kind.heap_index as usize).copied().unwrap_or_default();
    if heap.size > 4 << 30 {
        return Err(Failure::not_offered("the heap is most of the machine's memory"));
    }
    let fill = || -> Outcome<u64> {
        let gpu = lab.gpu()?;
        let mut pieces = 0;
        loop {
            match gpu.allocate(PIECE, 0) {
                Ok(_) => pieces += 1,
                Err(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY) => return Ok(pieces),
                Err(other) => return Err(other.into()),
            }
        }
    };
    let first = fill()?;
    require!(first * PIECE > heap.size / 2, "{first} pieces of a heap of {} bytes", heap.size);
    same!(fill()?, first);
    Ok(())
}

/// The push constants of `address.comp`.
fn reversal(from: u64, to: u64, count: u32) -> [u32; 5] {
    let halves = |address: u64| [address as u32, (address >> 32) as u32];
    let ([from_low, from_high], [to_low, to_high]) = (halves(from), halves(to));
    [from_low, from_high, to_low, to_high, count]
}

fn address(lab: &Lab) -> Outcome {
    lab.needs_addresses()?;
    let gpu = lab.gpu()?;
    let kernel = gpu.simple(module!("address"), 0, 20)?;
    let numbers: Vec<u32> = (0..1000).collect();
    let (from, to) = (gpu.buffer_of(&numbers)?, gpu.buffer(1000)?);
    require!(from.address != 0 && to.address != 0, "an address is zero");
    gpu.run(|commands| {
        commands.bind(&kernel).push(&kernel, &reversal(from.address, to.address, 1000));
        commands.dispatch(32, 1, 1).barrier();
    })?;
    same!(to.read(), numbers.iter().copied().rev().collect::<Vec<_>>());
    // Addresses may be computed with.
    gpu.run(|commands| {
        let arguments = reversal(from.address + 4 * 10, to.address + 4 * 100, 5);
        commands.push(&kernel, &arguments).bind(&kernel).dispatch(1, 1, 1).barrier();
    })?;
    same!(to.read().get(100..105).unwrap_or_default(), [14, 13, 12, 11, 10]);
    Ok(())
}

fn addresses_apart(lab: &Lab) -> Outcome {
    lab.needs_addresses()?;
    let gpu = lab.gpu()?;
    let mut ranges = Vec::new();
    for words in [1, 3, 64, 5000, 100_000] {
        for _ in 0..8 {
            let buffer = gpu.buffer(words)?;
            ranges.push((buffer.address, buffer.address + buffer.size));
        }
    }
    ranges.sort_unstable();
    let overlap = ranges.array_windows().find(|[one, two]| one.1 > two.0);
    require!(overlap.is_none(), "{overlap:x?}");
    Ok(())
}

fn seen_while_executing(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let queue = gpu.queue()?;
    let (timeline, gate) = (gpu.timeline(0)?, gpu.timeline(0)?);
    let buffer = gpu.buffer(2)?;
    let store = gpu.record(queue, |commands| {
        commands.update(&buffer, 0, &[77]).barrier();
    })?;
    let late = gpu.record(queue, |commands| {
        commands.update(&buffer, 4, &[88]).barrier();
    })?;
    use crate::lab::{At, PATIENCE, Submit};
    let first = Submit { wait: &[], commands: &[store], signal: &[At(timeline, 1)] };
    let second = Submit { wait: &[At(gate, 1)], commands: &[late], signal: &[At(timeline, 2)] };
    gpu.submit(queue, &[first, second], vk::Fence::null())?;
    gpu.wait_for(&[At(timeline, 1)], true, PATIENCE)?;
    same!(buffer.read(), vec![77, 0]);
    gpu.signal(At(gate, 1))?;
    gpu.wait_for(&[At(timeline, 2)], true, PATIENCE)?;
    same!(buffer.read(), vec![77, 88]);
    Ok(())
}
