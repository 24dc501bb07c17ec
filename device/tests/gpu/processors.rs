//! Engines and guests that share a processor.

use crate::rig::*;
use bellhop_device::gpu::GpuConfig;
use bellhop_host_kmd::hardware::Hardware;
use bellhop_protocol::control::adapter::Statistics;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::time::Duration;

/// Keeps this thread, and those that it starts, on one of its processors.
fn stay_on_one_processor() {
    let allowed = sched_getaffinity(None).unwrap();
    let first = (0..CpuSet::MAX_CPU).find(|processor| allowed.is_set(*processor)).unwrap();
    let mut one = CpuSet::new();
    one.set(first);
    sched_setaffinity(None, &one).unwrap();
}

#[test]
fn an_engine_lets_the_guest_run_that_shares_its_processor() {
    stay_on_one_processor();
    // It never sleeps, so that only its own yields and the ends of time slices let the guest run.
    let gpu = start_with(GpuConfig { spin: Duration::from_secs(30), ..GpuConfig::default() });
    let mut guest = Guest::attach(&gpu);
    let mut queue = guest.queue(COMPUTE);
    const ROUND_TRIPS: u64 = 400;
    for _ in 0..ROUND_TRIPS {
        guest.run(&mut queue, Packets::new());
    }
    let yields = gpu.engine_habits()[COMPUTE as usize].yields;
    assert!(yields >= ROUND_TRIPS / 4, "{yields} yields in {ROUND_TRIPS} round trips");
}

#[test]
fn a_guests_statistics_tell_nothing_of_its_neighbours() {
    let gpu = start();
    let (mut busy, mut idle) = (Guest::attach(&gpu), Guest::attach_with(&gpu, 8));
    let (mut queue, mut of_idle) = (busy.queue(COMPUTE), idle.queue(COMPUTE));
    wait_until_asleep(&gpu);
    idle.run(&mut of_idle, Packets::new());
    let before = gpu.statistics(idle.id);
    assert_eq!(before.engine_wakeups, 1);
    for round in 0..20 {
        wait_until_asleep(&gpu);
        assert_eq!(gpu.statistics(idle.id), before, "after {round} rounds of the neighbour's");
        busy.run(&mut queue, Packets::new());
        assert_eq!(gpu.statistics(idle.id), before, "in {round} rounds of the neighbour's");
    }
    assert_eq!(gpu.statistics(busy.id).engine_wakeups, 20);
    assert_eq!(gpu.statistics(idle.id).reserved, Statistics::default().reserved);
}
