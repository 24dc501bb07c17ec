// SPDX-License-Identifier: MIT OR Apache-2.0

//! Interrupts that name the HW queue whose log says which fences were signaled.

use crate::support::log_buffers::{entries, logged_queue};
use crate::support::rig::*;
use bellhop_device::gpu::{Gpu, GpuConfig};
use bellhop_host_kmd::hardware::{
    CurrentValues as _, Doorbells as _, DriverCaps as _, Interrupt, Interrupts as _, Queues as _,
};
use bellhop_protocol::fence_log::{FenceLogOperation, FenceLogType};
use bellhop_protocol::packet::fence::{
    ConditionalInterrupt, LogFence, LoggedSignal, SignalFence, WriteFence,
};
use bellhop_protocol::packet::flow::NOP;
use std::sync::Arc;

fn optimized() -> Arc<Gpu> {
    start_with(GpuConfig { optimized_fence_interrupt: true, ..GpuConfig::default() })
}

fn logged(queue: &Queue) -> Interrupt {
    Interrupt::NativeFencesLogged { node: COPY, engine: 0, queue: Some(queue.id) }
}

#[test]
fn signals_that_are_logged_interrupt_once_with_their_queue_until_that_is_taken() {
    let gpu = optimized();
    let mut guest = Guest::attach(&gpu);
    let [one, two] = [guest.fence(0), guest.fence(0)];
    let mut queue = logged_queue(&mut guest, COPY);
    assert!(gpu.optimized_fence_interrupt());
    for round in 1..=50 {
        for fence in [one, two] {
            monitor(&gpu, guest.id, fence, 2 * round - 2);
        }
        let mut packets = Packets::new();
        for value in [2 * round - 1, 2 * round] {
            packets =
                packets.then(LoggedSignal::new(one, value)).then(LoggedSignal::new(two, value));
        }
        guest.run(&mut queue, packets);
        assert_eq!(take_interrupts(&gpu), [logged(&queue)]);
        assert_eq!(gpu.take_interrupts(), []);
    }
    assert_eq!(gpu.fence_value(guest.id, two).unwrap(), 100);
}

#[test]
fn what_the_log_does_not_end_with_interrupts_with_its_fence() {
    let gpu = optimized();
    let mut guest = Guest::attach(&gpu);
    let [fence, other] = [guest.fence(0), guest.fence(0)];
    let mut queue = logged_queue(&mut guest, COPY);
    let (write, evaluate) =
        (|value| WriteFence::new(fence, value), ConditionalInterrupt::new(fence));
    let log = |slot, operation| LogFence::new(slot, 1, operation);
    let (signal, wait) = (FenceLogOperation::SIGNAL_EXECUTED, FenceLogOperation::WAIT_UNBLOCKED);
    let buffers = [
        Packets::new().then(SignalFence::new(fence, 1)),
        Packets::new().then(write(2)).then(evaluate),
        Packets::new().then(write(3)).then(log(other, signal)).then(evaluate),
        Packets::new().then(write(4)).then(log(fence, wait)).then(evaluate),
        Packets::new().then(write(5)).then(log(fence, signal)).then(NOP).then(evaluate),
    ];
    for (packets, value) in buffers.into_iter().zip(1..) {
        monitor(&gpu, guest.id, fence, value - 1);
        guest.run(&mut queue, packets);
        assert_eq!(take_interrupts(&gpu), [fence_signaled(guest.id, fence)]);
    }
    // A queue without a log has logged nothing.
    let mut queue = guest.queue(COPY);
    monitor(&gpu, guest.id, fence, 5);
    guest.run(&mut queue, Packets::new().then(LoggedSignal::new(fence, 6)));
    assert_eq!(take_interrupts(&gpu), [fence_signaled(guest.id, fence)]);
}

#[test]
fn an_interrupt_of_a_queue_that_is_gone_names_its_guest() {
    let gpu = optimized();
    let mut guest = Guest::attach(&gpu);
    let fence = guest.fence(0);
    let mut queue = logged_queue(&mut guest, COPY);
    monitor(&gpu, guest.id, fence, 0);
    guest.run(&mut queue, Packets::new().then(LoggedSignal::new(fence, 1)));
    assert_eq!(entries(&gpu, queue.id, FenceLogType::SIGNALS).len(), 1);
    gpu.unwatch(guest.physical_doorbell(&queue)).unwrap();
    gpu.destroy_hw_queue(queue.id).unwrap();
    assert_eq!(take_interrupts(&gpu), [Interrupt::GoneQueueLogged { guest: guest.id }]);
}
