// SPDX-License-Identifier: MIT OR Apache-2.0

//! A program in the place of a worker's, without Vulkan: it does what a worker that is broken or taken over might.
//!
//! It is this test's own executable. A kernel's entry point says what becomes of the worker that compiles or executes
//! it; nothing is computed.
#![allow(dead_code, reason = "each test file uses a part")]

pub mod taken_over;

use bellhop_guest::client::Client;
use bellhop_guest_umd::{Arguments, Error, Kernel, KernelError, QueueFault};
use bellhop_worker::messages::{
    Done, Loaded, MAX_REQUEST, Message, Missing, NotLoaded, Ready, Refused, Request, Text,
    Unmapped, Wild,
};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, send, sendmsg,
};
use rustix::process::{Signal, getpid, kill_process};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, stdin};
use std::mem::MaybeUninit;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use taken_over::Memory;
use zerocopy::IntoBytes;

/// Any SPIR-V: nobody compiles it.
const SPIRV: &[u8] = include_bytes!("../../../../device/worker/kernels/touch.spv");

/// Says how a worker begins. Without it, this process is no worker.
const BEGINS: &str = "BELLHOP_TEST_WORKER";
/// Names a pipe by which a kernel is told to end.
const TOLD: &str = "BELLHOP_TEST_TOLD";

/// The processor time that kernels `takes_long` take to compile.
pub const TAKES_LONG: Duration = Duration::from_millis(300);

/// How a worker begins.
pub const GOOD: &str = "good";
pub const ENDS: &str = "ends";
pub const REFUSES: &str = "refuses";
pub const NONSENSE: &str = "nonsense";

/// What the daemon's start hears of the machine's Vulkan, and a worker in this executable.
const SCRIPT: &str = r#"case $1 in
list) echo '{"devices":[{"name":"N","kind":"cpu","api":"1.4.305","driver":"D 1","limits":{"work_group_size":[64,64,64],"work_group_invocations":64,"work_groups":[9,9,9],"shared_memory":1024,"push_constants":256,"descriptor_alignment":16,"descriptor_range":4096,"import_alignment":4096}}]}' ;;
test) echo '{"found":{"usable":{"pointers":true}}}' ;;
*) exec "$0" --exact stand_in::this_process_is_a_worker --ignored --nocapture ;;
esac"#;

/// The words of the command line of workers that begin in this way.
pub fn words(begins: &str) -> Vec<OsString> {
    words_at(&std::env::current_exe().unwrap(), begins)
}

/// As [`words`], where this executable is at another path.
pub fn words_at(executable: &Path, begins: &str) -> Vec<OsString> {
    let variable = format!("{BEGINS}={begins}").into();
    vec![variable, "sh".into(), "-c".into(), SCRIPT.into(), executable.into()]
}

/// A kernel that does what its entry point says.
pub fn kernel(client: &Client, entry_point: &str) -> Result<Kernel, KernelError> {
    Kernel::from_spirv(&client.device, SPIRV, entry_point).push_constants(8).create()
}

/// Executes a kernel with the address of the client's memory.
pub fn execute(client: &mut Client, kernel: &Kernel) -> Result<(), Error> {
    let mut arguments = Arguments::new();
    arguments.address(client.va(0));
    client.commands.reset();
    client.commands.dispatch_kernel(kernel, [1; 3], &arguments)?;
    let value = client.submit()?;
    client.finish(value)
}

/// Why the queue, or the kernel, was lost.
#[track_caller]
pub fn fault(lost: Result<(), Error>, what: &str) -> QueueFault {
    match lost {
        Err(Error::QueueLost { fault: Some(fault), .. } | Error::KernelFault { fault, .. }) => {
            fault
        }
        other => panic!("{what}: {other:?}"),
    }
}

/// Another queue, after one was lost.
pub fn renew(client: &mut Client) {
    let context = client.device.create_context(0).unwrap();
    client.queue = context.create_user_mode_queue(4096).unwrap();
    client.context = context;
}

/// As [`words`] of good workers, whose kernels `run_until_told` end when this pipe is opened for writing.
pub fn words_that_are_told(pipe: &Path) -> Vec<OsString> {
    let mut variable = OsString::from(format!("{TOLD}="));
    variable.push(pipe);
    std::iter::once(variable).chain(words(GOOD)).collect()
}

fn packet<M: Message>(message: &M) -> Vec<u8> {
    [M::HEADER.as_bytes(), message.as_bytes()].concat()
}

/// The worker's end of a socket.
pub struct Owner<'a>(pub BorrowedFd<'a>);

impl Owner<'_> {
    pub fn tell<M: Message>(&self, message: &M) {
        // An owner that is gone ends this process when it listens next.
        let _ = send(self.0, &packet(message), SendFlags::NOSIGNAL);
    }

    fn tell_bytes(&self, bytes: &[u8]) {
        let _ = send(self.0, bytes, SendFlags::NOSIGNAL);
    }

    /// With a descriptor that no message of a worker has.
    fn tell_with_descriptor<M: Message>(&self, message: &M) {
        let packet = packet(message);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [self.0];
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        let _ = sendmsg(self.0, &[IoSlice::new(&packet)], &mut control, SendFlags::NOSIGNAL);
    }

    /// A packet, and the descriptor that came with it.
    pub fn hear(&self) -> Option<(Vec<u8>, Option<OwnedFd>)> {
        let mut buffer = vec![0; MAX_REQUEST];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let length = recvmsg(self.0, &mut parts, &mut control, RecvFlags::empty()).ok()?.bytes;
        let descriptor = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        buffer.truncate(length);
        (length > 0).then_some((buffer, descriptor))
    }
}

