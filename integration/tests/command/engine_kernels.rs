// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests' kernels on a GPU: real engines, real workers and a real Vulkan. This process is the control plane and the
//! guests.

use crate::rig::*;
use crate::support::kernels::HOW;
use crate::support::{bellhop, skip};
use bellhop_device::allowance::Rate;
use bellhop_device::gpu::{Gpu, GpuConfig, KernelsConfig, WorkerProgram};
use bellhop_host_kmd::hardware::{
    AccessedBits as _, Fault, Interrupt, Interrupts as _, KernelNumber, KernelOutcome,
    KernelRefusal, KernelSource, Kernels as _, PageTables as _, Queues as _, Segment,
};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::gpu_va::{GPU_VA_END, GPU_VA_START};
use bellhop_protocol::control::kernel::{
    KERNEL_POINTERS, KERNELS_SUPPORTED, KernelCaps, KernelResult,
};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::Opcode;
use bellhop_protocol::packet::dispatch::{DispatchFlags, DispatchKernel};
use bellhop_protocol::packet::flow::NOP;
use bellhop_vm::{Mesa, Sources};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const SCATTER: &[u8] = include_bytes!("../../../device/worker/kernels/scatter.spv");
const TOUCH: &[u8] = include_bytes!("../../../device/worker/kernels/touch.spv");
const TRANSFORM: &[u8] = include_bytes!("../../../device/worker/kernels/transform.spv");
const SPIN: &[u8] = include_bytes!("../../../device/worker/kernels/spin.spv");
/// A page's worth of kernel source, in the guest's free memory.
const SOURCE: u64 = SYSTEM + 0x30_0000;
/// Arguments of dispatches.
const ARGUMENTS: u64 = SYSTEM + 0x2f_0000;

/// How a worker with a correct Vulkan is started, or `None` if there is no such Vulkan.
fn worker_program() -> Option<WorkerProgram> {
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
    let set = |(name, value): (&std::ffi::OsStr, Option<&std::ffi::OsStr>)| {
        Some((name.to_owned(), value?.to_owned()))
    };
    Some(WorkerProgram {
        program: command.get_program().into(),
        arguments: command.get_args().map(Into::into).collect(),
        environment: command.get_envs().filter_map(set).collect(),
    })
}

fn caps() -> KernelCaps {
    KernelCaps {
        flags: KERNELS_SUPPORTED | KERNEL_POINTERS,
        max_groups: [65_535; 3],
        max_push_constants: 256,
        max_descriptors: 16,
        descriptor_alignment: 16,
        window_start: GPU_VA_START,
        window_length: GPU_VA_END - GPU_VA_START,
        ..KernelCaps::none("")
    }
}

fn gpu_with(change: impl FnOnce(&mut KernelsConfig)) -> Option<Arc<Gpu>> {
    let mut kernels = KernelsConfig {
        worker: worker_program()?,
        device: 0,
        caps: caps(),
        workers: 4,
        workers_per_guest: 2,
        kernels_per_guest: 8,
        memory: 1 << 30,
        threads: 2,
        starts: Rate::new(1000, 1000),
        compiling: Rate::new(1000, 1_000_000),
        compile_timeout: Duration::from_secs(10),
    };
    change(&mut kernels);
    let hang = Duration::from_secs(2);
    Some(start_with(GpuConfig { kernels: Some(kernels), hang, ..GpuConfig::default() }))
}

fn gpu() -> Option<Arc<Gpu>> {
    gpu_with(|_| {})
}

/// A GPU, and the mark of its workers.
fn marked_gpu() -> Option<(Arc<Gpu>, u32)> {
    let mut mark = 0;
    let gpu = gpu_with(|config| {
        mark = GPUS.fetch_add(1, Ordering::Relaxed);
        config.worker.environment.push((MARK.into(), mark.to_string().into()));
    });
    Some((gpu?, mark))
}

/// Creates a kernel and waits for what the compiler says.
fn create(
    guest: &Guest,
    spirv: &[u8],
    push_constants: u32,
    constants: &[[u32; 2]],
) -> (KernelNumber, KernelOutcome) {
    create_with(guest, spirv, (push_constants, 0), constants)
}

