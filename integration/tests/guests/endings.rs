// SPDX-License-Identifier: MIT OR Apache-2.0

//! When a queue, a process or a guest ends and when the device loses its power, accepted work is executed or its
//! waiters are told: over the real transport.

use crate::support::{self, Daemon, TIMEOUT, client, submit_once, while_awaited};
use bellhop_guest::client::{Client, Shape, request};
use bellhop_guest_umd::{Error, Fence, GpuMapping};
use bellhop_protocol::control::doorbell::ConnectDoorbell;
use bellhop_protocol::control::power::DevicePowerState;
use bellhop_protocol::control::process::{DestroyProcess, TERMINATED_ABNORMALLY};
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::packet::dispatch::Kernel;
use std::sync::atomic::Ordering;

/// One physical doorbell, so that each connect takes it from the previous queue; only requests take power away, and
/// no wait times out within a test.
const CONFIGURATION: &str = "[adapter]\nphysical_doorbells = 1\nengine_idle = \"0s\"\n\
     timeout = \"10m\"\n\
     [debug]\npower_control = true\n\
     [fence_sharing]\nguests = [\"gpu0.sock\", \"gpu1.sock\"]\n";

/// Submits a wait for a fence. It is executed as soon as the fence has the value.
fn wait_for(client: &mut Client, fence: &Fence, value: u64) -> u64 {
    client.commands.wait_fence(fence, value).unwrap();
    client.submit().unwrap()
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
    let mut rival = client(&daemon, 1);
    for round in 1..=4u64 {
        let mut party = client(&daemon, 0);
        // So that its doorbell is connected, and then the rival's.
        submit_once(&mut party);
        submit_once(&mut rival);
        assert_eq!(party.queue.status(), ConnectionStatus::DISCONNECTED_RETRY);
        // Only into the ring: the queue is destroyed next without being connected.
        party.commands.write_data(party.memory.gpu_va(), &round.to_le_bytes()).unwrap();
        party.queue.queue(&mut party.commands).unwrap();
        party.queue.publish_unrung();
        assert_eq!(party.word(0).unwrap(), 0, "an engine looked at it");
        let Client { queue, memory, .. } = party;
        drop(queue);
        assert_eq!(word(&memory), round, "it was not executed");
    }
}

#[test]
fn work_of_one_guest_is_not_left_in_d3_when_another_asks_for_it() {
    let daemon = Daemon::start_with(2, CONFIGURATION);
    let (mut worker, other) = (client(&daemon, 0), client(&daemon, 1));
    for round in 1..=20u64 {
        worker.commands.write_data(worker.memory.gpu_va(), &round.to_le_bytes()).unwrap();
        let value = worker.submit().unwrap();
        other.process.set_device_power(DevicePowerState::D3).unwrap();
        // No request restores power: the guest only polls its fence.
        worker.finish(value).unwrap();
        assert_eq!(worker.word(0).unwrap(), round);
        worker.commands.reset();
    }
}

#[test]
fn a_queue_that_waits_in_d3_continues_after_a_signal_from_any_side() {
    let daemon = Daemon::start_with(2, CONFIGURATION);
    let (mut waiting, mut other) = (client(&daemon, 0), client(&daemon, 1));
    let fence = other.device.fence(0).cross_adapter().create().unwrap();
    let opened = waiting.device.open_fence(fence.share().unwrap()).unwrap();
    for round in 0..4u64 {
        let signal = round + 1;
        let value = wait_for(&mut waiting, &opened, signal);
        other.process.set_device_power(DevicePowerState::D3).unwrap();
        match round {
            0 => fence.signal(signal).unwrap(),
            1 => opened.signal(signal).unwrap(),
            _ => {
                other.commands.reset();
                other.commands.signal_fence(&fence, signal).unwrap();
                other.submit().unwrap();
            }
        }
        waiting.finish(value).unwrap();
        waiting.commands.reset();
    }
}

#[test]
fn waiters_for_a_fence_learn_that_its_process_died_or_its_guest_went() {
    for dies in [true, false] {
        let daemon = Daemon::start_with(2, CONFIGURATION);
        let mut waiting = client(&daemon, 0);
        let guest = support::guest(&daemon, 1);
        let gone = support::client_of(&guest, Shape::default());
        let fence = gone.device.fence(0).cross_adapter().create().unwrap();
        let opened = waiting.device.open_fence(fence.share().unwrap()).unwrap();
        let value = wait_for(&mut waiting, &opened, 5);
        while_awaited(&opened, 5, || {
            if dies {
                gone.process.terminate_abnormally().unwrap();
            } else {
                // Resets like a reboot, which destroys no object first.
                guest.reset().unwrap();
            }
        });
        waiting.finish(value).unwrap();
        // These objects went with their owner; dropping them would destroy them again.
        std::mem::forget((fence, gone));
    }
}

