// SPDX-License-Identifier: MIT OR Apache-2.0

//! The fate of accepted work when its queue ends, in a table of every suspension, doorbell state, power state, target
//! and manner of ending. One rule holds for all rows: the work is executed, or it is reported lost with a reason, and
//! in both cases the waiter for its fence is told.
//!
//! The expected results come from these parts of the reference: user-mode work submission, "Normal and abnormal
//! process termination" ("waits for the last queued HwQueueProgressFenceLastQueuedValueCPUVirtualAddress to be
//! completed on the GPU") and "Hardware context suspension" ("Once the context is resumed and scheduled, the GPU's
//! context management processor (CMP) observes the new write pointer"); and native GPU fence object,
//! "AlwaysSignaled".

use crate::bench::{
    Bench, Client, RESOURCES, TIMEOUT, USER_MODE, bytes_with_list, fence_values, map, submission,
};
use crate::model::Work;
use bellhop_host_kmd::hardware::{
    DoorbellModel, EngineState, Fault, GuestId, Interrupt, RotationOutcome, SegmentSizes,
};
use bellhop_host_kmd::port::{Command, GuestResources, Input, RequestToken};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::{
    AllocationFlags, AllocationKind, CreateAllocation, PRIORITY_NORMAL, SegmentSet,
};
use bellhop_protocol::control::context::{DestroyContext, ResumeContext, SuspendContext};
use bellhop_protocol::control::device::DestroyDevice;
use bellhop_protocol::control::doorbell::{ConnectDoorbell, DestroyDoorbell};
use bellhop_protocol::control::fence::{CreateMonitoredFence, FenceFlags, SignalFromGpu};
use bellhop_protocol::control::hw_queue::{DestroyHwQueue, HwQueueFlags};
use bellhop_protocol::control::power::DevicePowerState;
use bellhop_protocol::control::process::{DestroyProcess, TERMINATED_ABNORMALLY};
use bellhop_protocol::event::{EventKind, FaultReason};
use bellhop_protocol::packet::Opcode;
use bellhop_protocol::status::Status;
use std::time::Duration;

const GUEST: GuestId = GuestId(1);
/// The value of the progress fence when the work is done.
const VALUE: u64 = 5;
/// The cookie of the wait for that value.
const COOKIE: u64 = 77;

/// The state of the queue's doorbell when the work is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doorbell {
    NeverConnected,
    Connected,
    Global,
    Victim,
    EngineInF1,
    PageOnItsWay,
    PageSettling,
    /// The queue has no doorbell: it gets its work through requests.
    KernelMode,
    /// As before, and its progress fence has the work's value already.
    KernelModeReached,
}

const DOORBELLS: [Doorbell; 9] = [
    Doorbell::NeverConnected,
    Doorbell::Connected,
    Doorbell::Global,
    Doorbell::Victim,
    Doorbell::EngineInF1,
    Doorbell::PageOnItsWay,
    Doorbell::PageSettling,
    Doorbell::KernelMode,
    Doorbell::KernelModeReached,
];

impl Doorbell {
    fn is_kernel_mode(self) -> bool {
        matches!(self, Self::KernelMode | Self::KernelModeReached)
    }
}

/// Why the context is off the run list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    ByNone,
    ByItsOwner,
    ByTheHost,
    ByVidMm,
    InError,
}

const HELD: [Held; 5] =
    [Held::ByNone, Held::ByItsOwner, Held::ByTheHost, Held::ByVidMm, Held::InError];

/// The device's power state when the end begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Power {
    D0,
    GoingDown,
    D3,
}

const POWERS: [Power; 3] = [Power::D0, Power::GoingDown, Power::D3];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// Only the doorbell, with its ring.
    Doorbell,
    Queue,
    Context,
    Device,
    Process,
}

