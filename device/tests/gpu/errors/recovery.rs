// SPDX-License-Identifier: MIT OR Apache-2.0

//! Hangs of three degrees and the recovery from each; other queues lose nothing.

use crate::support::data::{noise, write_data};
use crate::support::rig::*;
use crate::support::system::System;
use bellhop_device::gpu::{Gpu, GpuConfig};
use bellhop_host_kmd::ddi::paging::LOCAL_START;
use bellhop_host_kmd::hardware::{
    CurrentValues as _, EngineState, Engines as _, Fault, Fences as _, HwQueueId, Interrupt,
    Interrupts as _, Observe as _, Queues as _, Quiescence as _, SlotValue, SystemContexts as _,
};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::Opcode;
use bellhop_protocol::packet::dispatch::{Dispatch, Kernel};
use bellhop_protocol::packet::fence::{SignalFence, WaitFence};
use bellhop_protocol::packet::transfer::{Copy, Fill};
use std::sync::Arc;
use std::time::Duration;

const HANG: Duration = Duration::from_millis(20);

fn start_with_kernels() -> Arc<Gpu> {
    start_with(GpuConfig { test_kernels: true, hang: HANG, ..GpuConfig::default() })
}

/// Waits for an interrupt, and drops others meanwhile.
fn await_interrupt<R>(gpu: &Gpu, mut wanted: impl FnMut(Interrupt) -> Option<R>) -> R {
    loop {
        if let Some(found) = take_interrupts(gpu).into_iter().find_map(&mut wanted) {
            return found;
        }
    }
}

fn hang_of(gpu: &Gpu, queue: HwQueueId) -> Fault {
    await_interrupt(gpu, |interrupt| match interrupt {
        Interrupt::GpuEngineStateChange {
            new_state: EngineState::Hung { queue: hung, fault },
            ..
        } if hung == queue => Some(fault),
        _ => None,
    })
}

fn is_hang(interrupt: &Interrupt) -> bool {
    let Interrupt::GpuEngineStateChange { new_state, .. } = interrupt else { return false };
    matches!(new_state, EngineState::Hung { .. })
}

fn spin(word: u64) -> Dispatch {
    Dispatch::new(Kernel::SPIN_UNTIL, word, word + 8, 8, 1)
}

#[test]
fn a_queue_without_progress_is_reported_again_and_again_and_can_be_preempted() {
    let gpu = start_with_kernels();
    let mut guest = Guest::attach(&gpu);
    let (mut queue, mut innocent) = (guest.queue(COMPUTE), guest.queue(COMPUTE));
    guest.submit_with_progress(&mut queue, Packets::new().then(spin(LOCAL)));
    for _ in 0..3 {
        let fault = hang_of(&gpu, queue.id);
        assert_eq!(fault.reason, FaultReason::ENGINE_TIMEOUT);
        assert!(fault.address >= HANG.as_millis() as u64);
        guest.run(&mut innocent, Packets::new());
    }
    gpu.preempt_hw_queue(queue.id, 5).unwrap();
    await_interrupt(&gpu, |interrupt| {
        matches!(interrupt, Interrupt::DmaPreempted { preemption_fence: 5, .. }).then_some(())
    });
    wait_until_asleep(&gpu);
    // The queue was suspected too early: it loses nothing.
    guest.write(LOCAL, &1u64.to_le_bytes());
    gpu.resume_hw_queues(&[queue.id]).unwrap();
    guest.wait(queue.progress, 1);
}

/// `DisableGpuTimeout`. The queue has half of the engine, so the hang of another queue shows how much time passed.
#[test]
fn a_queue_whose_timeout_is_off_is_no_hang_and_can_be_preempted() {
    let gpu = start_with_kernels();
    let mut guest = Guest::attach(&gpu);
    let mut endless = guest.queue_without_timeout(COMPUTE);
    let (mut busy, mut innocent) = (guest.queue(COMPUTE), guest.queue(COMPUTE));
    guest.submit_with_progress(&mut endless, Packets::new().then(spin(LOCAL)));
    guest.submit_with_progress(&mut busy, Packets::new().then(spin(LOCAL)));
    for _ in 0..4 {
        let hung = await_interrupt(&gpu, |interrupt| match interrupt {
            Interrupt::GpuEngineStateChange {
                new_state: EngineState::Hung { queue, .. }, ..
            } => Some(queue),
            _ => None,
        });
        assert_eq!(hung, busy.id);
        guest.run(&mut innocent, Packets::new());
    }
    gpu.preempt_hw_queue(endless.id, 5).unwrap();
    await_interrupt(&gpu, |interrupt| {
        matches!(interrupt, Interrupt::DmaPreempted { preemption_fence: 5, .. }).then_some(())
    });
    gpu.resume_hw_queues(&[endless.id]).unwrap();
    guest.write(LOCAL, &1u64.to_le_bytes());
    guest.wait(endless.progress, 1);
    guest.wait(busy.progress, 1);
}

