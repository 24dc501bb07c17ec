// SPDX-License-Identifier: MIT OR Apache-2.0

//! Kernels in a worker: real processes, a real Vulkan, and this process as the owner that answers page faults.

mod computing;
mod confinement;
mod drawing;
mod handing_over;
mod streams;

use crate::support::kernels::HOW;
use crate::support::{await_that, bellhop, is_here, skip};
use bellhop_vm::{Mesa, Sources};
use bellhop_worker::owner::{
    Event, Fault, KernelDispatch, Memory, Module, Options, Role, Worker, WorkerError,
};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::AsFd;
use rustix::fs::{MemfdFlags, memfd_create};
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// GPU virtual addresses that the worker's process leaves free.
const WINDOW: Range<u64> = 0x10_0000_0000..0x110_0000_0000;
const PAGE: u64 = 4096;
const SCATTER: &[u8] = include_bytes!("../../../device/worker/kernels/scatter.spv");
const TOUCH: &[u8] = include_bytes!("../../../device/worker/kernels/touch.spv");
const TRANSFORM: &[u8] = include_bytes!("../../../device/worker/kernels/transform.spv");
const SPIN: &[u8] = include_bytes!("../../../device/worker/kernels/spin.spv");

/// How long a step may take before the test fails.
const PATIENCE: Duration = crate::support::TIMEOUT;

/// Returns the command that starts a worker with a correct Vulkan, or `None` if there is no such Vulkan.
fn command() -> Option<Command> {
    let vulkan = match bellhop_vm::fetch_vulkan(Mesa::Debian13, &Sources::default()) {
        Ok(vulkan) => vulkan,
        Err(error) => {
            let why = format!("there is no Vulkan to run kernels with: {error:#}");
            skip(&why, "no kernel is run", HOW);
            return None;
        }
    };
    let mut command = vulkan.command(Path::new(bellhop().get_program()));
    command.args(["worker", "--"]);
    Some(command)
}

fn worker() -> Option<Worker> {
    let worker = Worker::start(command()?, &options()).unwrap();
    assert!(worker.has_pointers() && !worker.needs_memory_first());
    Some(worker)
}

fn options() -> Options {
    Options {
        role: Role::Kernels,
        window: WINDOW,
        memory: 1 << 30,
        device: 0,
        threads: 2,
        samples: 0,
    }
}

/// A dispatch of a kernel without descriptors.
fn one(kernel: u32, groups: u32, push_constants: &[u8]) -> KernelDispatch<'_> {
    let groups = [groups, 1, 1];
    KernelDispatch { kernel, groups, barrier: false, push_constants, descriptors: &[] }
}

/// Creates a file in memory.
fn file(content: &[u8]) -> File {
    let file = File::from(memfd_create("test", MemfdFlags::CLOEXEC).unwrap());
    file.write_all_at(content, 0).unwrap();
    file
}

/// A guest process's pages, in one file.
struct Pages {
    file: File,
    /// By address: the page's offset in the file, and whether it is writable.
    at: BTreeMap<u64, (u64, bool)>,
    /// The faults so far: address, and whether the access was a store.
    faults: Vec<(u64, bool)>,
}

impl Pages {
    fn new() -> Self {
        Self { file: file(&[]), at: BTreeMap::new(), faults: Vec::new() }
    }

    /// Adds a zeroed page.
    fn add(&mut self, address: u64, writable: bool) {
        let offset = self.at.len() as u64 * PAGE;
        self.file.set_len(offset + PAGE).unwrap();
        assert!(self.at.insert(address, (offset, writable)).is_none());
    }

    fn place(&self, address: u64) -> u64 {
        self.at[&(address & !(PAGE - 1))].0 + address % PAGE
    }