#[test]
#[ignore = "a worker of other tests"]
fn this_process_is_a_worker() {
    let Some(begins) = std::env::var(BEGINS).ok() else { return };
    let socket = stdin();
    let owner = Owner(socket.as_fd());
    match begins.as_str() {
        ENDS => return,
        NONSENSE => owner.tell(&Done { count: 1 }),
        REFUSES => owner.tell(&Refused { why: Text::new("it wants no kernels") }),
        _ => owner.tell(&Ready { pointers: 1, resident: 0 }),
    }
    let mut kernels = BTreeMap::new();
    let mut memory = Memory::default();
    while let Some((bytes, descriptor)) = owner.hear() {
        match Request::read(&bytes) {
            Ok(Request::Start(_)) => memory.socket = descriptor,
            Ok(Request::Load(load)) => {
                let name = &load.name[..load.name_length as usize];
                let name = String::from_utf8(name.to_vec()).unwrap();
                compile(&owner, load.kernel, &name);
                kernels.insert(load.kernel, name);
            }
            // The only other packet that is no structure: a batch.
            Err(_) => {
                let word = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().unwrap());
                // Behind the header: requests for memory, dispatches, and the first dispatch's kernel. Behind that, its
                // push constants.
                let (count, kernel) = (word(12), word(16));
                let argument = bytes.get(48..56).map(|bytes| *bytes.first_chunk().unwrap());
                let address = u64::from_le_bytes(argument.unwrap_or_default());
                let name = &kernels[&kernel];
                if !memory.execute(&owner, count, name, address) {
                    carry_out(&owner, count, name, address);
                }
            }
            Ok(_) => {}
        }
    }
}

fn crash() {
    let _ = kill_process(getpid(), Signal::KILL);
}

/// Takes memory until there is none.
fn hoard() {
    const PIECE: usize = 16 << 20;
    let mut all = Vec::new();
    loop {
        let mut piece = vec![0_u8; PIECE];
        piece.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        all.push(piece);
    }
}

/// Starts a process that outlives this one, and then threads until there can be no more. They stay. Returns why there is
/// not another one.
fn swarm() -> io::Error {
    let mut child = Command::new("sleep");
    child.arg("1000000").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = child.spawn().unwrap();
    // It does not end before this process does.
    std::thread::spawn(move || child.wait());
    loop {
        let thread = std::thread::Builder::new().stack_size(1 << 16);
        let idle = || {
            loop {
                std::thread::park();
            }
        };
        if let Err(error) = thread.spawn(idle) {
            return error;
        }
    }
}

/// What becomes of a worker that compiles a kernel.
fn compile(owner: &Owner<'_>, kernel: u32, name: &str) {
    let wild = Wild { store: 0, known: 1, address: 8 };
    match name {
        "crashes" => crash(),
        "is_silent" => {}
        name if name.starts_with("takes_long") => {
            let taken = || Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap();
            let begin = taken();
            while taken() - begin < TAKES_LONG {}
            owner.tell(&Loaded { kernel });
        }
        "refuses" => owner.tell(&NotLoaded { kernel, why: Text::new("no such instruction") }),
        "loads_another" => owner.tell(&Loaded { kernel: kernel ^ 1 }),
        "has_run" => owner.tell(&Done { count: 1 }),
        "faults" => owner.tell(&Missing { slot: 0, store: 0, address: 1 << 20 }),
        "is_wild" => owner.tell(&wild),
        "is_ready_again" => owner.tell(&Ready { pointers: 1, resident: 0 }),
        "sends_bytes" => owner.tell_bytes(b"no packet"),
        "sends_much" => owner.tell_bytes(&[0x83; 16_384]),
        "sends_a_descriptor" => owner.tell_with_descriptor(&Loaded { kernel }),
        _ => owner.tell(&Loaded { kernel }),
    }
}

/// What becomes of a worker that executes a kernel: the first of `count` dispatches. Its argument may be an address.
fn carry_out(owner: &Owner<'_>, count: u32, name: &str, address: u64) {
    let missing = Missing { slot: 0, store: 0, address };
    match name {
        "run_crashes" => crash(),
        "run_is_silent" => {}
        "run_hoards" => hoard(),
        "run_swarms" if swarm().kind() == ErrorKind::WouldBlock => owner.tell(&Done { count }),
        "run_until_told" => {
            // Opened once somebody opens the other end.
            let _ = std::fs::File::open(std::env::var_os(TOLD).unwrap());
            owner.tell(&Done { count });
        }
        "run_stops" => {
            let _ = kill_process(getpid(), Signal::STOP);
        }
        "run_ends_another" => owner.tell(&Done { count: count + 1 }),
        "run_loads" => owner.tell(&Loaded { kernel: 1 }),
        "run_is_ready_again" => owner.tell(&Ready { pointers: 1, resident: 0 }),
        "run_forgets" => owner.tell(&Unmapped { address: 1 << 20, length: 4096 }),
        "run_faults_outside" => owner.tell(&Missing { slot: 0, store: 0, address: 1 << 40 }),
        "run_faults_nowhere" => owner.tell(&Missing { slot: 999, ..missing }),
        // It has memory mapped, and forgets none of it.
        "run_faults" => owner.tell(&missing),
        "run_faults_for_ever" => loop {
            // Each answer is in the other socket, which nobody reads.
            let told = send(owner.0, &packet(&missing), SendFlags::NOSIGNAL);
            if told.is_err() {
                break;
            }
        },
        "run_sends_bytes" => owner.tell_bytes(b"no packet"),
        "run_sends_a_descriptor" => owner.tell_with_descriptor(&Done { count }),
        _ => owner.tell(&Done { count }),
    }
}
