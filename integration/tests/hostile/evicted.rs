// SPDX-License-Identifier: MIT OR Apache-2.0

//! Memory that is taken away under a kernel that stores there, again and again: what is then in those pages, of another
//! process and of another guest, is never the kernel's.

use crate::neighbour::Neighbour;
use crate::seed;
use crate::support::{self, Daemon, await_that};
use crate::workers::Over;
use bellhop_guest::client::{Client, Shape};
use bellhop_guest::hostile::Noise;
use bellhop_guest_umd::{Adapter, Arguments, Device, Error, GpuMapping, Kernel};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::allocation::SegmentSet;
use bellhop_protocol::control::gpu_va::Protection;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const ROUNDS: u32 = 40;
/// The longest that a kernel stores before its memory is taken.
const STORING: Duration = Duration::from_millis(2);
/// How often the two change places in a round.
const CHANGES: u32 = 3;
/// More than half of the guest's local memory: two that have as much by turns have pages in common.
const SIZE: u64 = 160 * PAGE_SIZE;
const PATTERN: u32 = 0xEEEE_EEEE;

const CONFIGURATION: &str = "[adapter]\nengine_idle = \"0s\"\nhang_limit = 0\n\
     [guest]\nlocal_memory = \"1MiB\"\nworker_starts_per_second = 1000\n";

/// Stores into all words of its second buffer by turns, until the first's second word is not 0. The first counts.
const STORE: &str = "
    struct Counter { count: atomic<u32>, stop: atomic<u32> }
    @group(0) @binding(0) var<storage, read_write> counter: Counter;
    @group(0) @binding(1) var<storage, read_write> words: array<atomic<u32>>;
    @compute @workgroup_size(1)
    fn store() {
        while atomicLoad(&counter.stop) == 0 {
            let count = atomicAdd(&counter.count, 1u);
            atomicStore(&words[count * 1031 % arrayLength(&words)], count);
        }
    }";

/// Local memory that is resident, at an address of the process.
fn resident(device: &Device) -> GpuMapping {
    let allocation = device.allocation(SIZE).segments(SegmentSet::LOCAL).create().unwrap();
    allocation.make_resident().unwrap();
    allocation.map(Protection::WRITE).unwrap()
}

fn client(process: Adapter) -> Client {
    Client::new(process, Shape { memory: SIZE, ..Shape::default() }).unwrap()
}

/// Another process of the guest whose kernels store.
struct Sibling(Client);

impl Sibling {
    fn fill(&mut self, memory: &GpuMapping) {
        let Self(client) = self;
        client.commands.reset();
        client.commands.fill(memory.gpu_va(), SIZE, PATTERN).unwrap();
        client.run().unwrap();
    }

    /// Asserts that nobody has stored in its memory.
    #[track_caller]
    fn check(&mut self, memory: &GpuMapping, round: u32) {
        let Self(client) = self;
        client.commands.reset();
        client.commands.copy(memory.gpu_va(), client.memory.gpu_va(), SIZE).unwrap();
        client.run().unwrap();
        let bytes = client.read(0, SIZE as usize).unwrap();
        let wrong = bytes.chunks(4).position(|word| word != PATTERN.to_le_bytes());
        assert_eq!(wrong, None, "round {round}: somebody stored in this word");
    }
}

#[test]
fn a_kernel_whose_memory_is_evicted_stores_in_nobody_else_s() {
    let Some(daemon) = Daemon::start_with_kernels(2, CONFIGURATION) else { return };
    let [guest, other] = [0, 1].map(|number| support::guest(&daemon, number));
    let process = support::adapter_of(&guest);
    let mut sibling = Sibling(client(process.open_process().unwrap()));
    let mut client = client(process);
    let kernel = Kernel::from_wgsl(&client.device, STORE).create().unwrap();
    let mut noise = Noise::new(seed());
    let over = AtomicBool::new(false);
    let mut faults = 0;
    thread::scope(|threads| {
        threads.spawn(|| {
            let _over = Over(&over);
            let mut neighbour = Neighbour::new(other);
            while !over.load(Ordering::Acquire) {
                neighbour.work();
                thread::sleep(Duration::from_millis(1));
            }
        });
        let _over = Over(&over);
        for round in 0..ROUNDS {
            assert!(!over.load(Ordering::Acquire), "the neighbour has failed");
            let memory = resident(&client.device);
            client.write(0, &[0; 8]).unwrap();
            let mut arguments = Arguments::new();
            arguments.descriptor(client.va(0), 8).descriptor(memory.gpu_va(), SIZE);
            client.commands.reset();
            client.commands.dispatch_kernel(&kernel, [1; 3], &arguments).unwrap();
            let value = client.submit().unwrap();
            await_that("the kernel stores", || client.read(0, 4).unwrap() != [0; 4]);
            let storing = noise.below(STORING.as_micros() as u64);
            thread::sleep(Duration::from_micros(storing));
            // When this returns, no engine and no worker reaches the pages.
            memory.allocation().evict().unwrap();
            let others = resident(&sibling.0.device);
            sibling.fill(&others);
            sibling.check(&others, round);
            for _ in 0..CHANGES {
                // The kernel may not have noticed yet, and goes on where it has its memory back.
                others.allocation().evict().unwrap();
                memory.allocation().make_resident().unwrap();
                memory.allocation().evict().unwrap();
                others.allocation().make_resident().unwrap();
                sibling.check(&others, round);
            }
            client.write(4, &[1, 0, 0, 0]).unwrap();
            match client.finish(value) {
                Ok(()) => {}
                Err(
                    Error::QueueLost { fault: Some(fault), .. } | Error::KernelFault { fault, .. },
                ) => {
                    let pages = memory.gpu_va()..memory.gpu_va() + SIZE;
                    let is_its_own = fault.reason.is_page_fault() && pages.contains(&fault.address);
                    assert!(is_its_own, "round {round}: {fault}, not in {pages:#x?}");
                    faults += 1;
                    let context = client.device.create_context(0).unwrap();
                    client.queue = context.create_user_mode_queue(4096).unwrap();
                    client.context = context;
                }
                Err(other) => panic!("round {round}: {other}"),
            }
            sibling.check(&others, round);
        }
    });
    println!("{faults} of {ROUNDS} kernels lost their memory before they ended");
    assert!(faults > 0, "no kernel had memory taken away");
}