const TARGETS: [Target; 5] =
    [Target::Doorbell, Target::Queue, Target::Context, Target::Device, Target::Process];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Normal,
    /// An abnormal end, which is possible only for processes.
    Abnormal,
    /// A page fault, followed by a normal end.
    Fault,
    /// A reset of the adapter, followed by a normal end.
    Reset,
}

const MANNERS: [Manner; 4] = [Manner::Normal, Manner::Abnormal, Manner::Fault, Manner::Reset];

/// One row of the table.
#[derive(Debug, Clone, Copy)]
struct Row {
    doorbell: Doorbell,
    held: Held,
    power: Power,
    target: Target,
    manner: Manner,
    /// Whether the context is resumed while its end is under way.
    let_go: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Executed,
    Lost(FaultReason),
}

impl Row {
    fn fate(self) -> Fate {
        match (self.held, self.manner) {
            // The device was in error before everything else.
            (Held::InError, _) => Fate::Lost(FaultReason::FAILED_BY_OPERATOR),
            (_, Manner::Fault) => Fate::Lost(FaultReason::READ_PAGE_FAULT),
            (_, Manner::Reset) => Fate::Lost(FaultReason::ADAPTER_RESET),
            // "Dxgkrnl marks the device in error."
            (_, Manner::Abnormal) => Fate::Lost(FaultReason::DEVICE_IN_ERROR),
            (Held::ByNone, Manner::Normal) => Fate::Executed,
            (_, Manner::Normal) if self.let_go => Fate::Executed,
            // The context stays suspended, and after the time-out the end no longer waits for the work.
            (_, Manner::Normal) => Fate::Lost(FaultReason::ENGINE_TIMEOUT),
        }
    }

    fn is_possible(self) -> bool {
        let goes_with_process = self.manner != Manner::Abnormal || self.target == Target::Process;
        // Without a suspension there is nothing to resume. A suspension by the host or by VidMm always ends at some
        // time; only the owner may leave its context suspended.
        let lets_go = match self.held {
            Held::ByNone | Held::InError => !self.let_go,
            Held::ByItsOwner => true,
            Held::ByTheHost | Held::ByVidMm => self.let_go,
        };
        // The device has power while VidMm moves memory.
        let has_power = self.held != Held::ByVidMm || self.power != Power::D3;
        let is_there = self.target != Target::Doorbell || !self.doorbell.is_kernel_mode();
        goes_with_process && lets_go && has_power && is_there
    }
}

struct World {
    bench: Bench,
    client: Client,
    doorbell: Option<Handle>,
    row: Row,
}

impl World {
    fn new(row: Row) -> Self {
        let mut bench = Bench::new(1);
        let segments = SegmentSizes { private: 8 * PAGE_SIZE, backing: 1 << 24, aperture: 0 };
        let resources = GuestResources { segments, ..RESOURCES };
        bench.input(Input::Attach { guest: GUEST, resources });
        bench.open(GUEST).unwrap();
        bench.model.state().engines.on = true;
        let is_kernel_mode = row.doorbell.is_kernel_mode();
        let flags = if is_kernel_mode { HwQueueFlags::empty() } else { USER_MODE };
        let client = bench.client_with(GUEST, flags);
        let mut world = Self { bench, client, doorbell: None, row };
        world.make_doorbell();
        let wait = world.bench.wait(client, client.fence, VALUE, COOKIE);
        assert_eq!(world.bench.outcome(client, wait), Some(Status::PENDING));
        world.hold();
        world
    }