    fn load(&self, address: u64) -> u64 {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, self.place(address)).unwrap();
        u64::from_le_bytes(bytes)
    }

    fn store(&self, address: u64, value: u64) {
        self.file.write_all_at(&value.to_le_bytes(), self.place(address)).unwrap();
    }

    /// Answers a fault. Fails with the fault if there is no such page, or it is read-only and the access a store.
    fn answer(&mut self, worker: &mut Worker, fault: Fault) -> Result<(), Fault> {
        let address = fault.address & !(PAGE - 1);
        self.faults.push((fault.address, fault.store));
        let (offset, writable) = match self.at.get(&address) {
            Some(entry) if entry.1 || !fault.store => *entry,
            _ => return Err(fault),
        };
        let file = self.file.as_fd();
        worker.answer(fault, &Memory { address, length: PAGE, file, offset, writable }).unwrap();
        Ok(())
    }

    /// Runs a kernel to its end, or to a fault without an answer.
    fn run(
        &mut self,
        worker: &mut Worker,
        kernel: u32,
        groups: u32,
        with: &[u8],
    ) -> Result<(), Fault> {
        self.run_batch(worker, &[one(kernel, groups, with)])
    }

    /// As [`Self::run`], with several dispatches.
    fn run_batch(
        &mut self,
        worker: &mut Worker,
        batch: &[KernelDispatch<'_>],
    ) -> Result<(), Fault> {
        worker.dispatch(batch).unwrap();
        loop {
            match next(worker) {
                Event::Fault(fault) => self.answer(worker, fault)?,
                event => {
                    assert_eq!(event, Event::Done);
                    return Ok(());
                }
            }
        }
    }
}

#[track_caller]
fn next(worker: &mut Worker) -> Event {
    worker.next(Some(PATIENCE)).unwrap().expect("the worker says something")
}

#[track_caller]
fn load(worker: &mut Worker, kernel: u32, spirv: &[u8], push_constants: u32, with: &[[u32; 2]]) {
    load_only(worker, kernel, spirv, push_constants, with);
    assert_eq!(next(worker), Event::Loaded(kernel));
}

fn load_only(worker: &mut Worker, kernel: u32, spirv: &[u8], push: u32, with: &[[u32; 2]]) {
    load_with(worker, kernel, spirv, (push, 0), with);
}

/// Asks a worker to compile a kernel with so many bytes of push constants, and so many descriptors.
fn load_with(
    worker: &mut Worker,
    kernel: u32,
    spirv: &[u8],
    (push, descriptors): (u32, u32),
    with: &[[u32; 2]],
) {
    let file = file(spirv);
    let module = Module {
        descriptors,
        spirv: file.as_fd(),
        length: spirv.len() as u64,
        entry_point: "main",
        push_constants: push,
        constants: with,
    };
    worker.load(kernel, &module).unwrap();
}

fn words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Adds a table of pointers to values in pages far apart. Returns the pointers and the arguments of `scatter`.
fn scattered(pages: &mut Pages, count: u64) -> (Vec<u64>, Vec<u8>) {
    let table = WINDOW.start + 0x40_0000;
    for page in 0..(count * 8).div_ceil(PAGE) {
        pages.add(table + page * PAGE, false);
    }
    let values: Vec<_> = (0..count)
        .map(|index| {
            let page = WINDOW.start + 0x1_0000_0000 + (index * 7919 % count) * 0x31_0000;
            pages.add(page, true);
            page + index % 512 * 8
        })
        .collect();
    for (index, value) in (0..).zip(&values) {
        pages.store(table + index * 8, *value);
        pages.store(*value, index + 1000);
    }
    let mut arguments = words(&[table]);
    arguments.extend((count as u32).to_le_bytes());
    arguments.extend([0; 4]);
    (values, arguments)
}

const FACTOR: u64 = 3;

#[track_caller]
fn assert_transformed(pages: &Pages, values: &[u64], times: u32) {
    for (index, value) in (0..).zip(values) {
        let expected = (0..times).fold(index + 1000, |x, _| x * FACTOR + index);
        assert_eq!(pages.load(*value), expected, "{index}");
    }
}

