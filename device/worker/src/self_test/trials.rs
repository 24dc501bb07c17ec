// SPDX-License-Identifier: MIT OR Apache-2.0

//! Computations that test a device. The processor computes the expected results.

use super::kernels;
use crate::report::Limits;
use crate::vulkan::{Binding, Device, Dispatch, Kernel, Pages, Runner, Source, VulkanError};
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// A computation that a device must get right.
pub struct Trial {
    /// Its name in reports.
    pub what: &'static str,
    /// Runs it.
    pub run: fn(&Device<'_>, &Limits) -> Result<(), Wrong>,
}

/// Why a trial failed.
#[derive(Debug)]
pub enum Wrong {
    /// A Vulkan call failed.
    Vulkan(VulkanError),
    /// The result differs from the processor's, as this text says.
    Result(String),
}

/// The trials that every device must pass.
pub const ALL: &[Trial] = &[
    Trial { what: "a round trip without a copy", run: zero_copy },
    Trial { what: "a descriptor", run: descriptor },
    Trial { what: "a loop of 1,000,000 iterations", run: long_loop },
    Trial { what: "integers of 64 bits", run: integers },
];

/// The trial that only a driver on the processor can pass.
pub const POINTER: Trial = Trial { what: "pointers that no buffer covers", run: pointer };

/// Invocations in a work group, for kernels with more than one.
const GROUP: usize = 64;
/// The factor of `kernels/transform.comp`.
const FACTOR: u32 = 2_654_435_761;
/// Iterations of the loop: more than a 16-bit counter holds.
const ITERATIONS: u32 = 1_000_000;
/// Nodes of the list, each in pages of its own.
const NODES: usize = 16;

fn zero_copy(device: &Device<'_>, limits: &Limits) -> Result<(), Wrong> {
    let pages = Pages::new(1 << 16, alignment(limits));
    let all = (0, pages.length());
    transform(device, &pages, all, "memory that was not copied")
}

fn descriptor(device: &Device<'_>, limits: &Limits) -> Result<(), Wrong> {
    let pages = Pages::new(1 << 16, alignment(limits));
    let start = (limits.descriptor_alignment as usize).next_multiple_of(GROUP);
    transform(device, &pages, (start, 1000 * size_of::<u32>()), "the part that a descriptor names")
}

/// Transforms the part of these pages at this offset and of this length, both in bytes.
fn transform(
    device: &Device<'_>,
    pages: &Pages,
    (offset, length): (usize, usize),
    what: &str,
) -> Result<(), Wrong> {
    let before = |index: usize| (index as u32).wrapping_mul(0x9e37_79b9);
    for (index, word) in pages.words().iter().enumerate() {
        word.store(before(index), Ordering::Relaxed);
    }
    let memory = Rc::new(device.import(pages)?);
    let (begin, count) = (offset / size_of::<u32>(), length / size_of::<u32>());
    let binding = Binding { memory, offset: offset as u64, length: length as u64 };
    let words = kernels::TRANSFORM.words();
    let kernel = device.compile(&source(&words, 1, 0))?;
    run(device, kernel, &[binding], &[], [count.div_ceil(GROUP) as u32, 1, 1])?;
    for (index, word) in pages.words().iter().enumerate() {
        let expected = match index.checked_sub(begin).filter(|inside| *inside < count) {
            Some(inside) => {
                let shifted = before(index).wrapping_mul(FACTOR).wrapping_add(count as u32);
                shifted.wrapping_add(inside as u32)
            }
            None => before(index),
        };
        expect(what, index, expected, word.load(Ordering::Relaxed))?;
    }
    Ok(())
}

fn long_loop(device: &Device<'_>, limits: &Limits) -> Result<(), Wrong> {
    let pages = Pages::new(alignment(limits), alignment(limits));
    let [iterations, state, ..] = pages.words() else { unreachable!("a page has more words") };
    state.store(1, Ordering::Relaxed);
    let memory = Rc::new(device.import(&pages)?);
    let binding = Binding { memory, offset: 0, length: 8 };
    let words = kernels::LOOP.words();
    let kernel = device.compile(&source(&words, 1, 4))?;
    run(device, kernel, &[binding], &ITERATIONS.to_le_bytes(), [1, 1, 1])?;
    let iterations = iterations.load(Ordering::Relaxed);
    if iterations != ITERATIONS {
        let text = format!("a loop of {ITERATIONS} iterations ends after {iterations}");
        return Err(Wrong::Result(text));
    }
    let expected = (0..ITERATIONS).fold(1_u32, |x, _| {
        let x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        x ^ (x >> 15)
    });
    expect("a long loop", 0, expected, state.load(Ordering::Relaxed))
}

fn integers(device: &Device<'_>, limits: &Limits) -> Result<(), Wrong> {
    let pages = Pages::new(alignment(limits), alignment(limits));
    let values = &pages.double_words()[..GROUP];
    let before = |index: usize| (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for (index, value) in values.iter().enumerate() {
        value.store(before(index), Ordering::Relaxed);
    }
    let memory = Rc::new(device.import(&pages)?);
    let binding = Binding { memory, offset: 0, length: (GROUP * 8) as u64 };
    let words = kernels::INTEGERS.words();
    let kernel = device.compile(&source(&words, 1, 0))?;
    run(device, kernel, &[binding], &[], [1, 1, 1])?;
    for (index, value) in values.iter().enumerate() {
        expect("integers of 64 bits", index, mixed(before(index)), value.load(Ordering::Relaxed))?;
    }
    Ok(())
}

/// Computes what `kernels/integers.comp` does.
fn mixed(value: u64) -> u64 {
    let mut x =
        value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    x ^= x >> 33;
    x = (x << 7).wrapping_sub(x >> 57);
    if x.cast_signed() < -1_099_511_627_776 {
        x = x.wrapping_add(1_099_511_627_777);
    }
    x
}

fn pointer(device: &Device<'_>, limits: &Limits) -> Result<(), Wrong> {
    let nodes: Vec<_> =
        (0..NODES).map(|_| Pages::new(alignment(limits), alignment(limits))).collect();
    // Out of the order of their addresses.
    let order: Vec<_> = (0..NODES).map(|step| &nodes[step * 5 % NODES]).collect();
    for (step, node) in order.iter().enumerate() {
        let [next, value, ..] = node.double_words() else { unreachable!("a page has more") };
        next.store(order.get(step + 1).map_or(0, |next| next.address()), Ordering::Relaxed);
        value.store(step as u64 + 7, Ordering::Relaxed);
    }
    let words = kernels::POINTER.words();
    let kernel = device.compile(&source(&words, 0, 8))?;
    run(device, kernel, &[], &order[0].address().to_le_bytes(), [1, 1, 1])?;
    let mut place = 0_u64;
    for (step, node) in order.iter().enumerate() {
        place = place.wrapping_mul(3).wrapping_add(step as u64 + 7);
        expect("a list", step, place, node.double_words()[2].load(Ordering::Relaxed))?;
    }
    Ok(())
}

/// The alignment of imported memory: what the device asks for, but at least a page.
fn alignment(limits: &Limits) -> usize {
    (limits.import_alignment.unwrap_or_default() as usize).max(4096)
}

fn run<'d>(
    device: &'d Device<'d>,
    kernel: Kernel<'d>,
    bindings: &[Binding<'d>],
    push_constants: &[u8],
    groups: [u32; 3],
) -> Result<(), VulkanError> {
    let kernel = &kernel;
    let dispatch = Dispatch { kernel, bindings, push_constants, groups, barrier: false };
    Runner::new(device, 1)?.run(&dispatch)
}

fn source(spirv: &[u32], bindings: u32, push_constants: u32) -> Source<'_> {
    Source { spirv, entry_point: c"main", bindings, push_constants, constants: &[] }
}

fn expect<T: PartialEq + std::fmt::LowerHex>(
    what: &str,
    index: usize,
    expected: T,
    found: T,
) -> Result<(), Wrong> {
    if expected == found {
        return Ok(());
    }
    Err(Wrong::Result(format!("{what}: word {index} is {found:#x}, not {expected:#x}")))
}
