// SPDX-License-Identifier: MIT OR Apache-2.0

//! Copies, fills and updates.

use crate::case::{Case, case};
use crate::lab::{Lab, Outcome, module, same};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case("transfer.copy", "a copy moves its bytes and no others", copy),
    case("transfer.regions", "one copy moves several regions", regions),
    case("transfer.odd-bytes", "a copy begins and ends at any byte", odd_bytes),
    case("transfer.within", "a copy within a buffer moves what does not overlap", within),
    case("transfer.fill", "a fill stores a word over and over, to the buffer's end if asked", fill),
    case(
        "transfer.update",
        "an update stores bytes that the command carries, as they were when it was recorded",
        update,
    ),
    case("transfer.update-longest", "an update carries 65,536 bytes", update_longest),
    case("transfer.large", "16 MiB are copied to the last word", large),
    case("transfer.chain", "100 copies, each of what the one before made, arrive in order", chain),
    case(
        "transfer.thousand-regions",
        "one copy moves 1,000 regions of several sizes to where each belongs",
        thousand_regions,
    ),
    case(
        "transfer.single-words",
        "updates and fills of single words leave the words between them",
        single_words,
    ),
    case(
        "transfer.same-place",
        "of a fill, an update and a copy to one place, what is last behind a barrier stays",
        same_place,
    ),
    case(
        "transfer.around-a-dispatch",
        "copies, fills and updates before a dispatch and behind it are executed in their order",
        around_a_dispatch,
    ),
    case("transfer.other-family", "each family of queues copies and fills", other_family),
];

fn copy(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let numbers: Vec<u32> = (100..200).collect();
    let (from, to) = (gpu.buffer_of(&numbers)?, gpu.buffer_of(&[9; 100])?);
    gpu.run(|commands| {
        commands.copy(&from, &to, &[(10, 20, 30)]).barrier();
    })?;
    let mut expected = vec![9; 100];
    for (place, number) in expected.iter_mut().skip(20).zip(110..140) {
        *place = number;
    }
    same!(to.read(), expected);
    Ok(())
}

fn regions(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let numbers: Vec<u32> = (0..64).collect();
    let (from, to) = (gpu.buffer_of(&numbers)?, gpu.buffer(64)?);
    let backwards: Vec<_> = (0..64).map(|word| (word, 63 - word, 1)).collect();
    gpu.run(|commands| {
        commands.copy(&from, &to, &backwards).barrier();
    })?;
    same!(to.read(), numbers.iter().copied().rev().collect::<Vec<_>>());
    Ok(())
}

fn odd_bytes(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let from = gpu.buffer_of(&[0x0302_0100, 0x0706_0504, 0x0b0a_0908])?;
    let to = gpu.buffer_of(&[0xffff_ffff; 3])?;
    gpu.run(|commands| {
        commands.copy_bytes((&from, 1), (&to, 2), 7).barrier();
    })?;
    same!(to.read(), vec![0x0201_ffff, 0x0605_0403, 0xffff_ff07]);
    Ok(())
}

fn within(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let buffer = gpu.buffer_of(&(0..32).collect::<Vec<_>>())?;
    gpu.run(|commands| {
        commands.copy(&buffer, &buffer, &[(0, 16, 16)]).barrier();
    })?;
    same!(buffer.read(), (0..16).chain(0..16).collect::<Vec<u32>>());
    Ok(())
}

fn fill(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let buffer = gpu.buffer(10)?;
    gpu.run(|commands| {
        commands.fill(&buffer, 8, 12, 0x0102_0304).barrier();
        commands.fill(&buffer, 32, vk::WHOLE_SIZE, 7).barrier();
    })?;
    same!(buffer.read(), vec![0, 0, 0x0102_0304, 0x0102_0304, 0x0102_0304, 0, 0, 0, 7, 7]);
    Ok(())
}

fn update(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (queue, buffer) = (gpu.queue()?, gpu.buffer(4)?);
    let mut words = vec![1, 2];
    let commands = gpu.record(queue, |commands| {
        commands.update(&buffer, 4, &words).barrier();
    })?;
    words.fill(99);
    gpu.finish(queue, &[commands])?;
    same!(buffer.read(), vec![0, 1, 2, 0]);
    Ok(())
}

fn update_longest(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let words: Vec<u32> = (0..16384).map(|word| word * 7).collect();
    let buffer = gpu.buffer(16384 + 16384)?;
    gpu.run(|commands| {
        commands.update(&buffer, 0, &words).update(&buffer, 65536, &words).barrier();
    })?;
    same!(buffer.read(), [words.clone(), words].concat());
    Ok(())
}