#[test]
fn pointers_reach_scattered_pages_which_are_mapped_when_they_are_touched() {
    let Some(mut worker) = worker() else { return };
    let mut pages = Pages::new();
    let (values, arguments) = scattered(&mut pages, 500);
    load(&mut worker, 1, SCATTER, 16, &[[7, FACTOR as u32]]);
    pages.run(&mut worker, 1, 8, &arguments).unwrap();
    assert_transformed(&pages, &values, 1);
    let asked = pages.faults.len();
    assert!(asked >= pages.at.len(), "{asked}");
    // Mapped pages stay, so the second run does not fault.
    pages.run(&mut worker, 1, 8, &arguments).unwrap();
    assert_transformed(&pages, &values, 2);
    assert_eq!(pages.faults.len(), asked);
}

#[test]
fn pages_that_are_taken_back_are_asked_for_again() {
    let Some(mut worker) = worker() else { return };
    let mut pages = Pages::new();
    let (values, arguments) = scattered(&mut pages, 64);
    load(&mut worker, 1, SCATTER, 16, &[[7, FACTOR as u32]]);
    pages.run(&mut worker, 1, 1, &arguments).unwrap();
    pages.faults.clear();
    // All but the first value's page.
    let first = values[0] & !(PAGE - 1);
    for address in pages.at.keys().filter(|address| **address != first) {
        worker.unmap(*address..*address + PAGE).unwrap();
        assert_eq!(next(&mut worker), Event::Unmapped(*address..*address + PAGE));
    }
    pages.run(&mut worker, 1, 1, &arguments).unwrap();
    assert_transformed(&pages, &values, 2);
    let asked: Vec<_> = pages.faults.iter().map(|(address, _)| address & !(PAGE - 1)).collect();
    for address in pages.at.keys() {
        assert_eq!(asked.contains(address), *address != first, "{address:#x}");
    }
}

/// Linux allows a process fewer mappings than these pages need.
#[test]
fn more_scattered_pages_than_a_process_can_map_are_mapped_by_turns() {
    let Some(mut worker) = worker() else { return };
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
    let limit: u64 = limit.trim().parse().unwrap();
    if limit > 100_000 {
        return skip(
            "this machine allows a process many mappings",
            "none is taken back for room",
            "lower /proc/sys/vm/max_map_count to its default",
        );
    }
    let mut pages = Pages::new();
    let count = limit / 2;
    let (values, arguments) = scattered(&mut pages, count);
    load(&mut worker, 1, SCATTER, 16, &[[7, FACTOR as u32]]);
    pages.run(&mut worker, 1, count.div_ceil(64) as u32, &arguments).unwrap();
    assert_transformed(&pages, &values, 1);
    // What was mapped first was taken back since.
    pages.faults.clear();
    pages.run(&mut worker, 1, 1, &arguments).unwrap();
    assert!(!pages.faults.is_empty());
}

#[test]
fn a_page_that_is_not_there_is_reported_by_its_exact_address_as_load_or_store() {
    let page = WINDOW.start + 0x23_4567_8000;
    for (at, store) in [(page + 0x18, false), (page + 0x20, true)] {
        let Some(mut worker) = worker() else { return };
        let mut pages = Pages::new();
        load(&mut worker, 1, TOUCH, 16, &[]);
        let arguments = if store { words(&[0, at]) } else { words(&[at, 0]) };
        let fault = pages.run(&mut worker, 1, 1, &arguments).unwrap_err();
        assert_eq!((fault.address, fault.store), (at, store));
    }
}

#[test]
fn a_store_to_a_page_that_may_only_be_read_is_a_fault_after_loads_that_are_none() {
    let Some(mut worker) = worker() else { return };
    let mut pages = Pages::new();
    let (read_only, writable) = (WINDOW.start + PAGE, WINDOW.end - PAGE);
    pages.add(read_only, false);
    pages.add(writable, true);
    pages.store(read_only + 8, 77);
    load(&mut worker, 1, TOUCH, 16, &[]);
    pages.run(&mut worker, 1, 1, &words(&[read_only + 8, writable + 8])).unwrap();
    assert_eq!(pages.load(writable + 8), 77);
    let fault = pages.run(&mut worker, 1, 1, &words(&[0, read_only + 16])).unwrap_err();
    assert_eq!((fault.address, fault.store), (read_only + 16, true));
    assert_eq!(pages.load(read_only + 16), 0);
}

