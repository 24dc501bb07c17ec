// SPDX-License-Identifier: MIT OR Apache-2.0

//! Fences that guests share: guests of two adapters, or of one.

use crate::support::{
    self, Daemon, TIMEOUT, adapter_of, assert_every_behaviour_is_seen, refusal, while_awaited,
};
use bellhop_guest::client::{Client, Shape};
use bellhop_guest::fake_guest::FakeGuest;
use bellhop_guest::inspect::Selection;
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::{CommandBuffer, Device, Error, Fence, KernelModeQueue};
use bellhop_protocol::control::fence::NtHandle;
use bellhop_protocol::status::Status;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use vm_memory::VolatileMemory;

/// Sockets 0 and 1 have separate adapters; socket 2 shares the adapter of socket 0. The policy names 0 with 1, and 0
/// with 2.
const TWO: &str = "[adapters.second]\n\
    [attach]\n\"gpu1.sock\" = \"second\"\n\
    [fence_sharing]\nadapters = [\"gpu0.sock\", \"gpu1.sock\"]\n\
    guests = [\"gpu0.sock\", \"gpu2.sock\"]\n";

/// Two adapters with optimized fence interrupts: the kernel learns from queues' logs which fences were signaled.
const LOGGED: &str = "[adapter]\noptimized_fence_interrupt = true\n\
    [adapters.second]\noptimized_fence_interrupt = true\n\
    [attach]\n\"gpu1.sock\" = \"second\"\n\
    [fence_sharing]\nadapters = [\"gpu0.sock\", \"gpu1.sock\"]\n";

/// A guest with a device and a queue.
struct Party {
    guest: Arc<FakeGuest>,
    client: Client,
}

impl Party {
    fn new(daemon: &Daemon, number: usize) -> Self {
        let guest = support::guest(daemon, number);
        let shape = Shape { node: 1, commands: 32 << 10, ..Shape::default() };
        let client = support::client_of(&guest, shape);
        Self { guest, client }
    }

    /// Submits waits and signals, in turn; returns the value that the progress fence gets.
    fn submit(&mut self, fence: &Fence, steps: impl IntoIterator<Item = Step>) -> u64 {
        let commands = &mut self.client.commands;
        commands.reset();
        for step in steps {
            match step {
                Step::Wait(value) => commands.wait_fence(fence, value).unwrap(),
                Step::Signal(value) => commands.signal_fence(fence, value).unwrap(),
            };
        }
        self.client.submit().unwrap()
    }

    fn finish(&self, progress: u64) {
        self.client.queue.progress_fence().wait(progress, TIMEOUT).unwrap();
    }

