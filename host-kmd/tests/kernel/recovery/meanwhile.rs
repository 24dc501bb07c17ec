// SPDX-License-Identifier: MIT OR Apache-2.0

//! What is created, or given work, in a container whose end is under way: it is refused, or its work has the fate of all
//! accepted work, executed or reported lost. A table of every container, phase of its end, and thing.
//!
//! The expected results come from this part of the reference: user-mode work submission, "Normal and abnormal process
//! termination": the end is that of "each HWQueue of the device/context", so no queue may come to it later.

use crate::bench::{
    Bench, Client, Refused, TIMEOUT, USER_MODE, bytes_with_list, fence_values, submission,
};
use crate::model::Work;
use bellhop_host_kmd::port::RequestToken;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::agent::{AGENT_VERSION, RegisterAgent};
use bellhop_protocol::control::context::{CreateContext, DestroyContext};
use bellhop_protocol::control::device::{CreateDevice, DestroyDevice};
use bellhop_protocol::control::doorbell::ConnectDoorbell;
use bellhop_protocol::control::fence::{CreateMonitoredFence, FenceFlags, SignalFromGpu};
use bellhop_protocol::control::hw_queue::{CreateHwQueue, HwQueueFlags};
use bellhop_protocol::control::node_context::{
    CreateNodeContext, SubmissionModel, SubmitCommandVirtual,
};
use bellhop_protocol::control::process::{DestroyProcess, TERMINATED_ABNORMALLY};
use bellhop_protocol::event::EventKind;
use bellhop_protocol::status::Status;

/// The value that has the end wait, of another queue of the container.
const BUSY: u64 = 5;
/// The value of the progress fence when the work is done that is accepted meanwhile.
const VALUE: u64 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Container {
    Context,
    Device,
    Process,
}

const CONTAINERS: [Container; 3] = [Container::Context, Container::Device, Container::Process];

/// How far the end is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It waits for the work of its queues.
    Draining,
    /// Engines may still be inside its queues, which have done their work.
    Leaving,
    /// Its queues were not done in time, and engines may still be inside them.
    Late,
    /// It is abnormal, and engines may still be inside its queues.
    Abnormal,
}

const PHASES: [Phase; 4] = [Phase::Draining, Phase::Leaving, Phase::Late, Phase::Abnormal];

/// What is asked for meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thing {
    /// A device in the process, with a context, a queue and work.
    Device,
    /// A context on the device, with a queue and work.
    Context,
    /// A context on the device that submits to its node, with work.
    NodeContext,
    /// A queue in the context, with work.
    Queue,
    /// A doorbell of a queue that has none, with work.
    Doorbell,
    /// A connected doorbell is connected again, and rung.
    Ring,
    /// A submission to a queue.
    Submission,
    /// A signal behind what a queue does.
    Signal,
}

const THINGS: [Thing; 8] = [
    Thing::Device,
    Thing::Context,
    Thing::NodeContext,
    Thing::Queue,
    Thing::Doorbell,
    Thing::Ring,
    Thing::Submission,
    Thing::Signal,
];

#[derive(Debug, Clone, Copy)]
struct Row {
    container: Container,
    phase: Phase,
    thing: Thing,
}

impl Row {
    fn is_possible(self) -> bool {
        self.phase != Phase::Abnormal || self.container == Container::Process
    }

    /// Whether the thing would be inside the container.
    fn is_inside(self) -> bool {
        match self.thing {
            Thing::Device => self.container == Container::Process,
            Thing::Context | Thing::NodeContext => self.container != Container::Context,
            _ => true,
        }
    }
}

/// Work that was accepted: the queue, by the GPU's id and by the handle with which it is reported lost.
struct Accepted {
    client: Client,
    told_as: Handle,
    value: u64,
}

struct World {
    bench: Bench,
    /// Its queue has a connected doorbell, and work that has the end wait.
    busy: Client,
    /// Queues beside it, in the same context.
    without_doorbell: Client,
    /// The ring for its doorbell.
    ring: (Handle, Handle),
    kernel_mode: Client,
    fence: Handle,
}