#[test]
fn a_wild_pointer_ends_its_worker_and_is_reported() {
    // An address below the window, and a non-canonical one.
    for (at, known) in [(0x1008, Some(0x1008)), (0x8000_0000_0000_0008, None)] {
        let Some(mut worker) = worker() else { return };
        load(&mut worker, 1, TOUCH, 16, &[]);
        worker.dispatch(&[one(1, 1, &words(&[at, 0]))]).unwrap();
        let Event::Wild(address, _) = next(&mut worker) else { panic!("no wild pointer") };
        assert_eq!(address, known);
        assert!(matches!(worker.next(Some(PATIENCE)), Err(WorkerError::Ended(_))));
    }
}

/// A worker with a kernel that spins until the word at an address is not 0, its pages, and the address.
fn spinning() -> Option<(Worker, Pages, u64)> {
    let mut worker = worker()?;
    let mut pages = Pages::new();
    let flag = WINDOW.start + 0x5000;
    pages.add(flag, true);
    load(&mut worker, 1, SPIN, 8, &[]);
    worker.dispatch(&[one(1, 1, &words(&[flag]))]).unwrap();
    let Event::Fault(fault) = next(&mut worker) else { panic!("it touches the flag") };
    pages.answer(&mut worker, fault).unwrap();
    Some((worker, pages, flag))
}

#[test]
fn a_kernel_that_never_ends_is_killed_and_leaves_nothing() {
    let Some((mut worker, _pages, flag)) = spinning() else { return };
    // The kernel spins. Taking its page back makes it fault again, perhaps before `Unmapped` arrives.
    worker.unmap(flag..flag + PAGE).unwrap();
    let said = [next(&mut worker), next(&mut worker)];
    assert!(said.contains(&Event::Unmapped(flag..flag + PAGE)), "{said:?}");
    assert!(said.iter().any(|event| matches!(event, Event::Fault(_))), "{said:?}");
    let process = Path::new("/proc").join(worker.id().to_string());
    assert!(process.exists());
    let socket = Path::new("/proc/self/fd")
        .join(std::os::fd::AsRawFd::as_raw_fd(&worker.socket()).to_string());
    let socket = std::fs::read_link(&socket).unwrap();
    drop(worker);
    assert!(!process.exists());
    let left = std::fs::read_dir("/proc/self/fd").unwrap();
    assert!(!left.flatten().any(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to == socket)));
}

#[test]
fn a_kernel_that_a_store_of_the_owner_s_ends_sees_that_store() {
    let Some((mut worker, pages, flag)) = spinning() else { return };
    pages.store(flag, 1);
    assert_eq!(next(&mut worker), Event::Done);
}

#[test]
fn what_cannot_be_compiled_is_an_error_with_a_reason_and_the_worker_goes_on() {
    let Some(mut worker) = worker() else { return };
    load_only(&mut worker, 1, b"this is not SPIR-V, but long", 0, &[]);
    let Event::NotLoaded(1, why) = next(&mut worker) else { panic!("it was compiled") };
    assert!(why.contains("no SPIR-V"), "{why}");
    worker.dispatch(&[one(1, 1, &[])]).unwrap();
    let Event::NotDone(0, why) = next(&mut worker) else { panic!("it ran") };
    assert!(why.contains("no such kernel"), "{why}");
    load(&mut worker, 2, TOUCH, 16, &[]);
}

