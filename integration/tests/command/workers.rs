// SPDX-License-Identifier: MIT OR Apache-2.0

//! Kernels in a worker: real processes, a real Vulkan, and this process as the owner that answers page faults.

use crate::support::{bellhop, skip};
use bellhop_vm::{Mesa, Sources};
use bellhop_worker::owner::{Event, Fault, Memory, Module, Options, Worker, WorkerError};
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
const SPIN: &[u8] = include_bytes!("../../../device/worker/kernels/spin.spv");

/// How long a step may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the command that starts a worker with a correct Vulkan, or `None` if there is no such Vulkan.
fn command() -> Option<Command> {
    let vulkan = match bellhop_vm::fetch_vulkan(Mesa::Debian13, &Sources::default()) {
        Ok(vulkan) => vulkan,
        Err(error) => {
            skip(&format!("there is no Vulkan to run kernels with: {error:#}"), "none is run");
            return None;
        }
    };
    let mut command = vulkan.command(Path::new(bellhop().get_program()));
    command.args(["worker", "--"]);
    Some(command)
}

fn worker() -> Option<Worker> {
    let options = Options { window: WINDOW, memory: 1 << 30, device: 0 };
    let worker = Worker::start(command()?, &options).unwrap();
    assert!(worker.has_pointers());
    Some(worker)
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
        worker.dispatch(kernel, [groups, 1, 1], with).unwrap();
        loop {
            match next(worker) {
                Event::Fault(fault) => self.answer(worker, fault)?,
                event => {
                    assert_eq!(event, Event::Done(kernel));
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
    let file = file(spirv);
    let module = Module {
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
        worker.dispatch(1, [1; 3], &words(&[at, 0])).unwrap();
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
    worker.dispatch(1, [1; 3], &words(&[flag])).unwrap();
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
    assert_eq!(next(&mut worker), Event::Done(1));
}

#[test]
fn what_cannot_be_compiled_is_an_error_with_a_reason_and_the_worker_goes_on() {
    let Some(mut worker) = worker() else { return };
    load_only(&mut worker, 1, b"this is not SPIR-V, but long", 0, &[]);
    let Event::NotLoaded(1, why) = next(&mut worker) else { panic!("it was compiled") };
    assert!(why.contains("no SPIR-V"), "{why}");
    assert!(matches!(worker.dispatch(1, [1; 3], &[]), Ok(())));
    let Event::NotDone(1, why) = next(&mut worker) else { panic!("it ran") };
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
    let options = Options { window, memory: 1 << 30, device: 0 };
    let error = Worker::start(command, &options).err().unwrap().to_string();
    assert!(error.contains("cannot reserve the GPU virtual addresses 0x800000000000"), "{error}");
}

#[test]
fn nothing_can_be_reached_from_inside_the_sandbox() {
    let mut command = bellhop();
    command.args(["worker", "--", "try-sandbox"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