impl World {
    fn new() -> Self {
        let mut bench = Bench::new(4);
        let guest = bench.guest(1);
        let (busy, _) = bench.connected(guest);
        let without_doorbell = bench.queue(busy, USER_MODE);
        let ring = bench.ring(without_doorbell);
        let kernel_mode = bench.queue(busy, HwQueueFlags::empty());
        let (device, flags) = (busy.device, FenceFlags::empty().bits());
        let request = CreateMonitoredFence { device, initial_value: 0, flags, reserved: 0 };
        let fence = bench.call(busy, &request).unwrap().fence;
        bench.model.state().last_queued.insert(busy.id, BUSY);
        Self { bench, busy, without_doorbell, ring, kernel_mode, fence }
    }

    fn begin_end(&mut self, row: Row) -> RequestToken {
        let Self { bench, busy, .. } = self;
        let busy = *busy;
        bench.model.state().prompt = false;
        let flags = if row.phase == Phase::Abnormal { TERMINATED_ABNORMALLY } else { 0 };
        let token = match row.container {
            Container::Context => bench.begin(busy, &DestroyContext { context: busy.context }),
            Container::Device => bench.begin(busy, &DestroyDevice { device: busy.device }),
            Container::Process => bench.begin(busy, &DestroyProcess { flags }),
        };
        match row.phase {
            Phase::Draining | Phase::Abnormal => {}
            Phase::Leaving => {
                bench.model.signal(busy.guest, busy.fence_slot, BUSY);
                bench.interrupt();
            }
            Phase::Late => bench.later(TIMEOUT),
        }
        assert_eq!(bench.outcome(busy, token), None, "{row:?}: it is over");
        token
    }

    /// Asks for a thing and gives it work.
    fn ask(&mut self, thing: Thing) -> Result<Accepted, Refused> {
        let client = self.busy;
        match thing {
            Thing::Device => {
                let device = self.bench.call(client, &CreateDevice { reserved: 0 })?;
                self.context(Client { device, ..client })
            }
            Thing::Context => self.context(client),
            Thing::NodeContext => {
                let request = CreateNodeContext {
                    device: client.device,
                    node: 0,
                    model: SubmissionModel::VIRTUAL,
                };
                let created = self.bench.call(client, &request)?;
                let id = *self.bench.model.state().queues.last_key_value().unwrap().0;
                let context = created.context;
                let gpu_va = created.command_buffer_gpu_va;
                let request = SubmitCommandVirtual { context, gpu_va, size: 8, reserved: 0 };
                let value = self.bench.call(client, &request)?.progress_fence_value;
                let client = Client { context, id, ..client };
                Ok(Accepted { client, told_as: context, value })
            }
            Thing::Queue => self.queue(client),
            Thing::Doorbell => {
                let queue = self.without_doorbell;
                self.bench.doorbell_on(queue, self.ring)?;
                self.bench.call(queue, &ConnectDoorbell { hw_queue: queue.queue })?;
                Ok(self.ring(queue))
            }
            Thing::Ring => {
                self.bench.call(client, &ConnectDoorbell { hw_queue: client.queue })?;
                Ok(self.ring(client))
            }
            Thing::Submission => self.submit(self.kernel_mode),
            Thing::Signal => {
                let queue = self.kernel_mode;
                let list = fence_values(&[(self.fence, VALUE)]);
                let request = SignalFromGpu { queue: queue.queue, count: 1, reserved: 0 };
                let request = bytes_with_list(queue.process, &request, &list);
                match self.bench.raw(queue.guest, request) {
                    // It takes effect at once: nothing is before it.
                    (Status::SUCCESS, _) => {
                        Ok(Accepted { client: queue, told_as: queue.queue, value: 0 })
                    }
                    refused => Err(refused),
                }
            }
        }
    }

    fn context(&mut self, client: Client) -> Result<Accepted, Refused> {
        let request = CreateContext { device: client.device, node: 0, engine_affinity: 0 };
        let context = self.bench.call(client, &request)?;
        self.queue(Client { context, ..client })
    }