#[test]
fn a_long_command_that_shows_progress_is_no_hang() {
    // Long enough that no step comes near it on a busy machine.
    let hang = Duration::from_millis(300);
    let gpu = start_with(GpuConfig { hang, ..GpuConfig::default() });
    let mut guest = Guest::attach(&gpu);
    let mut queue = guest.queue(COPY);
    // Some milliseconds each, and together more than the time-out.
    let fills = |guest: &mut Guest| {
        let fill = Fill::new(LOCAL, FREE, 0);
        guest.buffer(&(0..40).fold(Packets::new(), |packets, _| packets.then(fill)))
    };
    let buffer = fills(&mut guest);
    let steps = (1..=150).fold(Packets::new(), |packets, value| {
        packets.then(buffer).then(SignalFence::new(queue.progress, value))
    });
    let all = guest.buffer(&steps);
    guest.submit(&mut queue, &Packets::new().then(all));
    guest.wait(queue.progress, 150);
    assert!(gpu.statistics(guest.id).unwrap().engine_time > hang.as_nanos() as u64);
    assert!(!gpu.take_interrupts().iter().any(is_hang));
}

#[test]
fn a_queue_that_waits_for_a_fence_does_not_hang_however_long_it_waits() {
    let gpu = start_with_kernels();
    let mut guest = Guest::attach(&gpu);
    let fence = guest.fence(0);
    let (mut waiter, mut busy) = (guest.queue(COMPUTE), guest.queue(COMPUTE));
    guest.submit_with_progress(&mut waiter, Packets::new().then(WaitFence::new(fence, 1)));
    // Meanwhile the engine is busy for longer than the time-out.
    guest.submit_with_progress(&mut busy, Packets::new().then(spin(LOCAL)));
    hang_of(&gpu, busy.id);
    hang_of(&gpu, busy.id);
    guest.write(LOCAL, &1u64.to_le_bytes());
    guest.wait(busy.progress, 1);
    let hung = |interrupt: &Interrupt| match interrupt {
        Interrupt::GpuEngineStateChange { new_state: EngineState::Hung { queue, .. }, .. } => {
            *queue == waiter.id
        }
        _ => false,
    };
    assert!(!gpu.take_interrupts().iter().any(hung));
    guest.run(&mut busy, Packets::new().then(SignalFence::new(fence, 1)));
    guest.wait(waiter.progress, 1);
}

/// Hangs an engine in a packet that cannot be pre-empted, while another of its queues, in the middle of a copy, waits
/// for its turn.
fn stuck(gpu: &Arc<Gpu>, kernel: Kernel) -> (Guest, Queue, Queue) {
    let mut guest = Guest::attach(gpu);
    let (mut innocent, mut guilty) = (guest.queue(COMPUTE), guest.queue(COMPUTE));
    guest.write(SYSTEM, &noise(FREE as usize));
    let copies = (0..50).fold(Packets::new(), |packets, _| {
        packets.then(Fill::new(LOCAL, FREE, 0)).then(Copy::new(SYSTEM, LOCAL, FREE))
    });
    let buffer = guest.buffer(&copies);
    guest.submit_with_progress(&mut innocent, Packets::new().then(buffer));
    eventually("the copies begin", || gpu.statistics(guest.id).unwrap().bytes > 0);
    let hang = Dispatch::new(kernel, LOCAL, LOCAL, 0, 0);
    let begun = write_data(SYSTEM + FREE, b"begun");
    guest.submit(&mut guilty, &begun.then(hang));
    eventually("the hang begins", || guest.read(SYSTEM + FREE, 5) == b"begun");
    (guest, guilty, innocent)
}