/// Creates a kernel with this many bytes of push constants and descriptors.
fn create_with(
    guest: &Guest,
    spirv: &[u8],
    (push_constants, descriptors): (u32, u32),
    constants: &[[u32; 2]],
) -> (KernelNumber, KernelOutcome) {
    guest.write(SOURCE, spirv);
    let source = KernelSource {
        spirv: SOURCE,
        length: spirv.len() as u32,
        entry_point: "main".into(),
        push_constants,
        descriptors,
        constants: constants.to_vec(),
    };
    let number = guest.gpu.create_kernel(guest.space, source, None).unwrap();
    loop {
        for interrupt in take_interrupts(&guest.gpu) {
            if let Interrupt::KernelCompiled { space, kernel, outcome } = interrupt
                && (space, kernel) == (guest.space, number)
            {
                return (number, outcome);
            }
        }
    }
}

#[track_caller]
fn compiled(guest: &Guest, spirv: &[u8], push_constants: u32, constants: &[[u32; 2]]) -> u32 {
    let (number, outcome) = create(guest, spirv, push_constants, constants);
    assert_eq!(outcome, KernelOutcome::Compiled);
    number.0
}

fn words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// A dispatch with these push constants, which are stored at this place of the arguments.
fn dispatch(guest: &Guest, kernel: u32, groups: u32, at: u64, arguments: &[u8]) -> DispatchKernel {
    guest.write(ARGUMENTS + at, arguments);
    DispatchKernel::new(kernel, [groups, 1, 1], DispatchFlags::BARRIER).with_arguments(
        ARGUMENTS + at,
        arguments.len() as u32,
        0,
    )
}

fn one(packet: DispatchKernel) -> Packets {
    Packets::new().then(packet)
}

/// The number of GPUs of this process so far, which marks each one's workers.
static GPUS: AtomicU32 = AtomicU32::new(0);
/// The variable in the environment of workers with their GPU's number.
const MARK: &str = "BELLHOP_TEST_GPU";

