//! Hangs over the real transport: each degree of them, what it costs whom, and that the daemon lives.

mod support;

use bellhop_guest::fake_guest::FakeGuest;
use bellhop_guest_umd::{
    Adapter, CommandBuffer, Context, Device, Error, GpuMapping, UserModeQueue,
};
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::dispatch::Kernel;
use bellhop_protocol::status::Status;
use std::sync::Arc;
use std::time::Duration;
use support::Daemon;

const TIMEOUT: Duration = Duration::from_secs(30);
const SIZE: u64 = 4 << 20;
/// What hangs is soon found out.
const CONFIGURATION: &str = "[adapter]\ncopy_nodes = 1\ntimeout_ms = 200\nrecovery_ms = 100\n\
     engine_idle_ms = 0\ntest_kernels = true\nhang_limit = 3\n[guest]\nlocal_memory_mib = 16\n";

/// A guest with a context on the compute node, and memory.
struct Client {
    guest: Arc<FakeGuest>,
    adapter: Adapter,
    queue: UserModeQueue,
    context: Context,
    memory: GpuMapping,
    device: Device,
}

impl Client {
    fn new(daemon: &Daemon, number: usize) -> Self {
        Self::of(support::guest(daemon, number))
    }

    fn of(guest: Arc<FakeGuest>) -> Self {
        let adapter = Adapter::open(guest.clone()).unwrap();
        let device = adapter.create_device().unwrap();
        Self::on(guest, adapter, device)
    }

    fn on(guest: Arc<FakeGuest>, adapter: Adapter, device: Device) -> Self {
        let memory = device.create_allocation(AllocationKind::LOCAL, SIZE).unwrap();
        let memory = memory.map(Protection::WRITE).unwrap();
        let context = device.create_context(0).unwrap();
        let queue = context.create_user_mode_queue(4096).unwrap();
        Self { guest, adapter, queue, context, memory, device }
    }

    /// Has the engine hang, and returns why the queue was lost.
    fn hang(&mut self, kernel: Kernel) -> FaultReason {
        let at = self.memory.gpu_va();
        let mut commands = CommandBuffer::new(&self.device, 256).unwrap();
        commands.dispatch(kernel, at, at + 8, 8, 1).unwrap();
        let value = self.queue.submit(&mut commands).unwrap();
        match self.queue.progress_fence().wait(value, TIMEOUT) {
            Err(Error::QueueLost { fault: Some(fault), .. }) => fault.reason,
            other => panic!("{other:?}"),
        }
    }

    /// Copies that go on for a while; their buffers.
    fn begin_copies(&mut self) -> (u64, Vec<CommandBuffer>) {
        let pattern: Vec<u8> = (0..SIZE / 2).map(|at| (at % 251) as u8).collect();
        self.memory.allocation().write(0, &pattern).unwrap();
        let (low, high) = (self.memory.gpu_va(), self.memory.gpu_va() + SIZE / 2);
        let mut buffers = Vec::new();
        let mut last = 0;
        for round in 0..50 {
            let (from, to) = if round % 2 == 0 { (low, high) } else { (high, low) };
            let mut commands = CommandBuffer::new(&self.device, 256).unwrap();
            commands.copy(from, to, SIZE / 2).unwrap().fill(from, SIZE / 2, round).unwrap();
            last = self.queue.submit(&mut commands).unwrap();
            buffers.push(commands);
        }
        (last, buffers)
    }

    /// Waits for them and looks at what they did.
    fn end_copies(&self, last: u64) {
        self.queue.progress_fence().wait(last, TIMEOUT).unwrap();
        let mut bytes = vec![0; SIZE as usize / 2];
        self.memory.allocation().read(0, &mut bytes).unwrap();
        assert!(bytes.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at % 251));
    }

    fn work(&mut self) {
        let mut commands = CommandBuffer::new(&self.device, 64).unwrap();
        let value = self.queue.submit(commands.nop().unwrap()).unwrap();
        self.queue.progress_fence().wait(value, TIMEOUT).unwrap();
    }
}

#[test]
fn a_hang_that_a_preemption_or_a_reset_of_its_engine_ends_costs_its_context_alone() {
    let daemon = Daemon::start_with(2, CONFIGURATION);
    let mut innocent = Client::new(&daemon, 1);
    for (kernel, said) in [
        (Kernel::SPIN_UNTIL, "pre-empting"),
        (Kernel::HANG_UNTIL_ENGINE_RESET, "resetting the engine"),
    ] {
        let mut guilty = Client::new(&daemon, 0);
        let (last, _buffers) = innocent.begin_copies();
        assert_eq!(guilty.hang(kernel), FaultReason::ENGINE_TIMEOUT);
        daemon.await_log(said);
        innocent.end_copies(last);
        // On the same device, with another context, the guest goes on.
        guilty.context = guilty.device.create_context(0).unwrap();
        guilty.queue = guilty.context.create_user_mode_queue(4096).unwrap();
        guilty.work();
    }
}

