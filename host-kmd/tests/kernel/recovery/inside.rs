// SPDX-License-Identifier: MIT OR Apache-2.0

//! The end of a queue while an engine is inside it: in a packet behind the last-queued value, in one of a queue that is
//! lost, or in one that it never leaves by itself. A table of every target, manner, reason and degree of hang.
//!
//! The expected results come from these parts of the reference: user-mode work submission, "Normal and abnormal process
//! termination" (what is destroyed is off the run list first: "KMD preempts the context and removes it from its HW run
//! list"), and Windows KMD overview, "TDR".

use crate::bench::{Bench, Client, TIMEOUT};
use crate::model::{Call, Work};
use bellhop_host_kmd::dxgkrnl::TdrPolicy;
use bellhop_host_kmd::hardware::{Fault, Interrupt};
use bellhop_host_kmd::port::{Command, RequestToken};
use bellhop_protocol::control::context::DestroyContext;
use bellhop_protocol::control::device::DestroyDevice;
use bellhop_protocol::control::hw_queue::DestroyHwQueue;
use bellhop_protocol::control::process::{CreateProcess, DestroyProcess, TERMINATED_ABNORMALLY};
use bellhop_protocol::event::{EventKind, FaultReason};
use bellhop_protocol::packet::Opcode;
use bellhop_protocol::status::Status;

/// The node of the queues.
const NODE: u32 = 0;
/// The value of the progress fence when the accepted work is done.
const VALUE: u64 = 5;

/// Why nothing of the queue is waited for, although an engine is inside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Because {
    /// It has reached its last-queued value.
    ItIsDone,
    /// The operator has put its guest in error.
    ItIsInError,
    /// One of its packets faulted, and the engine has begun another before it knew.
    ItFaulted,
    /// Its end is abnormal.
    ItsEndIsAbnormal,
}

const REASONS: [Because; 4] =
    [Because::ItIsDone, Because::ItIsInError, Because::ItFaulted, Because::ItsEndIsAbnormal];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Queue,
    Context,
    Device,
    Process,
}

const TARGETS: [Target; 4] = [Target::Queue, Target::Context, Target::Device, Target::Process];

/// What has the engine leave the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaves {
    /// It comes to a boundary by itself, and does not go on there.
    ByItself,
    WithTheEngine,
    WithTheAdapter,
}

const LEAVES: [Leaves; 3] = [Leaves::ByItself, Leaves::WithTheEngine, Leaves::WithTheAdapter];

#[derive(Debug, Clone, Copy)]
struct Row {
    because: Because,
    target: Target,
    leaves: Leaves,
}

impl Row {
    fn is_possible(self) -> bool {
        self.because != Because::ItsEndIsAbnormal || self.target == Target::Process
    }

    /// The reasons with which the queue may be reported lost.
    fn loss(self) -> Option<FaultReason> {
        match self.because {
            Because::ItIsInError => Some(FaultReason::FAILED_BY_OPERATOR),
            Because::ItFaulted => Some(FaultReason::READ_PAGE_FAULT),
            Because::ItsEndIsAbnormal => Some(FaultReason::DEVICE_IN_ERROR),
            // What was accepted is done; behind it the queue hung.
            Because::ItIsDone if self.leaves != Leaves::ByItself => {
                Some(FaultReason::ENGINE_TIMEOUT)
            }
            Because::ItIsDone => None,
        }
    }
}

fn begin_end(bench: &mut Bench, client: Client, row: Row) -> RequestToken {
    let abnormal = row.because == Because::ItsEndIsAbnormal;
    let flags = if abnormal { TERMINATED_ABNORMALLY } else { 0 };
    match row.target {
        Target::Queue => bench.begin(client, &DestroyHwQueue { hw_queue: client.queue }),
        Target::Context => bench.begin(client, &DestroyContext { context: client.context }),
        Target::Device => bench.begin(client, &DestroyDevice { device: client.device }),
        Target::Process => bench.begin(client, &DestroyProcess { flags }),
    }
}