/// The processes of a GPU's workers.
fn workers(mark: u32) -> Vec<u32> {
    let mark = format!("{MARK}={mark}");
    let children = fs::read_dir("/proc/self/task").unwrap().flatten().flat_map(|task| {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        children.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<u32>>()
    });
    let is_marked = |id: &u32| {
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    children.filter(is_marked).collect()
}

#[test]
fn a_kernel_reaches_the_memory_of_its_process_by_pointers_and_runs_again_after_a_flush() {
    let Some(gpu) = gpu() else { return };
    let mut guest = Guest::attach(&gpu);
    let kernel = compiled(&guest, SCATTER, 16, &[[7, 3]]);
    let mut queue = guest.queue(COMPUTE);
    // Half of the values are in the guest's own memory, half in local memory, far apart.
    let value = |index: u64| {
        let base = if index.is_multiple_of(2) { SYSTEM } else { LOCAL };
        base + 0x10_0000 + index * 0x3000 + index * 8
    };
    let table = SYSTEM + 0x4_0000;
    for index in 0..100 {
        guest.write(table + index * 8, &value(index).to_le_bytes());
        guest.write(value(index), &(index + 1000).to_le_bytes());
    }
    let arguments = [words(&[table]), 100u32.to_le_bytes().to_vec(), vec![0; 4]].concat();
    let packet = dispatch(&guest, kernel, 2, 0, &arguments);
    guest.run(&mut queue, one(packet));
    quiesce(&gpu);
    guest.run(&mut queue, one(packet));
    for index in 0..100 {
        let expected = (0..2).fold(index + 1000, |x, _| x * 3 + index);
        assert_eq!(guest.read_word(value(index)), expected, "{index}");
    }
}

#[test]
fn kernels_that_follow_each_other_run_as_one_batch_in_their_order() {
    let Some(gpu) = gpu() else { return };
    let mut guest = Guest::attach(&gpu);
    let kernel = compiled(&guest, TOUCH, 16, &[]);
    let mut queue = guest.queue(COMPUTE);
    let word = |index: u64| SYSTEM + index * 0x1008;
    // Each copies the word that the one before it has stored; more of them than a batch has.
    guest.write(word(0), &77u64.to_le_bytes());
    let copies = (0..100).map(|index| {
        dispatch(&guest, kernel, 1, index * 16, &words(&[word(index), word(index + 1)]))
    });
    let copies: Vec<_> = copies.collect();
    let packets = copies.into_iter().fold(Packets::new(), Packets::then);
    let buffer = guest.buffer(&packets);
    guest.run(&mut queue, Packets::new().then(buffer));
    assert_eq!(guest.read_word(word(100)), 77);
    // A dispatch without work groups does nothing, and the packet behind it comes.
    let none = dispatch(&guest, kernel, 0, 0, &words(&[word(0), word(200)]));
    guest.run(&mut queue, one(none).then(NOP));
    assert_eq!(guest.read_word(word(200)), 0);
}

#[test]
fn a_descriptor_names_memory_and_a_kernel_reaches_that_and_no_more() {
    let Some(gpu) = gpu() else { return };
    let mut guest = Guest::attach(&gpu);
    let (kernel, outcome) = create_with(&guest, TRANSFORM, (0, 1), &[]);
    assert_eq!(outcome, KernelOutcome::Compiled);
    let mut queue = guest.queue(COMPUTE);
    // From the middle of a page to the middle of another.
    let (start, count) = (SYSTEM + 0x4_0100, 2000_u32);
    for index in 0..=count {
        guest.write(start + u64::from(index) * 4, &index.to_le_bytes());
    }
    let length = u64::from(count) * 4;
    guest.write(ARGUMENTS, &words(&[start, length]));
    let packet = DispatchKernel::new(kernel.0, [40, 1, 1], DispatchFlags::empty());
    guest.run(&mut queue, one(packet.with_arguments(ARGUMENTS, 0, 1)));
    let word = |index: u32| {
        let bytes = guest.read(start + u64::from(index) * 4, 4);
        u32::from_le_bytes(bytes.try_into().unwrap())
    };
    for index in 0..count {
        assert_eq!(word(index), index.wrapping_mul(2_654_435_761).wrapping_add(count + index));
    }
    assert_eq!(word(count), count);
    // No descriptor: misaligned, without bytes, past the window, before it.
    for [gpu_va, length, wrong] in [
        [start + 4, 64, start + 4],
        [start, 0, 0],
        [GPU_VA_END - 64, 128, 128],
        [GPU_VA_START - 64, 64, GPU_VA_START - 64],
    ] {
        guest.write(ARGUMENTS, &words(&[gpu_va, length]));
        let mut queue = guest.queue(COMPUTE);
        let fault = guest.run_into_fault(&mut queue, &one(packet.with_arguments(ARGUMENTS, 0, 1)));
        assert_eq!((fault.reason, fault.address), (FaultReason::BAD_KERNEL_ARGUMENTS, wrong));
    }
}

/// Workers end at any moment, under load: their queues are told why, and nothing else happens.
#[test]
fn killed_workers_at_any_moment_cost_their_queues_alone_and_leave_nothing() {
    let Some((gpu, mark)) = marked_gpu() else { return };
    let mut guest = Guest::attach(&gpu);
    let mut neighbour = Guest::attach_with(&gpu, 16);
    let kernel = compiled(&guest, SPIN, 8, &[]);
    let mut other = neighbour.queue(COMPUTE);
    let flag = SYSTEM + 0x2000;
    let packet = dispatch(&guest, kernel, 1, 0, &words(&[flag]));
    let mut moment = 1_u64;
    for round in 0..15 {
        let progress = guest.fence(0);
        let queue = guest.queue_with_progress(COMPUTE, progress);
        let buffer = guest.buffer_at(SYSTEM + 0x3000, &one(packet));
        guest.submit_kernel_mode(queue, buffer.gpu_va, buffer.size(), 1);
        // Before the worker is there, while it begins, or while it spins.
        moment = moment.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        std::thread::sleep(Duration::from_micros((moment >> 33) % 100_000));
        for worker in workers(mark) {
            let _ = kill_process(Pid::from_raw(worker as i32).unwrap(), Signal::KILL);
        }
        // If its own worker was not killed, the kernel spins: the store ends it.
        neighbour.run(&mut other, Packets::new().then(NOP));
        guest.write(flag, &1u32.to_le_bytes());
        let mut faults = Vec::new();
        eventually("an end", || {
            gpu.acknowledge_interrupt();
            for interrupt in gpu.take_interrupts() {
                if let Interrupt::HwQueueFault { queue: lost, fault } = interrupt {
                    assert_eq!(lost, queue);
                    faults.push(fault.reason);
                }
            }
            guest.published(progress) == 1 || !faults.is_empty()
        });
        let lost = [FaultReason::KERNEL_LOST, FaultReason::KERNEL_FAILED];
        assert!(faults.iter().all(|reason| lost.contains(reason)), "{round}: {faults:?}");
        guest.write(flag, &[0; 4]);
        gpu.destroy_hw_queue(queue).unwrap();
        quiesce(&gpu);
    }
    drop((guest, neighbour));
    drop(gpu);
    assert!(workers(mark).is_empty());
}

/// What a fault that `touch` has must be.
fn touch_fault(guest: &mut Guest, kernel: u32, from: u64, to: u64) -> Fault {
    let mut queue = guest.queue(COMPUTE);
    let packet = dispatch(guest, kernel, 1, 0, &words(&[from, to]));
    let fault = guest.run_into_fault(&mut queue, &one(packet));
    assert_eq!(fault.opcode, Opcode::DISPATCH_KERNEL);
    fault
}

#[test]
fn a_fault_reports_the_exact_address_and_costs_its_queue_alone() {
    let Some(gpu) = gpu() else { return };
    let mut guest = Guest::attach(&gpu);
    let kernel = compiled(&guest, TOUCH, 16, &[]);
    let mut other = guest.queue(COMPUTE);
    let read_only = 0x5000_0000;
    guest.map(read_only, Segment::System, PHYSICAL, PAGE_SIZE, false);
    for (from, to, reason, address) in [
        (0x6000_0018, 0, FaultReason::READ_PAGE_FAULT, 0x6000_0018),
        (0, 0x6000_0020, FaultReason::WRITE_PAGE_FAULT, 0x6000_0020),
        (read_only, read_only + 8, FaultReason::WRITE_PROTECTION_FAULT, read_only + 8),
        (0, GPU_VA_END + 8, FaultReason::ADDRESS_OUT_OF_RANGE, GPU_VA_END + 8),
    ] {
        let fault = touch_fault(&mut guest, kernel, from, to);
        assert_eq!((fault.reason, fault.address), (reason, address));
        let packet = dispatch(&guest, kernel, 1, 0, &words(&[0, SYSTEM + 8]));
        guest.run(&mut other, one(packet));
        assert_eq!(guest.read_word(SYSTEM + 8), 42);
        guest.write(SYSTEM + 8, &[0; 8]);
    }
}

#[test]
fn a_fence_segment_is_no_kernels() {
    let Some(gpu) = gpu() else { return };
    let mut guest = Guest::attach(&gpu);
    let kernel = compiled(&guest, TOUCH, 16, &[]);
    guest.map(0x5000_0000, Segment::Fence, 0, PAGE_SIZE, true);
    let fault = touch_fault(&mut guest, kernel, 0x5000_0000, 0);
    assert_eq!((fault.reason, fault.address), (FaultReason::READ_PAGE_FAULT, 0x5000_0000));
}

#[test]
fn packets_that_name_no_kernel_or_other_arguments_are_faults() {
    let Some(gpu) = gpu() else { return };
    let mut guest = Guest::attach(&gpu);
    let kernel = compiled(&guest, TOUCH, 16, &[]);
    let bad = FaultReason::BAD_KERNEL_ARGUMENTS;
    let good = DispatchKernel::new(kernel, [1; 3], DispatchFlags::empty());
    let good = good.with_arguments(ARGUMENTS, 16, 0);
    let flags = DispatchKernel { flags: 2, ..good };
    let many = DispatchKernel { groups: [1, 65_536, 1], ..good };
    for (packet, reason, value) in [
        (DispatchKernel::new(77, [1; 3], DispatchFlags::empty()), FaultReason::NO_SUCH_KERNEL, 77),
        (flags, bad, 2),
        (many, bad, 65_536),
        (good.with_arguments(ARGUMENTS, 8, 0), bad, 8),
        (good.with_arguments(ARGUMENTS, 16, 1), bad, 1),
        (good.with_arguments(ARGUMENTS + 4, 16, 0), FaultReason::MISALIGNED, ARGUMENTS + 4),
        (good.with_arguments(0x6000_0000, 16, 0), FaultReason::READ_PAGE_FAULT, 0x6000_0000),
    ] {
        let mut queue = guest.queue(COMPUTE);
        let fault = guest.run_into_fault(&mut queue, &one(packet));
        assert_eq!((fault.reason, fault.address), (reason, value));
    }
    let mut copies = guest.queue(COPY);
    let fault = guest.run_into_fault(&mut copies, &one(good));
    assert_eq!(fault.reason, FaultReason::NOT_SUPPORTED_BY_NODE);
    guest.gpu.destroy_kernel(guest.space, KernelNumber(kernel)).unwrap();
    let mut queue = guest.queue(COMPUTE);
    let fault = guest.run_into_fault(&mut queue, &one(good));
    assert_eq!((fault.reason, fault.address), (FaultReason::NO_SUCH_KERNEL, kernel.into()));
}

/// A guest and a queue of it with a kernel that spins until the word at this address is not 0.
fn spinning(gpu: &Arc<Gpu>) -> (Guest, Queue, u64) {
    let mut guest = Guest::attach(gpu);
    let kernel = compiled(&guest, SPIN, 8, &[]);
    let mut queue = guest.queue_without_timeout(COMPUTE);
    let flag = SYSTEM + 0x2000;
    let packet = dispatch(&guest, kernel, 1, 0x1000, &words(&[flag]));
    guest.submit_with_progress(&mut queue, one(packet));
    (guest, queue, flag)
}

#[test]
fn a_spinning_kernel_holds_up_no_other_queue_and_ends_with_a_store_of_the_guests() {
    let Some(gpu) = gpu() else { return };
    let (mut guest, queue, flag) = spinning(&gpu);
    let mut other = guest.queue(COMPUTE);
    for _ in 0..100 {
        guest.run(&mut other, Packets::new().then(NOP));
    }
    // A flush takes its memory, and it asks for it again.
    quiesce(&gpu);
    guest.run(&mut other, Packets::new().then(NOP));
    assert_eq!(guest.published(queue.progress), 0);
    guest.write(flag, &1u32.to_le_bytes());
    guest.wait(queue.progress, 1);
}

#[test]
fn a_suspended_queue_s_kernel_goes_on_when_the_queue_is_resumed() {
    let Some(gpu) = gpu() else { return };
    let (guest, queue, flag) = spinning(&gpu);
    gpu.suspend_hw_queues(&[queue.id]).unwrap();
    quiesce(&gpu);
    guest.write(flag, &1u32.to_le_bytes());
    quiesce(&gpu);
    assert_eq!(guest.published(queue.progress), 0);
    gpu.resume_hw_queues(&[queue.id]).unwrap();
    guest.wait(queue.progress, 1);
}

#[test]
fn a_page_that_a_spinning_kernel_uses_and_loses_is_its_fault() {
    let Some(gpu) = gpu() else { return };
    let (guest, queue, flag) = spinning(&gpu);
    // It is read at least once before it is taken away, or it faults at its first read.
    guest.unmap(flag, PAGE_SIZE);
    let fault = fault_of(&gpu, queue.id);
    assert_eq!((fault.reason, fault.address), (FaultReason::READ_PAGE_FAULT, flag));
}

#[test]
fn a_queue_that_is_destroyed_takes_its_worker_with_it_before_the_ticket_passes() {
    let Some((gpu, mark)) = marked_gpu() else { return };
    let (guest, queue, flag) = spinning(&gpu);
    // The compiler, the worker and a spare.
    eventually("three workers", || workers(mark).len() == 3);
    // The kernel has faulted once its page was accessed.
    eventually("a fault", || gpu.take_accessed(guest.space, flag, PAGE_SIZE).unwrap());
    gpu.destroy_hw_queue(queue.id).unwrap();
    quiesce(&gpu);
    eventually("two workers", || workers(mark).len() == 2);
    gpu.destroy_address_space(guest.space).unwrap();
    gpu.detach_guest(guest.id);
    eventually("the spare alone", || workers(mark).len() == 1);
    drop(guest);
    drop(gpu);
    assert!(workers(mark).is_empty());
}

#[test]
fn a_kernel_that_makes_no_progress_is_a_hang_of_its_queue() {
    let Some(gpu) = gpu() else { return };
    let mut guest = Guest::attach(&gpu);
    let kernel = compiled(&guest, SPIN, 8, &[]);
    let mut queue = guest.queue(COMPUTE);
    let packet = dispatch(&guest, kernel, 1, 0, &words(&[SYSTEM + 0x2000]));
    guest.submit(&mut queue, &one(packet));
    loop {
        let hung = |interrupt: &Interrupt| format!("{interrupt:?}").contains("Hung");
        if take_interrupts(&gpu).iter().any(hung) {
            break;
        }
    }
    gpu.preempt_hw_queue(queue.id, 9).unwrap();
    loop {
        let stopped =
            |i: &Interrupt| matches!(i, Interrupt::DmaPreempted { preemption_fence: 9, .. });
        if take_interrupts(&gpu).iter().any(stopped) {
            break;
        }
    }
}

#[test]
fn a_worker_that_is_killed_loses_its_queue_and_the_next_queue_has_another() {
    let Some((gpu, mark)) = marked_gpu() else { return };
    let (mut guest, queue, flag) = spinning(&gpu);
    eventually("a fault", || gpu.take_accessed(guest.space, flag, PAGE_SIZE).unwrap());
    let killed = workers(mark);
    let processes: Vec<_> = killed
        .iter()
        .map(|worker| {
            let pid = Pid::from_raw(*worker as i32).unwrap();
            let process = pidfd_open(pid, PidfdFlags::empty()).unwrap();
            kill_process(pid, Signal::KILL).unwrap();
            process
        })
        .collect();
    // Until all its threads are gone, a worker seems to live.
    for process in &processes {
        poll(&mut [PollFd::new(process, PollFlags::IN)], None).unwrap();
    }
    let fault = fault_of(&gpu, queue.id);
    assert_eq!(fault.reason, FaultReason::KERNEL_LOST);
    let kernel = compiled(&guest, TOUCH, 16, &[]);
    let mut queue = guest.queue(COMPUTE);
    let packet = dispatch(&guest, kernel, 1, 0, &words(&[0, flag]));
    guest.run(&mut queue, one(packet));
    assert_eq!(guest.read_word(flag), 42);
}

#[test]
fn what_the_compiler_refuses_and_what_cannot_be_read_is_told() {
    let Some(gpu) = gpu() else { return };
    let guest = Guest::attach(&gpu);
    let (number, outcome) = create(&guest, &[0; 64], 0, &[]);
    let KernelOutcome::Failed(KernelResult::REFUSED, why) = outcome else { panic!("{outcome:?}") };
    assert!(why.contains("SPIR-V"), "{why}");
    assert!(gpu.destroy_kernel(guest.space, number).is_err());
    let source = |spirv, length| KernelSource {
        spirv,
        length,
        entry_point: "main".into(),
        push_constants: 0,
        descriptors: 0,
        constants: Vec::new(),
    };
    let end = SYSTEM + SIZE;
    let refused = gpu.create_kernel(guest.space, source(end - 0x1000, 0x1010), None);
    assert_eq!(refused, Err(KernelRefusal::Unreadable(end)));
    // As many as a guest may have.
    for _ in 0..8 {
        compiled(&guest, TOUCH, 16, &[]);
    }
    guest.write(SOURCE, TOUCH);
    let full = gpu.create_kernel(guest.space, source(SOURCE, TOUCH.len() as u32), None);
    assert_eq!(full, Err(KernelRefusal::Full));
}

#[test]
fn processes_take_turns_at_fewer_workers_than_they_are() {
    let Some(gpu) = gpu_with(|config| config.workers = 1) else { return };
    let guests: Vec<_> = (0..3).map(|index| Guest::attach_with(&gpu, index * 8)).collect();
    let mut guests: Vec<_> = guests
        .into_iter()
        .map(|mut guest| {
            let kernel = compiled(&guest, TOUCH, 16, &[]);
            let queue = guest.queue(COMPUTE);
            (guest, queue, kernel)
        })
        .collect();
    for round in 1..4u64 {
        for (guest, queue, kernel) in &mut guests {
            guest.write(SYSTEM, &round.to_le_bytes());
            let packet = dispatch(guest, *kernel, 1, 0, &words(&[SYSTEM, SYSTEM + 0x1000]));
            guest.submit_with_progress(queue, one(packet));
        }
        for (guest, queue, _) in &guests {
            guest.wait(queue.progress, queue.submitted);
            assert_eq!(guest.read_word(SYSTEM + 0x1000), round);
        }
    }
}