#[test]
fn a_reset_of_the_adapter_costs_everybody_their_devices_and_nothing_else() {
    let daemon = Daemon::start_with(2, CONFIGURATION);
    let mut clients = [0, 1].map(|number| Client::new(&daemon, number));
    let gate = clients[1].device.create_fence(0).unwrap();
    assert_eq!(clients[0].hang(Kernel::HANG_UNTIL_ADAPTER_RESET), FaultReason::ENGINE_TIMEOUT);
    daemon.await_log("the adapter was reset");
    let mut commands = CommandBuffer::new(&clients[1].device, 64).unwrap();
    match clients[1].queue.submit(commands.nop().unwrap()) {
        Err(Error::QueueLost { fault: Some(fault), .. }) => {
            assert_eq!(fault.reason, FaultReason::ADAPTER_RESET);
        }
        other => panic!("{other:?}"),
    }
    // Nobody waits for what will not come.
    gate.wait(1_000_000, TIMEOUT).unwrap();
    for client in clients {
        match client.device.create_context(0) {
            Err(Error::Refused { status: Status::DEVICE_REMOVED, .. }) => {}
            other => panic!("{:?}", other.map(|_| ())),
        }
        let device = client.adapter.create_device().unwrap();
        let mut anew = Client::on(client.guest, client.adapter, device);
        let (last, _buffers) = anew.begin_copies();
        anew.end_copies(last);
    }
}

#[test]
fn a_guest_that_hangs_too_often_is_taken_out_until_it_is_reset_and_others_go_on() {
    let daemon = Daemon::start_with(2, CONFIGURATION);
    let mut innocent = Client::new(&daemon, 1);
    let mut guilty = Client::new(&daemon, 0);
    for round in 1..=3 {
        assert_eq!(guilty.hang(Kernel::SPIN_UNTIL), FaultReason::ENGINE_TIMEOUT);
        innocent.work();
        if round < 3 {
            guilty.context = guilty.device.create_context(0).unwrap();
            guilty.queue = guilty.context.create_user_mode_queue(4096).unwrap();
        }
    }
    daemon.await_log("gets nothing executed until it is reset");
    match guilty.adapter.create_device() {
        Err(Error::Refused { status, detail, .. }) => {
            assert_eq!((status, detail), (Status::GRAPHICS_GPU_EXCEPTION_ON_DEVICE, 3));
        }
        other => panic!("{:?}", other.map(|_| ())),
    }
    innocent.work();
    let guest = Arc::clone(&guilty.guest);
    // As a reboot does, without destroying anything.
    std::mem::forget(guilty);
    guest.reset().unwrap();
    Client::of(guest).work();
    innocent.work();
}

#[test]
fn a_guest_that_goes_while_its_engine_hangs_leaves_the_engine_to_others() {
    let daemon = Daemon::start_with(2, CONFIGURATION);
    let mut innocent = Client::new(&daemon, 1);
    for kernel in [Kernel::SPIN_UNTIL, Kernel::HANG_UNTIL_ENGINE_RESET] {
        let mut guilty = Client::new(&daemon, 0);
        let at = guilty.memory.gpu_va();
        let mut commands = CommandBuffer::new(&guilty.device, 256).unwrap();
        commands.write_data(at + 16, &[1; 8]).unwrap();
        commands.dispatch(kernel, at, at + 8, 8, 1).unwrap();
        guilty.queue.submit(&mut commands).unwrap();
        let mut begun = [0; 8];
        while begun == [0; 8] {
            guilty.memory.allocation().read(16, &mut begun).unwrap();
            std::thread::yield_now();
        }
        drop((commands, guilty));
        daemon.await_log("front end gone");
        innocent.work();
    }
    Client::new(&daemon, 0).work();
}

#[test]
fn a_kernel_mode_submission_that_hangs_is_told_to_whoever_waits_for_it() {
    let daemon = Daemon::start_with(1, CONFIGURATION);
    let client = Client::new(&daemon, 0);
    let mut queue = client.context.create_kernel_mode_queue().unwrap();
    let at = client.memory.gpu_va();
    let mut commands = CommandBuffer::new(&client.device, 256).unwrap();
    commands.dispatch(Kernel::SPIN_UNTIL, at, at + 8, 8, 1).unwrap();
    let value = queue.submit(&mut commands).unwrap();
    match queue.progress_fence().wait(value, TIMEOUT) {
        Err(Error::QueueLost { fault: Some(fault), .. }) => {
            assert_eq!(fault.reason, FaultReason::ENGINE_TIMEOUT);
        }
        other => panic!("{other:?}"),
    }
}