fn large(lab: &Lab) -> Outcome {
    const WORDS: u32 = 4 << 20;
    let gpu = lab.gpu()?;
    let words: Vec<u32> = (0..WORDS).map(|word| word ^ 0x5555_0000).collect();
    let (from, between) = (gpu.buffer_of(&words)?, gpu.local(WORDS as usize)?);
    let to = gpu.buffer(WORDS as usize)?;
    gpu.run(|commands| {
        commands.copy(&from, &between, &[(0, 0, WORDS.into())]).barrier();
        commands.copy(&between, &to, &[(0, 0, WORDS.into())]).barrier();
    })?;
    crate::lab::require!(to.read() == words, "a word is wrong");
    Ok(())
}

fn chain(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let buffer = gpu.buffer(101)?;
    buffer.write(&[42]);
    gpu.run(|commands| {
        for word in 0..100 {
            commands.copy(&buffer, &buffer, &[(word, word + 1, 1)]).barrier();
        }
    })?;
    same!(buffer.read(), vec![42; 101]);
    Ok(())
}

fn thousand_regions(lab: &Lab) -> Outcome {
    const REGIONS: u64 = 1000;
    let gpu = lab.gpu()?;
    let numbers: Vec<u32> = (0..8 * REGIONS as u32).map(|word| word * 3 + 1).collect();
    let (from, to) = (gpu.buffer_of(&numbers)?, gpu.buffer(numbers.len())?);
    // As 7 and 1,000 have no common factor, each part is the goal of one region.
    let regions: Vec<_> = (0..REGIONS)
        .map(|region| (8 * region, 8 * (region * 7 % REGIONS), region % 8 + 1))
        .collect();
    gpu.run(|commands| {
        commands.copy(&from, &to, &regions).barrier();
    })?;
    let mut expected = vec![0; numbers.len()];
    for (from, to, words) in regions {
        let [from, to, words] = [from, to, words].map(|number| number as usize);
        expected[to..to + words].copy_from_slice(&numbers[from..from + words]);
    }
    same!(to.read(), expected);
    Ok(())
}

fn single_words(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let buffer = gpu.buffer_of(&[9; 96])?;
    gpu.run(|commands| {
        for word in (0..96).step_by(3) {
            commands.update(&buffer, 4 * word, &[word as u32 + 100]);
            commands.fill(&buffer, 4 * (word + 1), 4, word as u32 + 200);
        }
        commands.barrier();
    })?;
    let each = (0..96).step_by(3).flat_map(|word| [word + 100, word + 200, 9]);
    same!(buffer.read(), each.collect::<Vec<u32>>());
    Ok(())
}

fn same_place(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let from = gpu.buffer_of(&[31; 16])?;
    let to = [gpu.buffer(16)?, gpu.buffer(16)?, gpu.buffer(16)?];
    gpu.run(|commands| {
        for (number, to) in to.iter().enumerate() {
            for step in 0..20 {
                match (number + step) % 3 {
                    0 => commands.fill(to, 0, 64, step as u32),
                    1 => commands.update(to, 0, &[100 + step as u32; 16]),
                    _ => commands.copy(&from, to, &[(0, 0, 16)]),
                };
                commands.barrier();
            }
        }
    })?;
    same!(to.map(|to| to.read()), [vec![119; 16], vec![31; 16], vec![19; 16]]);
    Ok(())
}

fn around_a_dispatch(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let kernel = gpu.simple(module!("accumulate"), 1, 8)?;
    let (before, state, behind) = (gpu.buffer_of(&[4, 5])?, gpu.buffer(1)?, gpu.buffer(6)?);
    let set = gpu.set(&kernel, &[state])?;
    gpu.run(|commands| {
        commands.update(&before, 0, &[6]).fill(&behind, 0, vk::WHOLE_SIZE, 1).barrier();
        commands.copy(&before, &state, &[(0, 0, 1)]).barrier();
        commands.bind(&kernel).sets(&kernel, &[set]).push(&kernel, &[7, 0]);
        commands.dispatch(1, 1, 1).barrier();
        // The dispatch has read what is filled now.
        commands.copy(&state, &behind, &[(0, 1, 1)]).fill(&behind, 12, 4, 3).barrier();
        commands.update(&state, 0, &[8]).update(&behind, 16, &[9]).barrier();
    })?;
    same!((state.word(0), before.read()), (8, vec![6, 5]));
    same!(behind.read(), vec![1, 42, 1, 3, 9, 1]);
    Ok(())
}

fn other_family(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    for queue in gpu.queues() {
        let (from, to) = (gpu.buffer_of(&[1, 2, 3])?, gpu.buffer(6)?);
        let commands = gpu.record(*queue, |commands| {
            commands.copy(&from, &to, &[(0, 1, 3)]).fill(&to, 16, 8, 5).barrier();
        })?;
        gpu.finish(*queue, &[commands])?;
        same!(to.read(), vec![0, 1, 2, 3, 5, 5]);
    }
    Ok(())
}