    fn make_doorbell(&mut self) {
        let Self { bench, client, row, doorbell } = self;
        let client = *client;
        match row.doorbell {
            Doorbell::KernelMode | Doorbell::KernelModeReached => return,
            Doorbell::Global => bench.model.state().model = DoorbellModel::Global,
            Doorbell::PageOnItsWay | Doorbell::PageSettling => bench.model.state().rotates = true,
            _ => {}
        }
        *doorbell = Some(bench.doorbell(client));
        let connect = ConnectDoorbell { hw_queue: client.queue };
        match row.doorbell {
            Doorbell::NeverConnected | Doorbell::KernelMode | Doorbell::KernelModeReached => {}
            Doorbell::Connected | Doorbell::Global => drop(bench.connect(client).unwrap()),
            Doorbell::Victim => {
                bench.connect(client).unwrap();
                // There is only one physical doorbell, so this takes it away.
                bench.connected(GUEST);
            }
            Doorbell::EngineInF1 => {
                bench.connect(client).unwrap();
                let new_state = EngineState::TransitionToF1;
                bench.raise(Interrupt::GpuEngineStateChange { node: 0, new_state });
                assert!(bench.model.state().engines.is_off(0));
            }
            Doorbell::PageOnItsWay => drop(bench.begin(client, &connect)),
            Doorbell::PageSettling => {
                bench.begin(client, &connect);
                let outcome = RotationOutcome::Shown;
                bench.raise(Interrupt::DoorbellRotated { queue: client.id, outcome });
            }
        }
    }

    /// Has the context suspended as the row says.
    fn hold(&mut self) {
        let Self { bench, client, row, .. } = self;
        let client = *client;
        match row.held {
            Held::ByNone | Held::InError => {}
            Held::ByItsOwner => {
                bench.call(client, &SuspendContext { context: client.context }).unwrap();
            }
            Held::ByTheHost => drop(bench.command(Command::SuspendGuest(GUEST))),
            Held::ByVidMm => {
                // Two allocations that do not fit into local memory together.
                let [first, second] = [(); 2].map(|()| {
                    let request = CreateAllocation {
                        supported_segments: (SegmentSet::LOCAL | SegmentSet::SYSTEM).bits(),
                        priority: PRIORITY_NORMAL,
                        flags: AllocationFlags::CPU_VISIBLE.bits(),
                        ..CreateAllocation::fixed(
                            client.device,
                            AllocationKind::PAGED,
                            40 * PAGE_SIZE,
                            0,
                        )
                    };
                    bench.call(client, &request).unwrap().allocation
                });
                bench.call(client, &map(first, 0, 40 * PAGE_SIZE)).unwrap();
                bench.make_resident(client, &[first]).unwrap();
                bench.model.state().prompt_paging = false;
                bench.make_resident_later(client, &[second]);
                assert!(bench.model.state().suspended.contains(&client.id));
            }
        }
    }

    fn let_go(&mut self) {
        let Self { bench, client, row, .. } = self;
        match row.held {
            Held::ByNone | Held::InError => {}
            Held::ByItsOwner => {
                // The context may have been destroyed with its process.
                bench.begin(*client, &ResumeContext { context: client.context });
            }
            Held::ByTheHost => drop(bench.command(Command::ResumeGuest(GUEST))),
            Held::ByVidMm => {
                while bench.model.oldest_paging(GUEST).is_some() {
                    bench.model.complete_paging(GUEST);
                    bench.interrupt();
                }
                bench.model.state().prompt_paging = true;
            }
        }
    }

    /// The guest writes its last-queued value, its ring and its doorbell, or it submits in kernel mode. Engines do
    /// not execute the work yet.
    fn accept_work(&mut self) {
        let Self { bench, client, row, .. } = self;
        if row.doorbell.is_kernel_mode() {
            if row.doorbell == Doorbell::KernelModeReached {
                bench.model.signal(client.guest, client.fence_slot, VALUE);
            }
            bench.model.state().engines.on = false;
            let submit = submission(*client, VALUE);
            bench.call(*client, &submit).unwrap();
        } else {
            bench.model.queue_work(client.id, Work { value: VALUE, ..Work::default() });
            bench.model.ring(client.id);
        }
    }

    fn set_power(&mut self) {
        match self.row.power {
            Power::D0 => {}
            Power::GoingDown => {
                self.bench.model.state().prompt = false;
                self.bench.command(Command::SetDevicePower(DevicePowerState::D3));
            }
            Power::D3 => {
                self.bench.command(Command::SetDevicePower(DevicePowerState::D3));
            }
        }
    }