/// Compilers fail in different ways; in each case the next worker compiles.
#[test]
fn what_a_compiler_chokes_on_costs_one_worker_at_most() {
    let Some(mut worker) = worker() else { return };
    // Keeps the module's header and first words, and replaces the rest with unknown instructions.
    let mut broken = TOUCH.to_vec();
    for word in broken[20..].as_chunks_mut::<4>().0.iter_mut().skip(3) {
        *word = [0xff, 0xff, 0x02, 0x00];
    }
    load_only(&mut worker, 1, &broken, 16, &[]);
    match worker.next(Some(PATIENCE)) {
        Ok(Some(Event::NotLoaded(1, why))) => assert!(why.contains("vkCreate"), "{why}"),
        Err(WorkerError::Ended(_)) | Ok(Some(Event::Wild(..))) => {}
        other => panic!("{other:?}"),
    }
    load(&mut self::worker().unwrap(), 1, TOUCH, 16, &[]);
}

#[test]
fn a_window_that_a_process_cannot_have_is_refused_with_its_addresses() {
    let Some(command) = command() else { return };
    // Above user space.
    let window = 0x8000_0000_0000..0x8000_4000_0000;
    let mut worker = Worker::spawn(command, &Options { window, ..options() }).unwrap();
    let Event::Refused(error) = next(&mut worker) else { panic!("it starts") };
    assert!(error.contains("cannot reserve the GPU virtual addresses 0x800000000000"), "{error}");
    assert!(matches!(worker.next(Some(PATIENCE)), Err(WorkerError::Ended(_))));
}

#[test]
fn a_worker_that_starts_is_not_waited_for_and_says_when_it_is_ready() {
    let Some(command) = command() else { return };
    let mut worker = Worker::spawn(command, &options()).unwrap();
    assert!(worker.dispatch(&[one(1, 1, &[])]).is_err());
    assert_eq!(next(&mut worker), Event::Ready { pointers: true });
    load(&mut worker, 1, TOUCH, 16, &[]);
    assert_eq!(worker.next(Some(Duration::ZERO)).unwrap(), None);
}

/// The whole GPU address space of the product.
#[test]
fn a_window_of_a_tebibyte_from_one_mebibyte_on_can_be_had() {
    let Some(command) = command() else { return };
    let options = Options { window: 1 << 20..1 << 40, ..options() };
    let mut worker = Worker::start(command, &options).unwrap();
    let mut pages = Pages::new();
    for address in [1 << 20, (1 << 40) - PAGE] {
        pages.add(address, true);
    }
    pages.store(1 << 20, 5);
    load(&mut worker, 1, TOUCH, 16, &[]);
    pages.run(&mut worker, 1, 1, &words(&[1 << 20, (1 << 40) - 8])).unwrap();
    assert_eq!(pages.load((1 << 40) - 8), 5);
}

/// What `transform` makes of words.
fn transformed(words: &[u32]) -> Vec<u32> {
    let count = words.len() as u32;
    (0..count)
        .zip(words)
        .map(|(at, word)| word.wrapping_mul(2_654_435_761).wrapping_add(count).wrapping_add(at))
        .collect()
}

