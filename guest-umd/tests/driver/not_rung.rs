// SPDX-License-Identifier: MIT OR Apache-2.0

//! Submissions that are in the ring without its ring: none is executed twice, and none is forgotten.

use crate::device::{Answer, ScriptedDevice, success};
use crate::rig::{RING, Rig, SUBMISSION, error_of, named_buffer};
use bellhop_guest_umd::Error;
use bellhop_protocol::control::RequestCode;
use bellhop_protocol::control::doorbell::ConnectDoorbellReply;
use bellhop_protocol::doorbell::{ConnectionStatus, DoorbellStatus};
use bellhop_protocol::status::Status;
use proptest::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What becomes of a request to connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Connect {
    Done,
    /// The doorbell is a victim again before the driver rings it.
    Victim,
    Refused,
}

/// Answers the requests to connect in this order, and then connects.
fn answer_connects(device: &ScriptedDevice, connects: Vec<Connect>) {
    let next = AtomicUsize::new(0);
    device.script(move |device, sent| match sent.code {
        RequestCode::CONNECT_DOORBELL => {
            let next = next.fetch_add(1, Ordering::Relaxed);
            match connects.get(next).unwrap_or(&Connect::Done) {
                Connect::Done => Answer::AsUsual,
                Connect::Victim => {
                    let status = ConnectionStatus::CONNECTED;
                    Answer::Reply(success(&ConnectDoorbellReply { status, reserved: 0 }))
                }
                Connect::Refused => Answer::Refuse(Status::INSUFFICIENT_RESOURCES, 7),
            }
        }
        // The ring is full: the device makes room.
        RequestCode::WAIT_FOR_FENCES => {
            device.execute(0, 1);
            Answer::AsUsual
        }
        _ => Answer::AsUsual,
    });
}

fn disconnect(device: &ScriptedDevice) {
    device.set_status(0, DoorbellStatus::from(ConnectionStatus::DISCONNECTED_RETRY));
}

fn not_rung(result: Result<u64, Error>) -> u64 {
    let Error::NotRung { value, .. } = error_of(result) else { panic!("it was rung for") };
    value
}

#[test]
fn each_of_several_submissions_without_a_ring_can_be_tried_again() {
    use Connect::{Refused, Victim};
    let mut rig = Rig::disconnected();
    answer_connects(&rig.device, vec![Victim, Refused, Victim, Refused, Refused]);
    let mut other = named_buffer(&rig.gpu);
    assert_eq!(not_rung(rig.submit()), 1);
    assert_eq!(not_rung(rig.queue.submit(&mut other)), 2);
    assert_eq!(not_rung(rig.submit()), 1);
    assert_eq!(rig.queue.submit(&mut other).unwrap(), 2);
    rig.device.execute(0, usize::MAX);
    let executed: Vec<_> = rig.device.executed().iter().map(|buffer| buffer.gpu_va).collect();
    assert_eq!(executed, [rig.commands.gpu_va(), other.gpu_va()]);
}

#[test]
fn room_that_a_ring_made_meanwhile_does_not_make_a_retry_a_new_submission() {
    use Connect::{Refused, Victim};
    let mut rig = Rig::disconnected();
    answer_connects(&rig.device, vec![Victim, Refused, Victim, Victim]);
    let mut other = named_buffer(&rig.gpu);
    assert_eq!(not_rung(rig.submit()), 1);
    // The ring becomes full, and the driver rings for it by itself.
    for _ in 0..RING / SUBMISSION {
        rig.queue.queue(&mut other).unwrap();
    }
    assert_eq!(rig.submit().unwrap(), 1);
    assert_eq!(rig.queue.last_value(), RING / SUBMISSION + 1);
}

