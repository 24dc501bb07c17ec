// SPDX-License-Identifier: MIT OR Apache-2.0

//! What kernels compute in a worker, compared with the processor. The compilers are those of other projects: Khronos's
//! glslang, and Slang's.

use super::*;

macro_rules! kernel {
    ($name:literal) => {
        include_bytes!(concat!("../../../../device/worker/kernels/", $name, ".spv"))
    };
}

/// Where the arrays are, far apart and not in the order of the memory behind them.
const ARRAYS: [u64; 3] =
    [WINDOW.start + 0x70_0000_0000, WINDOW.start + 0x10_0000_0000, WINDOW.start + 0x40_0000_0000];

/// Words that look random.
fn noise(count: usize) -> Vec<u32> {
    let mut state = 1_u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state ^ (state >> 15)
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// Adds pages with these words, from the first of a page on.
fn put(pages: &mut Pages, address: u64, words: &[u32]) {
    for page in 0..(words.len() as u64 * 4).div_ceil(PAGE) {
        pages.add(address + page * PAGE, true);
    }
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    pages.file.write_all_at(&bytes, pages.place(address)).unwrap();
}

fn get(pages: &Pages, address: u64, count: usize) -> Vec<u32> {
    let mut bytes = vec![0; count * 4];
    pages.file.read_exact_at(&mut bytes, pages.place(address)).unwrap();
    let (words, _) = bytes.as_chunks();
    words.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

/// A worker with one kernel, and arrays that are its descriptors.
struct Computing {
    worker: Worker,
    pages: Pages,
    descriptors: Vec<[u64; 2]>,
    lengths: Vec<usize>,
}

impl Computing {
    fn new(spirv: &[u8], push: u32, constants: &[[u32; 2]], arrays: &[&[u32]]) -> Option<Self> {
        let (mut worker, mut pages) = (worker()?, Pages::new());
        load_with(&mut worker, 1, spirv, (push, arrays.len() as u32), constants);
        assert_eq!(next(&mut worker), Event::Loaded(1));
        for (address, words) in ARRAYS.iter().zip(arrays) {
            put(&mut pages, *address, words);
        }
        let descriptors =
            ARRAYS.iter().zip(arrays).map(|(at, words)| [*at, words.len() as u64 * 4]).collect();
        let lengths = arrays.iter().map(|words| words.len()).collect();
        Some(Self { worker, pages, descriptors, lengths })
    }

    /// Runs a batch in which each dispatch waits for the one before it: work groups and push constants of each.
    fn run(&mut self, batch: &[([u32; 3], &[u8])]) {
        let batch: Vec<_> = batch
            .iter()
            .map(|(groups, push_constants)| KernelDispatch {
                kernel: 1,
                groups: *groups,
                barrier: true,
                push_constants,
                descriptors: &self.descriptors,
            })
            .collect();
        self.pages.run_batch(&mut self.worker, &batch).unwrap();
    }

    /// Returns an array's words.
    fn array(&self, index: usize) -> Vec<u32> {
        get(&self.pages, ARRAYS[index], self.lengths[index])
    }
}

fn pushed(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn a_histogram_counts_every_byte() {
    let words = noise(100_000);
    let mut expected = vec![0; 256];
    for byte in words.iter().flat_map(|word| word.to_le_bytes()) {
        expected[usize::from(byte)] += 1;
    }
    let Some(mut computing) = Computing::new(kernel!("histogram"), 4, &[], &[&words, &[0; 256]])
    else {
        return;
    };
    computing.run(&[([7, 1, 1], &pushed(&[words.len() as u32]))]);
    assert_eq!(computing.array(1), expected);
    assert_eq!(computing.array(0), words);
}

#[test]
fn a_reduction_sums_in_shared_memory() {
    let words = noise(10_000);
    let groups = words.len().div_ceil(128);
    let results = vec![0; groups * 2];
    let Some(mut computing) = Computing::new(kernel!("reduction"), 4, &[], &[&words, &results])
    else {
        return;
    };
    computing.run(&[([groups as u32, 1, 1], &pushed(&[words.len() as u32]))]);
    let expected: Vec<_> = words
        .chunks(128)
        .flat_map(|part| {
            let sum = part.iter().fold(0_u32, |sum, word| sum.wrapping_add(*word));
            [sum, part.iter().copied().max().unwrap_or_default()]
        })
        .collect();
    assert_eq!(computing.array(1), expected);
}

/// All steps for 1,024 words are one batch.
#[test]
fn a_bitonic_sort_is_one_batch_of_dispatches_that_depend_on_each_other() {
    let words = noise(1024);
    let Some(mut computing) = Computing::new(kernel!("sort"), 8, &[], &[&words]) else { return };
    let steps: Vec<_> = (1..=10_u32)
        .flat_map(|run| (0..run).rev().map(move |distance| pushed(&[1 << run, 1 << distance])))
        .collect();
    assert_eq!(steps.len(), 55);
    let batch: Vec<_> = steps.iter().map(|step| ([16, 1, 1], &step[..])).collect();
    computing.run(&batch);
    let mut expected = words;
    expected.sort_unstable();
    assert_eq!(computing.array(0), expected);
}

#[test]
fn a_product_of_matrices_goes_through_shared_tiles_and_barriers() {
    const SIZE: usize = 64;
    // Small integers, so that sums are exact in any order.
    let matrix = |seed: u32| -> Vec<f32> {
        let words = noise(SIZE * SIZE).into_iter();
        words.map(|word| ((word ^ seed) % 17) as f32 - 8.0).collect()
    };
    let bits = |matrix: &[f32]| matrix.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    let (left, right) = (matrix(5), matrix(0x55));
    let arrays: [&[u32]; 3] = [&bits(&left), &bits(&right), &vec![0; SIZE * SIZE]];
    let Some(mut computing) = Computing::new(kernel!("matrix"), 4, &[], &arrays) else { return };
    let groups = SIZE as u32 / 16;
    computing.run(&[([groups, groups, 1], &pushed(&[SIZE as u32]))]);
    let expected: Vec<_> = (0..SIZE * SIZE)
        .map(|at| {
            let (row, column) = (at / SIZE, at % SIZE);
            (0..SIZE).map(|k| left[row * SIZE + k] * right[k * SIZE + column]).sum()
        })
        .collect();
    assert_eq!(computing.array(2), bits(&expected));
}

#[test]
fn pointers_are_chased_through_scattered_pages() {
    const NODES: u64 = 300;
    let (Some(mut worker), mut pages) = (worker(), Pages::new()) else { return };
    let node = |index: u64| WINDOW.start + 0x1_0000_0000 + index % NODES * 0x123_1000 + 24;
    (0..NODES).for_each(|index| pages.add(node(index) & !(PAGE - 1), true));
    // One circle through all nodes, in another order than that of their addresses.
    (0..NODES).for_each(|index| pages.store(node(index), node(index + 77)));
    let starts = WINDOW.start + 0x5000;
    pages.add(starts, true);
    (0..32).for_each(|list| pages.store(starts + list * 8, node(list * 9)));
    load(&mut worker, 1, kernel!("chase"), 16, &[]);
    let steps = 1000;
    pages.run(&mut worker, 1, 1, &words(&[starts, steps])).unwrap();
    for list in 0..32 {
        assert_eq!(pages.load(starts + list * 8), node(list * 9 + steps * 77), "{list}");
    }
}

#[test]
fn atomic_operations_lose_no_update() {
    const COUNT: u32 = 64 * 50;
    let before = [0, u32::MAX, 0, 0, u32::MAX, 0, 0, 0];
    let Some(mut computing) = Computing::new(kernel!("atomics"), 8, &[], &[&before]) else {
        return;
    };
    let counter = WINDOW.start + 0x9000;
    computing.pages.add(counter, true);
    computing.run(&[([COUNT / 64, 1, 1], &words(&[counter]))]);
    let mixed: Vec<_> = (0..COUNT).map(|index| index.wrapping_mul(2_654_435_761)).collect();
    let found = computing.array(0);
    let expected = [
        (0..COUNT).sum(),
        mixed.iter().copied().min().unwrap(),
        mixed.iter().copied().max().unwrap(),
        0xffff,
        !0xff,
        mixed.iter().fold(0, |all, word| all ^ word),
    ];
    assert_eq!(found[..6], expected);
    assert!((0x8000_0000..0x8000_0000 + COUNT).contains(&found[6]), "{:#x}", found[6]);
    assert_eq!(found[7], COUNT * 3);
    let sum: u64 = mixed.iter().map(|word| u64::from(*word) << 16).sum();
    assert_eq!(computing.pages.load(counter), sum);
}

#[test]
fn integers_of_64_bits_are_whole() {
    let values: Vec<u64> = (0..64).map(|at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let halves = |values: &[u64]| {
        values.iter().flat_map(|value| [*value as u32, (value >> 32) as u32]).collect::<Vec<_>>()
    };
    let before = halves(&values);
    let Some(mut computing) = Computing::new(kernel!("integers"), 0, &[], &[&before]) else {
        return;
    };
    computing.run(&[([1, 1, 1], &[])]);
    let expected: Vec<_> = values
        .iter()
        .map(|value| {
            let mut x = value
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            x ^= x >> 33;
            x = (x << 7).wrapping_sub(x >> 57);
            if x.cast_signed() < -1_099_511_627_776 { x.wrapping_add(1_099_511_627_777) } else { x }
        })
        .collect();
    assert_eq!(computing.array(0), halves(&expected));
}

#[test]
fn specialisation_constants_of_each_type_reach_a_kernel_and_give_a_work_group_its_size() {
    let from = noise(96);
    let constants = [[0, 32], [1, 7], [2, 5_u32.wrapping_neg()], [3, 2.5_f32.to_bits()], [4, 1]];
    let arrays: [&[u32]; 3] = [&from, &[0; 96], &[0; 96]];
    let Some(mut computing) = Computing::new(kernel!("constants"), 0, &constants, &arrays) else {
        return;
    };
    computing.run(&[([3, 1, 1], &[])]);
    let expected: Vec<_> =
        from.iter().map(|word| !word.wrapping_mul(7).wrapping_sub(5) ^ (32 << 24)).collect();
    assert_eq!(computing.array(1), expected);
    let scaled: Vec<_> = (0..96_u16).map(|at| (f32::from(at) * 2.5).to_bits()).collect();
    assert_eq!(computing.array(2), scaled);
}

#[test]
fn a_stream_over_many_pages_and_a_dispatch_of_nothing_leave_no_word_out() {
    const WORDS: usize = 1 << 20;
    let words = noise(WORDS);
    let Some(mut computing) = Computing::new(kernel!("stream"), 0, &[], &[&words]) else { return };
    // No work group at all is a dispatch like any other.
    let none: ([u32; 3], &[u8]) = ([0, 1, 1], &[]);
    computing.run(&[none, ([WORDS as u32 / 1024, 1, 1], &[]), none]);
    let expected: Vec<_> = words.iter().map(|word| word.wrapping_add(1)).collect();
    assert_eq!(computing.array(0), expected);
    load(&mut computing.worker, 2, kernel!("null"), 0, &[]);
    computing.pages.run(&mut computing.worker, 2, 1, &[]).unwrap();
    assert_eq!(computing.array(0), expected);
}

/// Slang calls a function for each use of a generic one, and mixes descriptors with pointers.
#[test]
fn a_module_of_slang_s_compiler_scans_through_a_descriptor_and_a_pointer() {
    let words = noise(1000);
    let Some(mut computing) = Computing::new(kernel!("scan"), 16, &[], &[&words]) else { return };
    let maxima = ARRAYS[1];
    put(&mut computing.pages, maxima, &vec![0; words.len()]);
    let count = words.len() as u32;
    let arguments = pushed(&[count, 0, maxima as u32, (maxima >> 32) as u32]);
    computing.run(&[([count.div_ceil(64), 1, 1], &arguments)]);
    let scanned = |combine: fn(u32, u32) -> u32| -> Vec<u32> {
        let scan = |group: &[u32]| {
            let scan = group.iter().scan(0, move |all, word| {
                *all = combine(*all, *word);
                Some(*all)
            });
            scan.collect::<Vec<_>>()
        };
        words.chunks(64).flat_map(scan).collect()
    };
    assert_eq!(computing.array(0), scanned(u32::wrapping_add));
    assert_eq!(get(&computing.pages, maxima, words.len()), scanned(u32::max));
}