    fn queue(&mut self, client: Client) -> Result<Accepted, Refused> {
        let flags = HwQueueFlags::empty();
        let request = CreateHwQueue { context: client.context, flags: flags.bits(), reserved: 0 };
        let created = self.bench.call(client, &request)?;
        let id = *self.bench.model.state().queues.last_key_value().unwrap().0;
        self.submit(Client { queue: created.hw_queue, id, ..client })
    }

    fn submit(&mut self, client: Client) -> Result<Accepted, Refused> {
        self.bench.call(client, &submission(client, VALUE))?;
        Ok(Accepted { client, told_as: client.queue, value: VALUE })
    }

    fn ring(&mut self, client: Client) -> Accepted {
        self.bench.model.queue_work(client.id, Work { value: VALUE, ..Work::default() });
        self.bench.model.ring(client.id);
        Accepted { client, told_as: client.queue, value: VALUE }
    }
}

fn play(row: Row) -> Result<(), String> {
    let mut world = World::new();
    let end = world.begin_end(row);
    let asked = world.ask(row.thing);
    let World { bench, busy, .. } = &mut world;
    let busy = *busy;
    // The engine comes to the work that the end waits for, and only then to what was accepted meanwhile.
    if row.phase == Phase::Draining {
        bench.model.signal(busy.guest, busy.fence_slot, BUSY);
    }
    bench.model.state().prompt = true;
    bench.pass_tickets();
    bench.model.state().engines.on = true;
    for _ in 0..6 {
        bench.later(TIMEOUT / 2);
        bench.pass_tickets();
    }
    if bench.outcome(busy, end) != Some(Status::SUCCESS) {
        return Err(format!("it ended with {:?}", bench.outcome(busy, end)));
    }
    let Accepted { client, told_as, value } = match asked {
        Ok(_) if row.is_inside() => {
            return Err("it was accepted, and nobody looks there again".into());
        }
        Ok(accepted) => accepted,
        Err((Status::DEVICE_REMOVED | Status::INVALID_HANDLE, _)) if row.is_inside() => {
            return Ok(());
        }
        Err(refused) => return Err(format!("it was refused with {refused:?}")),
    };
    let executed = bench.model.state().engines.has_executed(client.id, value);
    let mut events = bench.events.iter().map(|(_, event)| event);
    let is_loss = |kind, object| kind == EventKind::HW_QUEUE_ERROR && object == told_as.0;
    let told = events.any(|event| is_loss(event.kind, event.object));
    if !executed || told {
        return Err(format!("beside the container: executed: {executed}, told: {told}"));
    }
    Ok(())
}

/// Otherwise the guest has an agent that never answers, and can have no other.
#[test]
fn a_process_that_ends_does_not_become_the_agent() {
    for phase in PHASES {
        let mut world = World::new();
        let row = Row { container: Container::Process, phase, thing: Thing::Device };
        let end = world.begin_end(row);
        let World { bench, busy, .. } = &mut world;
        let register = RegisterAgent { version: AGENT_VERSION, wishes: 0 };
        let refused = bench.call(*busy, &register).map(drop);
        assert_eq!(refused, Err((Status::INVALID_HANDLE, busy.process.into())), "{phase:?}");
        bench.model.state().prompt = true;
        bench.pass_tickets();
        bench.later(TIMEOUT);
        assert_eq!(bench.outcome(*busy, end), Some(Status::SUCCESS), "{phase:?}");
        let other = bench.client(busy.guest);
        bench.call(other, &register).unwrap();
    }
}

#[test]
fn nothing_comes_to_what_ends_once_its_end_has_begun() {
    let mut wrong = Vec::new();
    let mut rows = 0;
    for container in CONTAINERS {
        for phase in PHASES {
            for thing in THINGS {
                let row = Row { container, phase, thing };
                if row.is_possible() {
                    rows += 1;
                    wrong.extend(play(row).err().map(|what| format!("{row:?}: {what}")));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {rows} rows:\n{}", wrong.len(), wrong.join("\n"));
}