    fn fault(&mut self, reason: FaultReason) -> Fault {
        // Engines no longer execute the queue's work by themselves.
        self.bench.model.state().engines.forget(self.client.id);
        Fault { reason, opcode: Opcode::COPY, address: 0x1000, read_pointer: 0 }
    }

    /// Causes the fault or the reset that precedes the end.
    fn go_wrong(&mut self) {
        match self.row.manner {
            Manner::Normal | Manner::Abnormal => {}
            Manner::Fault => {
                let fault = self.fault(FaultReason::READ_PAGE_FAULT);
                self.bench.raise(Interrupt::PageFault { queue: self.client.id, fault });
            }
            Manner::Reset => {
                // A queue of another guest hangs and cannot be pre-empted.
                let fault = self.fault(FaultReason::ENGINE_TIMEOUT);
                let guest = self.bench.guest(2);
                let guilty = self.bench.client(guest);
                let new_state = EngineState::Hung { queue: guilty.id, fault };
                self.bench.raise(Interrupt::GpuEngineStateChange { node: 0, new_state });
                for _ in 0..2 {
                    self.bench.later(Duration::from_millis(500));
                }
                (0..2).for_each(|node| self.bench.raise(Interrupt::EngineReset { node }));
            }
        }
    }

    fn begin_end(&mut self) -> RequestToken {
        let Self { bench, client, row, doorbell } = self;
        let client = *client;
        let flags = if row.manner == Manner::Abnormal { TERMINATED_ABNORMALLY } else { 0 };
        match row.target {
            Target::Doorbell => {
                let doorbell = doorbell.expect("a queue for user-mode submission");
                bench.begin(client, &DestroyDoorbell { doorbell })
            }
            Target::Queue => bench.begin(client, &DestroyHwQueue { hw_queue: client.queue }),
            Target::Context => bench.begin(client, &DestroyContext { context: client.context }),
            Target::Device => bench.begin(client, &DestroyDevice { device: client.device }),
            Target::Process => bench.begin(client, &DestroyProcess { flags }),
        }
    }

    /// The reason with which the queue was reported lost, if it was.
    fn lost(&self) -> Option<FaultReason> {
        let mut losses = self.bench.events.iter().map(|(_, event)| event).filter(|event| {
            event.kind == EventKind::HW_QUEUE_ERROR && event.object == self.client.queue.0
        });
        let loss = losses.next();
        assert_eq!(losses.next(), None, "it is lost once");
        loss.map(|event| event.reason)
    }

    fn waiter_was_told(&self) -> bool {
        let mut events = self.bench.events.iter().map(|(_, event)| event);
        events.any(|event| event.kind == EventKind::FENCE_SIGNALED && event.cookie == COOKIE)
    }
}

fn tick(bench: &mut Bench, times: usize) {
    for _ in 0..times {
        bench.later(TIMEOUT / 2);
        bench.pass_tickets();
    }
}