#[test]
fn a_descriptor_reaches_its_bytes_alone_over_pages_that_are_mapped_when_they_are_touched() {
    let Some(mut worker) = worker() else { return };
    let mut pages = Pages::new();
    let start = WINDOW.start + 0x7_0000;
    (0..3).for_each(|page| pages.add(start + page * PAGE, true));
    load_with(&mut worker, 1, TRANSFORM, (0, 1), &[]);
    assert_eq!(next(&mut worker), Event::Loaded(1));
    // From within the first page into the third.
    let (first, count) = (0x210 / 4, 2000_usize);
    let before: Vec<u32> = (0..3 * 1024_u32).map(|at| at.wrapping_mul(0x9e37_79b9)).collect();
    let mut expected = before.clone();
    for (at, word) in before.iter().enumerate() {
        pages.file.write_all_at(&word.to_le_bytes(), at as u64 * 4).unwrap();
    }
    let descriptor = [[start + 0x210, count as u64 * 4]];
    let dispatch = KernelDispatch { descriptors: &descriptor, ..one(1, 32, &[]) };
    // The second run uses what the first recorded.
    for _ in 0..2 {
        pages.run_batch(&mut worker, &[dispatch]).unwrap();
        let part = transformed(&expected[first..first + count]);
        expected[first..first + count].copy_from_slice(&part);
    }
    let mut bytes = vec![0; 3 * PAGE as usize];
    pages.file.read_exact_at(&mut bytes, 0).unwrap();
    let (found, _) = bytes.as_chunks();
    assert_eq!(found.iter().map(|word| u32::from_le_bytes(*word)).collect::<Vec<_>>(), expected);
    // A page that the descriptor covers and that is not there is a fault with its address.
    worker.unmap(WINDOW).unwrap();
    assert_eq!(next(&mut worker), Event::Unmapped(WINDOW));
    pages.at.remove(&(start + PAGE));
    let fault = pages.run_batch(&mut worker, &[dispatch]).unwrap_err();
    assert_eq!(fault.address & !(PAGE - 1), start + PAGE);
}

#[test]
fn dispatches_of_a_batch_run_in_their_order_and_see_each_other_s_stores() {
    let Some(mut worker) = worker() else { return };
    let mut pages = Pages::new();
    let (values, arguments) = scattered(&mut pages, 100);
    load(&mut worker, 1, SCATTER, 16, &[[7, FACTOR as u32]]);
    let dependent = KernelDispatch { barrier: true, ..one(1, 2, &arguments) };
    pages.run_batch(&mut worker, &[dependent; 64]).unwrap();
    let expected =
        |index| (0..64).fold(index + 1000, |x: u64, _| x.wrapping_mul(FACTOR).wrapping_add(index));
    for (index, value) in (0..).zip(&values) {
        assert_eq!(pages.load(*value), expected(index), "{index}");
    }
    assert!(worker.dispatch(&[dependent; 65]).is_err());
}

#[test]
fn a_dispatch_that_is_invalid_is_named_by_its_index_and_nothing_of_its_batch_runs() {
    let Some(mut worker) = worker() else { return };
    let mut pages = Pages::new();
    let (values, arguments) = scattered(&mut pages, 10);
    load(&mut worker, 1, SCATTER, 16, &[[7, FACTOR as u32]]);
    load_with(&mut worker, 2, TRANSFORM, (0, 1), &[]);
    assert_eq!(next(&mut worker), Event::Loaded(2));
    let good = one(1, 1, &arguments);
    let with = |descriptors| KernelDispatch { descriptors, ..one(2, 1, &[]) };
    for (bad, expected) in [
        (one(3, 1, &arguments), "no such kernel"),
        (one(1, 1, &arguments[..8]), "another number of push constants"),
        (one(1, u32::MAX, &arguments), "too many work groups"),
        (with(&[]), "another number of descriptors"),
        (with(&[[WINDOW.start; 2]; 2]), "the descriptor's length is impossible"),
        (with(&[[WINDOW.start + 4, 64]]), "not aligned"),
        (with(&[[WINDOW.end - PAGE, 2 * PAGE]]), "outside the window"),
        (with(&[[WINDOW.start - PAGE, 16]]), "outside the window"),
        (with(&[[u64::MAX - 15, 16]]), "outside the window"),
        (with(&[[WINDOW.start, 0]]), "length is impossible"),
    ] {
        worker.dispatch(&[good, good, bad, good]).unwrap();
        let Event::NotDone(2, why) = next(&mut worker) else { panic!("it ran") };
        assert!(why.contains(expected), "{why}, not {expected}");
    }
    assert_transformed(&pages, &values, 0);
    pages.run_batch(&mut worker, &[good]).unwrap();
    assert_transformed(&pages, &values, 1);
}

