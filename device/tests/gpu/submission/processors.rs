// SPDX-License-Identifier: MIT OR Apache-2.0

//! Engines and guests that share a processor.

use crate::support::one_processor::stay_on_one_processor;
use crate::support::rig::*;
use bellhop_device::gpu::GpuConfig;
use bellhop_host_kmd::hardware::Observe as _;
use bellhop_protocol::control::adapter::Statistics;
use std::time::Duration;

#[test]
fn an_engine_lets_the_guest_run_that_shares_its_processor() {
    stay_on_one_processor();
    // The engine never sleeps, so that only its yields and the ends of time slices let the guest run.
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
    // A turn is counted when it is over, which is after its fence is signaled.
    wait_until_asleep(&gpu);
    let before = gpu.statistics(idle.id).unwrap();
    assert_eq!(before.engine_wakeups, 1);
    for round in 0..20 {
        wait_until_asleep(&gpu);
        assert_eq!(
            gpu.statistics(idle.id).unwrap(),
            before,
            "after {round} rounds of the neighbour's"
        );
        busy.run(&mut queue, Packets::new());
        assert_eq!(
            gpu.statistics(idle.id).unwrap(),
            before,
            "in {round} rounds of the neighbour's"
        );
    }
    assert_eq!(gpu.statistics(busy.id).unwrap().engine_wakeups, 20);
    assert_eq!(gpu.statistics(idle.id).unwrap().reserved, Statistics::default().reserved);
}