#[test]
fn a_reset_of_the_engine_ends_what_cannot_be_preempted_and_others_lose_nothing() {
    let gpu = start_with_kernels();
    let (guest, guilty, innocent) = stuck(&gpu, Kernel::HANG_UNTIL_ENGINE_RESET);
    eventually("it stands still", || {
        let progress = gpu.engine_progress(COMPUTE).unwrap();
        progress.executing == Some(guilty.id) && !progress.is_asleep
    });
    let turns = gpu.engine_progress(COMPUTE).unwrap().turns;
    gpu.preempt_hw_queue(guilty.id, 1).unwrap();
    // The ticket does not complete, and the stuck engine makes no turns.
    let ticket = gpu.quiesce(None);
    assert_eq!(gpu.engine_progress(COMPUTE).unwrap().turns, turns);
    assert!(gpu.quiesced() < ticket);
    gpu.reset_engine(COMPUTE).unwrap();
    let mut seen = Vec::new();
    while !seen.contains(&Interrupt::EngineReset { node: COMPUTE }) {
        seen.extend(take_interrupts(&gpu));
    }
    let is_fault = |interrupt: &Interrupt| match interrupt {
        Interrupt::HwQueueFault { queue, fault } => {
            *queue == guilty.id && fault.reason == FaultReason::ENGINE_TIMEOUT
        }
        _ => false,
    };
    assert!(seen.iter().any(is_fault), "{seen:?}");
    guest.wait(innocent.progress, 1);
    assert!(guest.read(LOCAL, FREE as usize) == noise(FREE as usize));
    eventually("the ticket", || gpu.quiesced() >= ticket);
}

#[test]
fn what_withstands_a_reset_of_its_engine_ends_with_one_of_the_adapter() {
    let gpu = start_with_kernels();
    let (guest, guilty, innocent) = stuck(&gpu, Kernel::HANG_UNTIL_ADAPTER_RESET);
    gpu.reset_engine(COMPUTE).unwrap();
    gpu.reset_engine(COPY).unwrap();
    // The engine that is not stuck is reset at once.
    await_interrupt(&gpu, |interrupt| {
        assert_ne!(interrupt, Interrupt::EngineReset { node: COMPUTE });
        (interrupt == Interrupt::EngineReset { node: COPY }).then_some(())
    });
    assert_eq!(gpu.engine_progress(COMPUTE).unwrap().executing, Some(guilty.id));
    gpu.reset_adapter();
    let mut seen = Vec::new();
    for node in 0..3 {
        while !seen.contains(&Interrupt::EngineReset { node }) {
            seen.extend(take_interrupts(&gpu));
        }
    }
    // The GPU keeps the other contexts: the kernel decides about them.
    guest.wait(innocent.progress, 1);
}

#[test]
fn a_gpu_ends_while_an_engine_hangs() {
    for kernel in [Kernel::HANG_UNTIL_ENGINE_RESET, Kernel::HANG_UNTIL_ADAPTER_RESET] {
        let gpu = start_with_kernels();
        let (guest, ..) = stuck(&gpu, kernel);
        drop((guest, gpu));
    }
}

#[test]
fn kernels_that_hang_are_there_only_where_they_are_allowed() {
    let mut guest = Guest::start();
    for kernel in [Kernel::HANG_UNTIL_ENGINE_RESET, Kernel::HANG_UNTIL_ADAPTER_RESET] {
        let mut queue = guest.queue(COMPUTE);
        let hang = Dispatch::new(kernel, LOCAL, LOCAL, 0, 0);
        let fault = guest.run_into_fault(&mut queue, &Packets::new().then(hang));
        assert_eq!(fault.reason, FaultReason::NOT_SUPPORTED_BY_NODE);
        assert_eq!(fault.address, u64::from(kernel.0));
    }
}