#[test]
fn memory_that_is_mapped_beforehand_is_not_asked_for() {
    let Some(mut worker) = worker() else { return };
    let mut pages = Pages::new();
    let (values, arguments) = scattered(&mut pages, 200);
    load(&mut worker, 1, SCATTER, 16, &[[7, FACTOR as u32]]);
    for (address, (offset, writable)) in &pages.at {
        let (address, file) = (*address, pages.file.as_fd());
        let (offset, writable) = (*offset, *writable);
        worker.map(&Memory { address, length: PAGE, file, offset, writable }).unwrap();
    }
    pages.run(&mut worker, 1, 4, &arguments).unwrap();
    assert_transformed(&pages, &values, 1);
    assert_eq!(pages.faults, []);
}

#[test]
fn a_worker_that_is_stopped_does_nothing_until_it_is_resumed() {
    let Some((mut worker, pages, flag)) = spinning() else { return };
    worker.process().stop().unwrap();
    let threads = format!("/proc/{}/task", worker.id());
    let all_stopped = || {
        std::fs::read_dir(&threads).unwrap().all(|thread| {
            let stat = thread.unwrap().path().join("stat");
            std::fs::read_to_string(stat).unwrap().contains(") T ")
        })
    };
    while !all_stopped() {
        std::thread::yield_now();
    }
    pages.store(flag, 1);
    assert_eq!(worker.next(Some(Duration::from_millis(100))).unwrap(), None);
    worker.process().resume().unwrap();
    assert_eq!(next(&mut worker), Event::Done);
}

#[test]
fn a_worker_that_is_killed_even_stopped_is_gone_soon_and_not_waited_for() {
    let Some((mut worker, _pages, _flag)) = spinning() else { return };
    assert!(!worker.process().has_ended());
    worker.process().stop().unwrap();
    worker.process().kill();
    let mut poll = [PollFd::from_borrowed_fd(worker.process().ended(), PollFlags::IN)];
    let patience = Timespec { tv_sec: PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
    assert_eq!(rustix::event::poll(&mut poll, Some(&patience)).unwrap(), 1);
    assert!(worker.process().has_ended());
    assert!(matches!(worker.next(Some(PATIENCE)), Err(WorkerError::Ended(_))));
}

/// Linux's page tables are in proportion to what is mapped.
#[test]
fn more_memory_than_may_be_mapped_at_once_is_mapped_by_turns() {
    const GIB: u64 = 1 << 30;
    let Some(mut worker) = worker() else { return };
    // Nothing of it takes memory before it is touched.
    let large = file(&[]);
    large.set_len(48 * GIB).unwrap();
    load(&mut worker, 1, TOUCH, 16, &[]);
    let size = |worker: &Worker| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", worker.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
    };
    let before = size(&worker);
    for offset in (0..48 * GIB).step_by(GIB as usize) {
        let (address, file) = (WINDOW.start + offset, large.as_fd());
        worker.map(&Memory { address, length: GIB, file, offset, writable: true }).unwrap();
    }
    // The dispatch waits for the mappings before it. The first of them was taken back by then, and is asked for again.
    let mut pages = Pages::new();
    let (from, to) = (WINDOW.start, WINDOW.start + 100 * GIB);
    for address in [from, to] {
        pages.add(address, true);
    }
    pages.store(from, 7);
    pages.run(&mut worker, 1, 1, &words(&[from, to])).unwrap();
    assert_eq!(pages.load(to), 7);
    assert!(pages.faults.contains(&(from, false)), "{:?}", pages.faults);
    let after = size(&worker);
    assert!(after < before + 9 * GIB, "{before} {after}");
    assert!(after < 32 * GIB, "{after}");
}

/// The figures depend on the machine: they are shown, and what was computed for them is checked.
#[test]
fn what_a_worker_costs_over_one_process_is_measured() {
    let (Some(one_process), Some(worker)) = (command(), command()) else { return };
    let native = bellhop_worker::bench::native_in(one_process, 0).unwrap();
    let options = Options { threads: 0, ..options() };
    let through = bellhop_worker::bench::through_worker(worker, &options).unwrap();
    println!("{native:?}\n{through:?}");
}