#[test]
fn what_was_recorded_anew_is_no_retry() {
    use Connect::{Refused, Victim};
    for change in 0..3 {
        let mut rig = Rig::disconnected();
        answer_connects(&rig.device, vec![Victim, Refused]);
        rig.commands.nop().unwrap();
        assert_eq!(not_rung(rig.submit()), 1);
        // The engine looks at the ring nevertheless, and the program sees the fence.
        rig.device.execute(0, usize::MAX);
        match change {
            0 => {
                rig.commands.reset();
                rig.commands.nop().unwrap();
            }
            1 => {
                rig.commands.nop().unwrap();
            }
            _ => {
                rig.commands = named_buffer(&rig.gpu);
                rig.commands.nop().unwrap();
            }
        }
        assert_eq!(rig.submit().unwrap(), 2, "change {change}");
        rig.device.execute(0, usize::MAX);
        assert_eq!(rig.device.executed().len(), 2);
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Submit(usize),
    Queue(usize, usize),
    Ring,
    Reset(usize),
    Execute(usize),
    Disconnect,
}

const BUFFERS: usize = 4;

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..BUFFERS).prop_map(Step::Submit),
        1 => (0..BUFFERS, 1..150_usize).prop_map(|(buffer, times)| Step::Queue(buffer, times)),
        1 => Just(Step::Ring),
        1 => (0..BUFFERS).prop_map(Step::Reset),
        2 => (1..200_usize).prop_map(Step::Execute),
        4 => Just(Step::Disconnect),
    ]
}

/// What the program knows: the order of the ring, and what it was told to be there without a ring.
#[derive(Default)]
struct Model {
    accepted: Vec<u64>,
    /// The value of each buffer that is not known to be rung for.
    waiting: [Option<u64>; BUFFERS],
}

impl Model {
    fn accept(&mut self, gpu_va: u64) -> u64 {
        self.accepted.push(gpu_va);
        self.accepted.len() as u64
    }

    /// Checks the result of submitting a buffer.
    fn submitted(
        &mut self,
        buffer: usize,
        gpu_va: u64,
        last_value: u64,
        result: Result<u64, Error>,
    ) -> Result<(), TestCaseError> {
        let expected =
            |model: &mut Self| model.waiting[buffer].unwrap_or_else(|| model.accept(gpu_va));
        match result {
            Ok(value) => {
                prop_assert_eq!(value, expected(self));
                self.waiting = [None; BUFFERS];
            }
            Err(Error::NotRung { value, .. }) => {
                prop_assert_eq!(value, expected(self));
                self.waiting[buffer] = Some(value);
            }
            Err(Error::Refused { .. }) => {}
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        }
        prop_assert_eq!(last_value, self.accepted.len() as u64);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Each accepted submission is in the ring once, in order, whichever rings fail.
    #[test]
    fn what_was_accepted_is_executed_once_and_in_order(
        steps in proptest::collection::vec(step(), 1..60),
        connects in proptest::collection::vec(
            prop_oneof![Just(Connect::Done), Just(Connect::Victim), Just(Connect::Refused)],
            0..60,
        ),
    ) {
        let Rig { mut queue, gpu, device, .. } = Rig::disconnected();
        answer_connects(&device, connects);
        let mut buffers: Vec<_> = (0..BUFFERS).map(|_| named_buffer(&gpu)).collect();
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Submit(index) => {
                    let buffer = &mut buffers[index];
                    let result = queue.submit(buffer);
                    let is_rung = result.is_ok();
                    model.submitted(index, buffer.gpu_va(), queue.last_value(), result)?;
                    if is_rung {
                        prop_assert_eq!(device.rung(0), device.ring(0).pointers().written());
                        prop_assert_eq!(device.rung(0), queue.last_value() * SUBMISSION);
                    }
                }
                Step::Queue(index, times) => {
                    for _ in 0..times {
                        match queue.queue(&mut buffers[index]) {
                            Ok(value) => {
                                prop_assert_eq!(value, model.accept(buffers[index].gpu_va()));
                            }
                            Err(Error::Refused { .. }) => break,
                            Err(error) => return Err(TestCaseError::fail(error.to_string())),
                        }
                    }
                }
                Step::Ring => {
                    if queue.ring().is_ok() {
                        model.waiting = [None; BUFFERS];
                    }
                }
                Step::Reset(index) => {
                    buffers[index].reset();
                    model.waiting[index] = None;
                }
                Step::Execute(count) => device.execute(0, count),
                Step::Disconnect => disconnect(&device),
            }
        }
        device.set_status(0, ConnectionStatus::CONNECTED);
        device.script(|_, _| Answer::AsUsual);
        queue.ring().unwrap();
        device.execute(0, usize::MAX);
        let executed: Vec<_> = device.executed().iter().map(|buffer| buffer.gpu_va).collect();
        prop_assert_eq!(executed, model.accepted);
    }
}