#[test]
fn an_always_signaled_fence_holds_no_waiter_and_ignores_signals() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let fence = guest.fence(5);
    let (mut waiter, mut signaler) = (guest.queue(COPY), guest.queue(COMPUTE));
    guest.submit_with_progress(&mut waiter, Packets::new().then(WaitFence::new(fence, 1000)));
    let always = SlotValue { slot: fence, value: u64::MAX };
    gpu.update_current_values(guest.id, &[always], true).unwrap();
    guest.wait(waiter.progress, 1);
    assert_eq!(gpu.fence_value(guest.id, fence).unwrap(), u64::MAX);
    assert_eq!(guest.published(fence), u64::MAX);
    guest.run(&mut signaler, Packets::new().then(SignalFence::new(fence, 6)));
    guest.run(&mut waiter, Packets::new().then(WaitFence::new(fence, u64::MAX)));
    assert_eq!(guest.published(fence), u64::MAX);
    // The next fence in this slot is an ordinary one.
    gpu.close_fence(guest.id, fence).unwrap();
    quiesce(&gpu);
    create_fence(&gpu, guest.id, fence, guest.space, 3);
    guest.run(&mut signaler, Packets::new().then(SignalFence::new(fence, 4)));
    assert_eq!(guest.published(fence), 4);
    let backwards = Packets::new().then(SignalFence::new(fence, 2));
    let fault = guest.run_into_fault(&mut signaler, &backwards);
    assert_eq!(fault.reason, FaultReason::FENCE_WENT_BACKWARDS);
}

/// A GPU whose system contexts are on the node that has kernels.
fn start_with_kernels_for_paging() -> Arc<Gpu> {
    start_with(GpuConfig {
        test_kernels: true,
        hang: HANG,
        copy_engines: 0,
        ..GpuConfig::default()
    })
}

#[test]
fn only_the_paging_buffer_that_hangs_is_reported_and_given_up() {
    let gpu = start_with_kernels_for_paging();
    let mut guest = Guest::attach(&gpu);
    let mut innocent = guest.queue(COMPUTE);
    let mut system = System::of(&guest);
    let queue = system.context.hw_queue;
    let hung = system.submit(&Packets::new().then(spin(LOCAL_START)));
    let next = system.submit(&write_data(LOCAL_START + 64, b"next"));
    for preemption_fence in [1, 2] {
        let fault = hang_of(&gpu, queue);
        assert_eq!((fault.reason, fault.opcode), (FaultReason::ENGINE_TIMEOUT, Opcode::DISPATCH));
        gpu.preempt_hw_queue(queue, preemption_fence).unwrap();
        await_interrupt(&gpu, |interrupt| match interrupt {
            Interrupt::DmaPreempted { preemption_fence: told, .. } => {
                (told == preemption_fence).then_some(())
            }
            _ => None,
        });
        guest.run(&mut innocent, Packets::new());
        // Abandoning another buffer does not end the hang.
        gpu.abandon_paging(guest.id, if preemption_fence == 1 { next } else { hung }).unwrap();
    }
    let fault = system.wait_into_fault(hung);
    assert_eq!((fault.reason, fault.opcode), (FaultReason::ENGINE_TIMEOUT, Opcode::DISPATCH));
    system.wait(next);
    assert_eq!(guest.read(LOCAL + 64, 4), b"next");
    // A buffer that had completed when it was abandoned has not failed.
    gpu.preempt_hw_queue(queue, 3).unwrap();
    gpu.abandon_paging(guest.id, next).unwrap();
    system.run(write_data(LOCAL_START + 64, b"more"));
}

#[test]
fn a_paging_buffer_that_cannot_be_preempted_ends_with_a_reset_and_the_next_is_executed() {
    let gpu = start_with_kernels_for_paging();
    let guest = Guest::attach(&gpu);
    let mut system = System::of(&guest);
    let queue = system.context.hw_queue;
    let hang = Dispatch::new(Kernel::HANG_UNTIL_ENGINE_RESET, LOCAL_START, LOCAL_START, 0, 0);
    let hung = system.submit(&Packets::new().then(hang));
    let next = system.submit(&write_data(LOCAL_START, b"next"));
    eventually("it hangs", || gpu.engine_progress(COMPUTE).unwrap().executing == Some(queue));
    gpu.preempt_hw_queue(queue, 1).unwrap();
    gpu.reset_engine(COMPUTE).unwrap();
    let fault = system.wait_into_fault(hung);
    assert_eq!(fault.reason, FaultReason::ENGINE_TIMEOUT);
    gpu.abandon_paging(guest.id, hung).unwrap();
    system.wait(next);
    assert_eq!(guest.read(LOCAL, 4), b"next");
}