#[test]
fn a_program_does_not_take_the_end_of_its_process_for_a_signal() {
    let daemon = Daemon::start(2);
    let ended = client(&daemon, 0);
    let fence = ended.device.create_fence(0).unwrap();
    ended.process.terminate_abnormally().unwrap();
    // Whoever waits is let go.
    assert_eq!(fence.current_value().unwrap(), Fence::ALWAYS_SIGNALED);
    let waited = fence.wait(1, TIMEOUT).unwrap_err();
    let polled = fence.poll(1, TIMEOUT).unwrap_err();
    for error in [waited, polled] {
        assert!(matches!(error, Error::Refused { .. }), "{error:?}");
    }
    // While its process lives, a fence may have that value, too.
    let living = client(&daemon, 1);
    let fence = living.device.create_fence(0).unwrap();
    fence.signal(Fence::ALWAYS_SIGNALED).unwrap();
    fence.wait(1, TIMEOUT).unwrap();
    fence.poll(1, TIMEOUT).unwrap();
    // These objects went with their process; dropping them would destroy them again.
    std::mem::forget(ended);
}

/// How the owner of an endless queue ends.
#[derive(Debug, Clone, Copy)]
enum End {
    Process,
    ProcessAbnormally,
    /// A reset like a reboot, which destroys no object first.
    Reset,
    Guest,
}

#[test]
fn what_is_left_of_a_process_that_ended_writes_nothing_that_is_now_anothers() {
    let daemon = Daemon::start(1);
    let guest = support::guest(&daemon, 0);
    let adapter = support::adapter_of(&guest);
    let client = || Client::new(adapter.open_process().unwrap(), Shape::default()).unwrap();
    let mut ended = client();
    (0..5).for_each(|_| submit_once(&mut ended));
    ended.process.terminate_abnormally().unwrap();
    // Has its doorbell, and its memory for rings.
    let mut heir = client();
    drop(ended.queue);
    // The engine looks at the ring, in which there is nothing, and goes on.
    let connect = ConnectDoorbell { hw_queue: heir.queue.handle() };
    request(&*guest, heir.process.process(), &connect).unwrap().unwrap();
    submit_once(&mut client());
    submit_once(&mut heir);
    drop((ended.commands, ended.memory, ended.context, ended.device, ended.process));
    submit_once(&mut heir);
}

/// `DisableGpuTimeout`: no time-out ends the queue's work, so the end of its owner must.
#[test]
fn a_queue_whose_timeout_is_off_ends_with_its_process_and_with_its_guest() {
    let configuration = "[adapter]\ntimeout = \"500ms\"\n\
                         [guest]\ngpu_timeout_may_be_disabled = true\n\
                         [debug]\ntest_kernels = true\n";
    for end in [End::Process, End::ProcessAbnormally, End::Reset, End::Guest] {
        let daemon = Daemon::start_with(2, configuration);
        let mut neighbour = client(&daemon, 1);
        let guest = support::guest(&daemon, 0);
        let Client { queue, mut commands, memory, context: idle, device, process } =
            support::client_of(&guest, Shape::default());
        let at = memory.gpu_va();
        // The work sets the second word when it begins, and the fourth when it ends.
        commands.write_data(at + 8, &[1; 8]).unwrap();
        commands.dispatch(Kernel::SPIN_UNTIL, at, at + 16, 8, 1).unwrap();
        commands.write_data(at + 24, &[1; 8]).unwrap();
        let context = device.create_context(0).unwrap();
        let mut endless = context.user_mode_queue(4096).without_timeout().create().unwrap();
        endless.submit(&mut commands).unwrap();
        let begun = memory.allocation().word(8).unwrap();
        support::await_that("it begins", || begun.load(Ordering::Acquire) != 0);
        submit_once(&mut neighbour);
        let destroy = |flags| {
            let destroyed = request(&*guest, process.process(), &DestroyProcess { flags });
            assert_eq!(destroyed.unwrap(), Ok(()), "{end:?}");
        };
        match end {
            End::Process => destroy(0),
            End::ProcessAbnormally => destroy(TERMINATED_ABNORMALLY),
            End::Reset => guest.reset().unwrap(),
            End::Guest => guest.kill(),
        }
        if let End::Guest = end {
            daemon.await_log("front end disconnected");
        }
        submit_once(&mut neighbour);
        // This word would end the endless work, which must be gone already.
        memory.allocation().write(0, &1u64.to_le_bytes()).unwrap();
        (0..3).for_each(|_| submit_once(&mut neighbour));
        let ended = memory.allocation().word(24).unwrap().load(Ordering::Acquire);
        assert_eq!(ended, 0, "{end:?}: it was executed after its end");
        // The next guest gets the engine.
        let next = match end {
            End::Guest => support::guest(&daemon, 0),
            _ => guest.clone(),
        };
        submit_once(&mut support::client_of(&next, Shape::default()));
        // These objects went with their owner; dropping them would destroy them again.
        std::mem::forget((queue, endless, commands, context, idle, memory, device, process));
    }
}
