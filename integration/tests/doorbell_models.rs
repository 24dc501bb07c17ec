//! Each model of doorbells, over the real transport: the conformance suite, and what is hard for it.

mod support;

use bellhop_guest::fake_guest::{FakeGuest, GuestOptions, QEMU};
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::{Adapter, CommandBuffer};
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use serde_json::Value;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use support::{Daemon, bellhop};

const TIMEOUT: Duration = Duration::from_secs(60);

const GLOBAL: &str = "[adapter]\ndoorbell_model = \"global\"\n";

/// Runs the conformance suite against such a daemon. All of it must pass but what is not offered,
/// which must be exactly this.
#[track_caller]
fn conform(configuration: &str, vmm: &str, placement: &str, not_offered: &[&str]) {
    let daemon = Daemon::start_with(1, configuration);
    let output = bellhop()
        .args(["selftest", "--json", "--vmm", vmm, "--placement", placement, "--socket-path"])
        .arg(daemon.socket(0))
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = report["checks"].as_array().unwrap();
    let of = |outcome: &'static str| checks.iter().filter(move |c| c["outcome"] == outcome);
    let failed: Vec<_> = of("failed").collect();
    assert!(failed.is_empty(), "{vmm} {placement}: {failed:#?}");
    let absent: Vec<_> = of("not-offered").map(|check| check["id"].as_str().unwrap()).collect();
    assert_eq!(absent, not_offered, "{vmm} {placement}");
    assert!(output.status.success());
}

#[test]
fn every_behaviour_is_seen_with_dedicated_doorbells_that_are_watched() {
    let said = "[adapter]\ndoorbell_model = \"dedicated\"\n";
    conform(said, QEMU.name, "measured", &[]);
}

#[test]
fn every_behaviour_is_seen_with_a_global_doorbell() {
    for placement in ["bar", "guest-memory", "around-slow-bar"] {
        conform(GLOBAL, QEMU.name, placement, &["doorbell.victim"]);
    }
    conform(GLOBAL, "cloud-hypervisor", "measured", &["doorbell.victim"]);
}

/// Sixteen threads, on three engines, ring one word as fast as they can, with engines that fall
/// asleep all the time and with engines that never do.
#[test]
fn however_many_ring_one_word_nothing_is_lost() {
    const QUEUES: usize = 16;
    const ROUNDS: u64 = 400;
    for spin in [0, 50, 100_000] {
        let configuration = format!("{GLOBAL}spin_us = {spin}\n");
        let daemon = Daemon::start_with(2, &configuration);
        let guests = [0, 1].map(|number| {
            FakeGuest::connect(&daemon.socket(number), GuestOptions::default()).unwrap()
        });
        let adapters = guests
            .each_ref()
            .map(|guest| Adapter::open(Arc::clone(guest) as Arc<dyn Transport>).unwrap());
        thread::scope(|threads| {
            for number in 0..QUEUES {
                let adapter = &adapters[number % adapters.len()];
                threads.spawn(move || {
                    let device = adapter.create_device().unwrap();
                    let context = device.create_context(number as u32 % 3).unwrap();
                    let mut queue = context.create_user_mode_queue(4096).unwrap();
                    let mut commands = CommandBuffer::new(&device, 256).unwrap();
                    let memory = device.create_allocation(AllocationKind::SYSTEM, 4096).unwrap();
                    let memory = memory.map(Protection::WRITE).unwrap();
                    for round in 1..=ROUNDS {
                        let words = round.to_le_bytes();
                        commands.write_data(memory.gpu_va(), &words).unwrap();
                        let value = queue.submit(&mut commands).unwrap();
                        assert_eq!(value, round);
                        queue.progress_fence().poll(value, TIMEOUT).unwrap();
                        let mut written = [0; 8];
                        memory.allocation().read(0, &mut written).unwrap();
                        assert_eq!(written, words);
                        commands.reset();
                    }
                    assert_eq!(queue.progress_fence().current_value().unwrap(), ROUNDS);
                    let counters = queue.counters();
                    assert_eq!((counters.connects, counters.rings), (1, ROUNDS + 1));
                });
            }
        });
        for (adapter, guest) in adapters.iter().zip(&guests) {
            assert_eq!(adapter.statistics().unwrap().victims, 0);
            assert_eq!(guest.violations(), []);
        }
    }
}