fn play(row: Row) -> Result<(), String> {
    let mut bench = Bench::new(4);
    let guests = [bench.guest(1), bench.guest(2)];
    let [(client, _), (neighbour, _)] = guests.map(|guest| bench.connected(guest));
    bench.model.state().engines.on = true;
    bench.model.queue_work(client.id, Work { value: VALUE, ..Work::default() });
    bench.model.ring(client.id);
    bench.interrupt();
    assert!(bench.model.state().engines.has_executed(client.id, VALUE));
    bench.model.state().engines.stick(NODE, client.id, row.leaves == Leaves::WithTheAdapter);
    match row.because {
        Because::ItIsInError => drop(bench.command(Command::FailGuest(client.guest))),
        Because::ItFaulted => {
            let reason = FaultReason::READ_PAGE_FAULT;
            let fault = Fault::new(reason, Opcode::COPY, 0x1000);
            bench.raise(Interrupt::PageFault { queue: client.id, fault });
        }
        Because::ItIsDone | Because::ItsEndIsAbnormal => {}
    }
    bench.model.take_log();
    let end = begin_end(&mut bench, client, row);
    // The neighbour's end needs all engines to pass a ticket.
    let beside = bench.begin(neighbour, &DestroyHwQueue { hw_queue: neighbour.queue });
    let destroyed = Call::DestroyQueue(client.id);
    if bench.model.take_log().contains(&destroyed) {
        return Err("it was destroyed with an engine inside".into());
    }
    if row.leaves == Leaves::ByItself {
        bench.model.state().engines.leave(NODE);
        bench.pass_tickets();
    } else {
        for _ in 0..8 {
            bench.later(TIMEOUT / 2);
        }
        let log = bench.model.take_log();
        let preempted =
            log.iter().any(|call| matches!(call, Call::Preempt(id, _) if *id == client.id));
        let reset = [Call::ResetEngine(NODE), Call::ResetAdapter].map(|call| log.contains(&call));
        if !preempted || reset != [true, row.leaves == Leaves::WithTheAdapter] {
            return Err(format!("no recovery: {log:?}"));
        }
    }
    let ends = [bench.outcome(client, end), bench.outcome(neighbour, beside)];
    if ends != [Some(Status::SUCCESS); 2] {
        return Err(format!("the ends: {ends:?}"));
    }
    let events = bench.events.iter().map(|(_, event)| event);
    let lost = events
        .filter(|event| event.kind == EventKind::HW_QUEUE_ERROR && event.object == client.queue.0);
    let lost: Vec<_> = lost.map(|event| event.reason).collect();
    if lost != Vec::from_iter(row.loss()) {
        return Err(format!("it was told {lost:?}"));
    }
    if bench.model.state().queues.contains_key(&client.id) {
        return Err("the queue is left".into());
    }
    Ok(())
}

/// A guest does not escape the count of its hangs by destroying what hung.
#[test]
fn a_guest_that_destroys_what_hangs_is_blamed_for_it() {
    let mut bench = Bench::new(4);
    let guest = bench.guest(1);
    for hang in 0..TdrPolicy::default().limit_count {
        let refused = bench.ask(guest, 0, &CreateProcess { reserved: 0 }).err();
        assert_eq!(refused, None, "after {hang} hangs");
        let client = bench.client(guest);
        bench.model.state().engines.stick(NODE, client.id, false);
        let end = bench.begin(client, &DestroyProcess { flags: 0 });
        for _ in 0..4 {
            bench.later(TIMEOUT / 2);
        }
        assert_eq!(bench.outcome(client, end), Some(Status::SUCCESS));
    }
    let refused = bench.ask(guest, 0, &CreateProcess { reserved: 0 }).unwrap_err();
    assert_eq!(refused.0, Status::GRAPHICS_GPU_EXCEPTION_ON_DEVICE);
}

#[test]
fn an_engine_that_is_inside_what_ends_leaves_it_first_and_is_reset_if_it_does_not() {
    let mut wrong = Vec::new();
    let mut rows = 0;
    for because in REASONS {
        for target in TARGETS {
            for leaves in LEAVES {
                let row = Row { because, target, leaves };
                if row.is_possible() {
                    rows += 1;
                    wrong.extend(play(row).err().map(|what| format!("{row:?}: {what}")));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {rows} rows:\n{}", wrong.len(), wrong.join("\n"));
}