    fn run(&mut self, fence: &Fence, steps: impl IntoIterator<Item = Step>) {
        let progress = self.submit(fence, steps);
        self.finish(progress);
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Wait(u64),
    Signal(u64),
}

/// The second adapter has no native fences.
const MIXED: &str = "[adapters.second]\nnative_fences = false\n\
    [attach]\n\"gpu1.sock\" = \"second\"\n\
    [fence_sharing]\nadapters = [\"gpu0.sock\", \"gpu1.sock\"]\n";

/// A device of a guest whose adapter has no native fences, with a queue for kernel-mode submission.
struct Legacy {
    device: Device,
    queue: KernelModeQueue,
    commands: CommandBuffer,
}

impl Legacy {
    fn new(daemon: &Daemon, number: usize) -> Self {
        let device = adapter_of(&support::guest(daemon, number)).create_device().unwrap();
        let queue = device.create_context(1).unwrap().create_kernel_mode_queue().unwrap();
        let commands = CommandBuffer::new(&device, 4096).unwrap();
        Self { device, queue, commands }
    }
}

/// Two parties with one fence.
fn parties(daemon: &Daemon, others: usize) -> (Party, Fence, Party, Fence) {
    let (one, two) = (Party::new(daemon, 0), Party::new(daemon, others));
    let fence = one.client.device.fence(0).cross_adapter().create().unwrap();
    let opened = two.client.device.open_fence(fence.share().unwrap()).unwrap();
    (one, fence, two, opened)
}

/// Engines of the two guests signal for each other, over and over, without a guest's CPU.
fn engines_take_turns(daemon: &Daemon, others: usize) {
    const TURNS: u64 = 200;
    let (mut one, here, mut two, there) = parties(daemon, others);
    let odd = (1..TURNS).step_by(2);
    let first = odd.clone().flat_map(|value| [Step::Signal(value), Step::Wait(value + 1)]);
    let second = odd.flat_map(|value| [Step::Wait(value), Step::Signal(value + 1)]);
    let ends = (two.submit(&there, second), one.submit(&here, first));
    two.finish(ends.0);
    one.finish(ends.1);
    here.poll(TURNS, TIMEOUT).unwrap();
    there.poll(TURNS, TIMEOUT).unwrap();
}

#[test]
fn engines_of_two_adapters_wait_for_each_other() {
    engines_take_turns(&Daemon::start_with(3, TWO), 1);
}

#[test]
fn engines_wait_for_each_other_where_logs_say_what_was_signaled() {
    engines_take_turns(&Daemon::start_with(2, LOGGED), 1);
}

#[test]
fn engines_of_two_guests_of_one_adapter_wait_for_each_other() {
    engines_take_turns(&Daemon::start_with(3, TWO), 2);
}

#[test]
fn a_cpu_waits_for_an_engine_and_for_a_cpu_of_the_other_adapter() {
    let daemon = Daemon::start_with(3, TWO);
    let (mut one, here, mut two, there) = parties(&daemon, 1);
    while_awaited(&there, 1, || one.run(&here, [Step::Signal(1)]));
    while_awaited(&here, 2, || there.signal(2).unwrap());
    // An engine waits for a CPU of the other.
    let progress = two.submit(&there, [Step::Wait(3)]);
    here.signal(3).unwrap();
    two.finish(progress);
    assert_eq!((here.current_value().unwrap(), there.current_value().unwrap()), (3, 3));
}

/// The wait/signal combinations of the reference in which one adapter has native fences and the other has
/// monitored ones.
fn native_and_monitored(native: &mut Party, here: &Fence, legacy: &mut Legacy, there: &Fence) {
    assert_ne!(here.mapping().monitored_value_gpu_va, 0);
    assert_eq!(there.mapping().monitored_value_gpu_va, 0);
    // A software queue waits for an engine, and an engine for a software queue.
    legacy.queue.wait_for_fences(&[(there, 1)]).unwrap();
    legacy.commands.reset();
    let held = legacy.queue.submit(legacy.commands.nop().unwrap()).unwrap();
    legacy.queue.signal_fences(&[(there, 2)]).unwrap();
    assert_eq!(legacy.queue.progress_fence().current_value().unwrap(), 0);
    native.run(here, [Step::Signal(1), Step::Wait(2)]);
    legacy.queue.progress_fence().wait(held, TIMEOUT).unwrap();
    // An engine waits for a packet of the other adapter.
    let progress = native.submit(here, [Step::Wait(3)]);
    legacy.commands.reset();
    legacy.queue.submit(legacy.commands.signal_fence(there, 3).unwrap()).unwrap();
    native.finish(progress);
    // CPUs of both wait, and signal.
    while_awaited(there, 4, || here.signal(4).unwrap());
    while_awaited(here, 5, || there.signal(5).unwrap());
    while_awaited(there, 6, || native.run(here, [Step::Signal(6)]));
    let seen = [here, there].map(|fence| fence.current_value().unwrap());
    assert_eq!(seen, [6, 6]);
}

#[test]
fn a_native_fence_is_opened_as_a_monitored_one_where_there_are_no_native_fences() {
    let daemon = Daemon::start_with(2, MIXED);
    let (mut native, mut legacy) = (Party::new(&daemon, 0), Legacy::new(&daemon, 1));
    let here = native.client.device.fence(0).cross_adapter().create().unwrap();
    let there = legacy.device.open_fence(here.share().unwrap()).unwrap();
    native_and_monitored(&mut native, &here, &mut legacy, &there);
}

#[test]
fn a_monitored_fence_is_opened_as_a_native_one_where_there_are_native_fences() {
    let daemon = Daemon::start_with(2, MIXED);
    let (mut native, mut legacy) = (Party::new(&daemon, 0), Legacy::new(&daemon, 1));
    let there = legacy.device.fence(0).monitored().cross_adapter().create().unwrap();
    let here = native.client.device.open_fence(there.share().unwrap()).unwrap();
    native_and_monitored(&mut native, &here, &mut legacy, &there);
}

#[test]
fn without_a_policy_nothing_is_shared_and_a_name_does_not_tell_whether_its_fence_exists() {
    let daemon = Daemon::start_with(3, TWO);
    let (_one, fence, _two, _opened) = parties(&daemon, 1);
    let name = fence.share().unwrap();
    // The creator of the fence may share with the third guest; the guest that opened it may not.
    let third = Party::new(&daemon, 2);
    assert_eq!(refusal(third.client.device.open_fence(name)), Status::INVALID_PARAMETER);
    let unknown = NtHandle(name.0 ^ 1);
    assert_eq!(refusal(third.client.device.open_fence(unknown)), Status::INVALID_PARAMETER);

    let daemon = Daemon::start(2);
    let [one, two] = [0, 1].map(|number| Party::new(&daemon, number));
    assert_eq!(refusal(one.client.device.fence(0).cross_adapter().create()), Status::NOT_SUPPORTED);
    let own = one.client.device.fence(0).shared().create().unwrap();
    assert_eq!(
        refusal(two.client.device.open_fence(own.share().unwrap())),
        Status::INVALID_PARAMETER
    );
}

#[test]
fn a_guest_that_writes_over_its_publication_misleads_itself_alone() {
    let daemon = Daemon::start_with(3, TWO);
    let (mut one, here, mut two, there) = parties(&daemon, 1);
    let bar = one.guest.bar().unwrap();
    let at = here.mapping().current_value_offset as usize;
    let word: &std::sync::atomic::AtomicU64 = bar.region.get_atomic_ref(at).unwrap();
    word.store(u64::MAX, Ordering::Release);
    assert_eq!(there.current_value().unwrap(), 0);
    let held = two.submit(&there, [Step::Wait(1), Step::Signal(2)]);
    assert!(matches!(there.wait(1, Duration::from_millis(50)), Err(Error::Timeout { .. })));
    word.store(u64::MAX, Ordering::Release);
    one.run(&here, [Step::Signal(1), Step::Wait(2)]);
    two.finish(held);
    assert_eq!((here.current_value().unwrap(), there.current_value().unwrap()), (2, 2));
}

#[test]
fn a_guest_that_dies_leaves_the_fence_to_the_other() {
    let daemon = Daemon::start_with(3, TWO);
    let (mut one, here, mut two, there) = parties(&daemon, 1);
    let held = two.submit(&there, [Step::Wait(5)]);
    one.run(&here, [Step::Signal(4)]);
    there.wait(4, TIMEOUT).unwrap();
    let name = there.share().unwrap();
    one.guest.kill();
    daemon.await_log("front end disconnected");
    // Only waiters for the fence are held, and only until it is signaled.
    let mut queue = two.client.queue_on(0).unwrap();
    let mut commands = two.client.more_commands(64).unwrap();
    let value = queue.submit(commands.signal_fence(&there, 5).unwrap()).unwrap();
    queue.progress_fence().wait(value, TIMEOUT).unwrap();
    two.finish(held);
    // The socket's next guest may open it again.
    let mut next = Party::new(&daemon, 0);
    let again = next.client.device.open_fence(name).unwrap();
    next.run(&again, [Step::Wait(5), Step::Signal(6)]);
    there.wait(6, TIMEOUT).unwrap();
}

#[test]
fn the_suite_sees_what_the_policy_allows_a_guest() {
    let daemon = Daemon::start_with(3, TWO);
    assert_every_behaviour_is_seen(&daemon.selftest(&["fence.cross."]), &[]);
}

#[test]
fn tools_see_that_a_fence_is_of_several_guests() {
    let mut daemon = Daemon::start_with(3, TWO);
    let (_one, fence, _two, _opened) = parties(&daemon, 1);
    fence.signal(9).unwrap();
    for seen in daemon.snapshots(Selection::default()) {
        let guest = &seen.guests[0];
        let fences = &guest.processes[0].devices[0].fences;
        let seen: Vec<_> = fences.iter().map(|f| (f.value, f.monitored, f.cross_adapter)).collect();
        assert_eq!(seen, [(9, Some(0), true)]);
        let used = guest.quotas.iter().find(|quota| quota.what == "cross-adapter fences");
        assert_eq!(used.map(|quota| (quota.used, quota.limit)), Some((1, 64)));
    }
    daemon.end();
}