/// Plays one row. Fails with a description of what is wrong.
fn play(row: Row) -> Result<(), String> {
    let mut world = World::new(row);
    let client = world.client;
    if row.doorbell.is_kernel_mode() || row.power == Power::D0 {
        world.accept_work();
        world.set_power();
    } else {
        world.set_power();
        world.accept_work();
    }
    world.bench.model.state().engines.on = true;
    if row.held == Held::InError {
        world.bench.command(Command::FailGuest(GUEST));
    }
    world.go_wrong();
    let token = world.begin_end();
    world.bench.model.state().prompt = true;
    world.bench.pass_tickets();
    if row.held != Held::ByNone && row.fate() == Fate::Executed {
        if world.bench.outcome(client, token).is_some() {
            return Err("it ended while its work could not be executed".into());
        }
        // Waits longer than the kernel waits for work that is not suspended. When only the owner suspends the
        // context, the end itself times out, so there is no waiting.
        if row.held != Held::ByItsOwner {
            tick(&mut world.bench, 6);
        }
    }
    if row.let_go {
        world.let_go();
    }
    // Work that is executed ends without a time-out.
    if row.fate() == Fate::Executed && world.bench.outcome(client, token).is_none() {
        return Err("its work was not looked at".into());
    }
    tick(&mut world.bench, 6);
    world.let_go();
    world.bench.pass_tickets();
    if world.bench.outcome(client, token) != Some(Status::SUCCESS) {
        return Err(format!("it ended with {:?}", world.bench.outcome(client, token)));
    }
    let executed = world.bench.model.state().engines.has_executed(client.id, VALUE);
    let fate = match (executed, world.lost()) {
        (true, None) => Fate::Executed,
        (false, Some(reason)) => Fate::Lost(reason),
        (executed, lost) => return Err(format!("executed: {executed}, told: {lost:?}")),
    };
    if fate != row.fate() {
        return Err(format!("{fate:?} and not {:?}", row.fate()));
    }
    if !world.waiter_was_told() {
        return Err("who waited for it waits for ever".into());
    }
    world.bench.input(Input::Detach { guest: GUEST });
    tick(&mut world.bench, 2);
    if !world.bench.detached.contains(&GUEST) {
        return Err("the guest cannot go".into());
    }
    Ok(())
}

#[test]
fn accepted_work_is_executed_or_reported_lost_whatever_its_end_is() {
    let mut wrong = Vec::new();
    let mut rows = 0;
    for doorbell in DOORBELLS {
        for held in HELD {
            for power in POWERS {
                for target in TARGETS {
                    for manner in MANNERS {
                        for let_go in [false, true] {
                            let row = Row { doorbell, held, power, target, manner, let_go };
                            if !row.is_possible() {
                                continue;
                            }
                            rows += 1;
                            if let Err(what) = play(row) {
                                wrong.push(format!("{row:?}: {what}"));
                            }
                        }
                    }
                }
            }
        }
    }
    let shown = &wrong[..wrong.len().min(40)];
    assert!(wrong.is_empty(), "{} of {rows} rows:\n{}", wrong.len(), shown.join("\n"));
}

/// A signal that a queue was given in kernel mode is work, too, because other queues wait for it.
#[test]
fn a_signal_that_is_held_behind_a_submission_is_given_before_its_queue_ends() {
    let mut bench = Bench::new(1);
    let guest = bench.guest(1);
    bench.model.state().engines.on = true;
    let client = bench.client_with(guest, HwQueueFlags::empty());
    let (device, flags) = (client.device, FenceFlags::empty().bits());
    let request = CreateMonitoredFence { device, initial_value: 0, flags, reserved: 0 };
    let fence = bench.call(client, &request).unwrap().fence;
    bench.call(client, &SuspendContext { context: client.context }).unwrap();
    let list = fence_values(&[(fence, 1)]);
    let signal = SignalFromGpu { queue: client.queue, count: 1, reserved: 0 };
    let token = bench.send(guest, bytes_with_list(client.process, &signal, &list));
    assert_eq!(bench.outcome(client, token), Some(Status::SUCCESS));
    let wait = bench.wait(client, fence, 1, COOKIE);
    assert_eq!(bench.outcome(client, wait), Some(Status::PENDING));
    let end = bench.begin(client, &DestroyHwQueue { hw_queue: client.queue });
    assert_eq!(bench.outcome(client, end), None, "its signal was not given");
    bench.call(client, &ResumeContext { context: client.context }).unwrap();
    assert_eq!(bench.outcome(client, end), Some(Status::SUCCESS));
    let told = |(_, event): &(_, bellhop_protocol::event::Event)| event.cookie == COOKIE;
    assert!(bench.events.iter().any(told));
}
