// SPDX-License-Identifier: MIT OR Apache-2.0

//! What handing batches to a worker takes, counted and not timed, and how batches follow each other.

use super::*;

const STEP: &[u8] = include_bytes!("../../../../device/worker/kernels/step.spv");
const STREAM: &[u8] = include_bytes!("../../../../device/worker/kernels/stream.spv");
/// Bytes that a work group of `stream` covers: one page.
const GROUP: u64 = 256 * 16;
const AT: u64 = WINDOW.start + 0x20_0000_0000;

/// A dispatch of a kernel over pages from `AT` on: of one work group, or of one for each page.
fn over(kernel: u32, groups: u32, descriptors: &[[u64; 2]]) -> KernelDispatch<'_> {
    let groups = [groups, 1, 1];
    KernelDispatch { kernel, groups, barrier: true, push_constants: &[], descriptors }
}

/// A worker with `step` and `stream`, and so many pages.
fn ready(count: u64) -> Option<(Worker, Pages)> {
    assert_eq!(GROUP, PAGE);
    let (mut worker, mut pages) = (worker()?, Pages::new());
    for (number, spirv) in [(1, STEP), (2, STREAM)] {
        load_with(&mut worker, number, spirv, (0, 1), &[]);
        assert_eq!(next(&mut worker), Event::Loaded(number));
    }
    (0..count).for_each(|page| pages.add(AT + page * PAGE, true));
    Some((worker, pages))
}

/// A round trip between owner and worker costs what waking two threads costs, so one is all that a batch may take.
#[test]
fn a_batch_whose_memory_is_mapped_is_one_message_each_way() {
    let Some((mut worker, mut pages)) = ready(4) else { return };
    let (one, all) = ([[AT, PAGE]], [[AT, 4 * PAGE]]);
    let batches = [vec![over(1, 1, &one)], vec![over(1, 1, &one); 64], vec![over(2, 4, &all)]];
    for batch in &batches {
        pages.run_batch(&mut worker, batch).unwrap();
    }
    for _ in 0..100 {
        for batch in &batches {
            worker.dispatch(batch).unwrap();
            assert_eq!(next(&mut worker), Event::Done);
            assert_eq!(worker.next(Some(Duration::ZERO)).unwrap(), None);
        }
    }
}

/// Dispatches of one work group run elsewhere in the worker than those of several.
#[test]
fn batches_of_one_work_group_and_of_several_see_each_others_stores() {
    let Some((mut worker, mut pages)) = ready(4) else { return };
    let (one, all) = ([[AT, PAGE]], [[AT, 4 * PAGE]]);
    let mut expected = [0_u32; 2];
    for round in 0..100 {
        pages.run_batch(&mut worker, &vec![over(1, 1, &one); 1 + round % 3]).unwrap();
        pages.run_batch(&mut worker, &[over(2, 4, &all)]).unwrap();
        // The sequence of `step`, to which `stream` adds 1 as to all words.
        for _ in 0..1 + round % 3 {
            expected[0] = expected[0].wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        }
        expected = expected.map(|word| word.wrapping_add(1));
    }
    let words = pages.load(AT);
    assert_eq!([words as u32, (words >> 32) as u32], expected);
    assert_eq!(pages.load(AT + 4 * PAGE - 8) as u32, 100);
}

/// A kernel is forgotten wherever it ran.
#[test]
fn a_kernel_that_replaces_another_is_what_runs_whatever_the_number_of_work_groups() {
    let Some((mut worker, mut pages)) = ready(2) else { return };
    let (one, all) = ([[AT, PAGE]], [[AT, 2 * PAGE]]);
    pages.run_batch(&mut worker, &[over(2, 1, &one)]).unwrap();
    pages.run_batch(&mut worker, &[over(2, 2, &all)]).unwrap();
    assert_eq!([pages.load(AT) as u32, pages.load(AT + PAGE) as u32], [2, 1]);
    load_with(&mut worker, 2, STEP, (0, 1), &[]);
    assert_eq!(next(&mut worker), Event::Loaded(2));
    pages.run_batch(&mut worker, &[over(2, 1, &one)]).unwrap();
    let stepped = 2_u32.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    assert_eq!([pages.load(AT) as u32, pages.load(AT + 8) as u32], [stepped, 2]);
    worker.unload(2).unwrap();
    for groups in [1, 2] {
        worker.dispatch(&[over(2, groups, &all)]).unwrap();
        assert!(matches!(next(&mut worker), Event::NotDone(0, _)));
    }
}
