//! What is accepted is executed, or whoever waits for it is told, whoever ends or loses its power meanwhile: over
//! the real transport.

mod support;

use bellhop_guest_umd::{Adapter, CommandBuffer, Device, Fence, GpuMapping, UserModeQueue};
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::control::power::DevicePowerState;
use bellhop_protocol::doorbell::ConnectionStatus;
use std::thread;
use std::time::Duration;
use support::Daemon;

const TIMEOUT: Duration = Duration::from_secs(30);
/// One physical doorbell, so that whoever connects takes it from the one before; nothing but requests takes
/// power away, and nothing that is waited for is given up within a test.
const CONFIGURATION: &str = "[adapter]\nphysical_doorbells = 1\nengine_idle_ms = 0\n\
     timeout_ms = 600000\n\
     [guest]\npower_control = true\n\
     [fence_sharing]\nguests = [\"gpu0.sock\", \"gpu1.sock\"]\n";

/// A process with a queue and memory.
struct Party {
    queue: UserModeQueue,
    commands: CommandBuffer,
    memory: GpuMapping,
    device: Device,
    adapter: Adapter,
}

impl Party {
    fn new(daemon: &Daemon, number: usize) -> Self {
        Self::of(Adapter::open(support::guest(daemon, number)).unwrap())
    }

    fn of(adapter: Adapter) -> Self {
        let device = adapter.create_device().unwrap();
        let memory = device.create_allocation(AllocationKind::SYSTEM, 4096).unwrap();
        let memory = memory.map(Protection::WRITE).unwrap();
        let context = device.create_context(0).unwrap();
        let queue = context.create_user_mode_queue(4096).unwrap();
        let commands = CommandBuffer::new(&device, 256).unwrap();
        Self { queue, commands, memory, device, adapter }
    }

    /// Has the queue do something and waits for it, so that its doorbell is connected.
    fn warm(&mut self) {
        let value = self.queue.submit(self.commands.nop().unwrap()).unwrap();
        self.queue.progress_fence().poll(value, TIMEOUT).unwrap();
        self.commands.reset();
    }

    /// Submits a wait for a fence. It is executed as soon as the fence has the value.
    fn wait_for(&mut self, fence: &Fence, value: u64) -> u64 {
        self.commands.wait_fence(fence, value).unwrap();
        self.queue.submit(&mut self.commands).unwrap()
    }

    fn finish(&self, value: u64) {
        self.queue.progress_fence().poll(value, TIMEOUT).unwrap();
    }

    fn word(&self) -> u64 {
        word(&self.memory)
    }
}

/// The first word of memory.
fn word(memory: &GpuMapping) -> u64 {
    let mut word = [0; 8];
    memory.allocation().read(0, &mut word).unwrap();
    u64::from_le_bytes(word)
}

#[test]
fn a_queue_whose_doorbell_is_a_victim_executes_what_it_was_given_before_it_ends() {
    let daemon = Daemon::start_with(2, CONFIGURATION);
    let mut rival = Party::new(&daemon, 1);
    for round in 1..=4u64 {
        let mut party = Party::new(&daemon, 0);
        party.warm();
        rival.warm();
        assert_eq!(party.queue.status().unwrap(), ConnectionStatus::DISCONNECTED_RETRY);
        // Into the ring, and no further: it is destroyed next, and not connected first.
        party.commands.write_data(party.memory.gpu_va(), &round.to_le_bytes()).unwrap();
        party.queue.queue(&mut party.commands).unwrap();
        assert_eq!(party.word(), 0, "nobody looked at it");
        let Party { queue, memory, .. } = party;
        drop(queue);
        assert_eq!(word(&memory), round, "it was not executed");
    }
}

#[test]
fn work_of_one_guest_is_not_left_in_d3_when_another_asks_for_it() {
    let daemon = Daemon::start_with(2, CONFIGURATION);
    let (mut worker, other) = (Party::new(&daemon, 0), Party::new(&daemon, 1));
    for round in 1..=20u64 {
        worker.commands.write_data(worker.memory.gpu_va(), &round.to_le_bytes()).unwrap();
        let value = worker.queue.submit(&mut worker.commands).unwrap();
        other.adapter.set_device_power(DevicePowerState::D3).unwrap();
        // Nobody asks for power: the guest only looks at its fence.
        worker.finish(value);
        assert_eq!(worker.word(), round);
        worker.commands.reset();
    }
}

#[test]
fn a_queue_that_waits_in_d3_goes_on_whoever_signals_its_fence() {
    let daemon = Daemon::start_with(2, CONFIGURATION);
    let (mut waiting, mut other) = (Party::new(&daemon, 0), Party::new(&daemon, 1));
    let fence = other.device.create_cross_adapter_fence(0).unwrap();
    let opened = waiting.device.open_fence(fence.share().unwrap()).unwrap();
    for round in 0..4u64 {
        let signal = round + 1;
        let value = waiting.wait_for(&opened, signal);
        other.adapter.set_device_power(DevicePowerState::D3).unwrap();
        match round {
            0 => fence.signal(signal).unwrap(),
            1 => opened.signal(signal).unwrap(),
            _ => {
                other.commands.reset();
                other.commands.signal_fence(&fence, signal).unwrap();
                other.queue.submit(&mut other.commands).unwrap();
            }
        }
        waiting.finish(value);
        waiting.commands.reset();
    }
}

#[test]
fn whoever_waits_for_the_fence_of_a_process_that_dies_or_a_guest_that_goes_is_told() {
    for dies in [true, false] {
        let daemon = Daemon::start_with(2, CONFIGURATION);
        let mut waiting = Party::new(&daemon, 0);
        let guest = support::guest(&daemon, 1);
        let gone = Party::of(Adapter::open(guest.clone()).unwrap());
        let fence = gone.device.create_cross_adapter_fence(0).unwrap();
        let opened = waiting.device.open_fence(fence.share().unwrap()).unwrap();
        let value = waiting.wait_for(&opened, 5);
        thread::scope(|threads| {
            let waiter = threads.spawn(|| opened.wait(5, TIMEOUT));
            if dies {
                gone.adapter.terminate_abnormally().unwrap();
            } else {
                // As a reboot does, without destroying anything.
                guest.reset().unwrap();
            }
            waiter.join().unwrap().unwrap();
        });
        waiting.finish(value);
        // What it had is gone, and is not to be destroyed.
        std::mem::forget((fence, gone));
    }
}
