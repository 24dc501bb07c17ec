// SPDX-License-Identifier: MIT OR Apache-2.0

//! vhost-user messages against what serves a connection, descriptors included.

use crate::bench::bytes;
use crate::host::{host, place};
use arbitrary::Arbitrary;
use bellhop_device::vhost::backend::Host;
use bellhop_device::vhost::connection::Connection;
use bellhop_host_kmd::hardware::FrontEnd as Peer;
use bellhop_protocol::control::adapter::OpenAdapter;
use bellhop_protocol::features::Version;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::fs::{self, File};
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of the guest's memory.
const MEMORY: u64 = 64 << 10;
/// Guest-physical address of the memory.
const PHYSICAL: u64 = 0x1000;
/// The front end's address of the memory, true or not.
const USER: u64 = 0x7000_0000;
/// Offsets of the control queue's rings and a request from the start of memory.
const RINGS: [u64; 3] = [0, 0x1000, 0x2000];
const REQUEST: u64 = 0x4000;
const REPLY: u64 = 0x5000;

/// Most messages of one input, and most descriptors of a message.
const MOST: usize = 48;
const MOST_DESCRIPTORS: usize = 8;

/// How long what a front end had may take to go.
const HANG: Duration = Duration::from_secs(30);

const VERSION: u32 = 1;
const NEED_REPLY: u32 = 8;

/// Numbers of requests, with the specification's names.
mod request {
    pub const GET_FEATURES: u32 = 1;
    pub const SET_FEATURES: u32 = 2;
    pub const SET_OWNER: u32 = 3;
    pub const SET_MEM_TABLE: u32 = 5;
    pub const SET_VRING_NUM: u32 = 8;
    pub const SET_VRING_ADDR: u32 = 9;
    pub const SET_VRING_BASE: u32 = 10;
    pub const GET_VRING_BASE: u32 = 11;
    pub const SET_VRING_KICK: u32 = 12;
    pub const SET_VRING_CALL: u32 = 13;
    pub const GET_PROTOCOL_FEATURES: u32 = 15;
    pub const SET_PROTOCOL_FEATURES: u32 = 16;
    pub const SET_VRING_ENABLE: u32 = 18;
    pub const SET_BACKEND_REQ_FD: u32 = 21;
    pub const GET_CONFIG: u32 = 24;
    pub const ADD_MEM_REG: u32 = 37;
    pub const REM_MEM_REG: u32 = 38;
    /// One more than the last request.
    pub const END: u32 = 46;
}

/// A descriptor that goes with a message.
#[derive(Debug, Clone, Copy, Arbitrary)]
enum Descriptor {
    Memory,
    /// Memory that is shorter than announced.
    ShortMemory,
    Kick,
    Call,
    Socket,
    Null,
    /// The front end's own end of the connection.
    Connection,
    /// An eventfd that is full, and blocks.
    Full,
}

/// A memory region of a table.
#[derive(Debug, Clone, Copy, Arbitrary)]
enum Region {
    Whole,
    Half(bool),
    Any { physical: u64, size: u64, user: u64, offset: u64 },
    Near { physical: u16, size: u16, offset: u16 },
}

impl Region {
    fn bytes(self) -> Vec<u8> {
        let half = MEMORY / 2;
        let words = match self {
            Self::Whole => [PHYSICAL, MEMORY, USER, 0],
            Self::Half(second) => {
                let offset = if second { half } else { 0 };
                [PHYSICAL + offset, half, USER + offset, offset]
            }
            Self::Any { physical, size, user, offset } => [physical, size, user, offset],
            Self::Near { physical, size, offset } => {
                [physical.into(), size.into(), USER + u64::from(physical), offset.into()]
            }
        };
        words.map(u64::to_le_bytes).concat()
    }
}

/// A value of a field.
#[derive(Debug, Clone, Copy, Arbitrary)]
enum Word {
    Queue(bool),
    Small(u16),
    Memory(u16),
    Any(u64),
}

impl Word {
    fn get(self) -> u64 {
        match self {
            Self::Queue(queue) => queue.into(),
            Self::Small(number) => number.into(),
            Self::Memory(offset) => USER + u64::from(offset),
            Self::Any(word) => word,
        }
    }
}

/// An action of the front end.
#[derive(Debug, Arbitrary)]
enum Action {
    /// All messages that a front end sends before a driver runs.
    Start {
        backend_channel: bool,
        protocol_features: bool,
    },
    /// A message with some words.
    Message {
        request: u8,
        needs_reply: bool,
        words: Vec<Word>,
        descriptors: Vec<Descriptor>,
    },
    /// A queue's state.
    Queue {
        request: u8,
        queue: bool,
        number: u32,
        descriptor: Option<Descriptor>,
    },
    Addresses {
        queue: bool,
        places: [Word; 3],
        flags: u8,
    },
    MemoryTable {
        count: Option<u32>,
        regions: Vec<Region>,
        descriptors: Vec<Descriptor>,
    },
    MemoryRegion {
        adds: bool,
        region: Region,
        descriptor: Option<Descriptor>,
    },
    Config {
        is_set: bool,
        offset: u32,
        size: u32,
        flags: u8,
        payload: u8,
    },
    /// A header that does not match its body.
    Raw {
        request: u32,
        flags: u32,
        size: u32,
        body: Vec<u8>,
        descriptors: Vec<Descriptor>,
    },
    /// A valid request of the driver.
    Request,
    Write {
        at: u16,
        words: [u64; 2],
    },
    Kick,
    /// Sets the size of the memory, in KiB.
    Shrink {
        size: u8,
    },
    /// Answers the device's request, rightly or wrongly.
    Answer {
        value: u64,
        size: u8,
    },
    /// Reads what the device sent.
    Drain,
}

/// What this process has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Has {
    descriptors: usize,
    threads: usize,
}

impl Has {
    /// Everything that it has now.
    fn now() -> Self {
        let count = |folder: &str| fs::read_dir(folder).unwrap().count();
        Self { descriptors: count("/proc/self/fd"), threads: count("/proc/self/task") }
    }

    /// The same without pipes, through which a sanitizer looks up symbols; the device has none.
    fn without_pipes() -> Self {
        let names = fs::read_dir("/proc/self/fd").unwrap().flatten().map(|entry| entry.path());
        let is_pipe = |path: &PathBuf| {
            fs::read_link(path).is_ok_and(|name| name.to_string_lossy().starts_with("pipe:"))
        };
        Self { descriptors: names.filter(|path| !is_pipe(path)).count(), ..Self::now() }
    }
}

/// A host, and what this process has while no front end is connected.
struct Bench {
    host: Host,
    idle: Has,
    idle_without_pipes: Has,
}

impl Default for Bench {
    fn default() -> Self {
        let host = Host { maps_bar: true, ..host() };
        let none = Has { descriptors: 0, threads: 0 };
        let mut bench = Self { host, idle: none, idle_without_pipes: none };
        // What a first guest brings with it stays, such as the thread that unmaps memory.
        let starts = [(true, true), (false, true)].map(|(backend_channel, protocol_features)| {
            [Action::Start { backend_channel, protocol_features }, Action::Request, Action::Drain]
        });
        starts.into_iter().for_each(|actions| bench.connect(actions));
        // What is freed on other threads is freed a little later.
        let mut same = 0;
        while same < 100 {
            let now = Has::now();
            same = if now == bench.idle { same + 1 } else { 0 };
            bench.idle = now;
            thread::sleep(Duration::from_millis(1));
        }
        bench.idle_without_pipes = Has::without_pipes();
        bench
    }
}

impl Bench {
    /// A front end comes, does that, and goes. It may leave as soon as the device refuses it.
    fn connect(&self, actions: impl IntoIterator<Item = Action>) {
        let (theirs, ours) = UnixStream::pair().unwrap();
        let connection =
            Connection::new(self.host.clone(), ours, Peer::default(), place()).unwrap();
        let mut front_end = FrontEnd::over(theirs);
        // A front end may well be refused.
        let _ = connection.serve_in_steps(|hear| {
            for action in actions {
                front_end.act(&action);
                if !hear() {
                    break;
                }
            }
        });
    }

    /// Checks that a well-behaved front end is answered.
    fn is_served(&self) {
        let (mut theirs, ours) = UnixStream::pair().unwrap();
        let connection =
            Connection::new(self.host.clone(), ours, Peer::default(), place()).unwrap();
        let served = connection.serve_in_steps(|hear| {
            send(&theirs, &message(request::GET_FEATURES, 0, &[]), &[]);
            assert!(hear(), "the next front end is served");
            let mut reply = [0; 20];
            theirs.set_nonblocking(true).unwrap();
            theirs.read_exact(&mut reply).expect("the next front end is answered");
            assert_eq!(reply[..4], request::GET_FEATURES.to_le_bytes());
        });
        served.unwrap();
    }
}

/// A front end sends anything to the device. No descriptor and no thread is left when it has gone, and the next front end
/// is answered.
pub fn vhost_user(data: &[u8]) {
    thread_local! {
        static BENCH: Bench = Bench::default();
    }
    BENCH.with(|bench| {
        bench.connect(crate::actions(data, MOST));
        bench.is_served();
        let start = Instant::now();
        let mut left = Has::now();
        while left != bench.idle && Has::without_pipes() != bench.idle_without_pipes {
            assert!(start.elapsed() < HANG, "{left:?} are left, and {:?} before", bench.idle);
            // Other threads unmap memory and close its files.
            thread::yield_now();
            left = Has::now();
        }
    });
}

struct FrontEnd {
    socket: UnixStream,
    memory: File,
    short_memory: File,
    kick: OwnedFd,
    call: OwnedFd,
    null: File,
    full: OwnedFd,
    /// Both ends of the device's request channel, ours first.
    channel: (UnixStream, UnixStream),
    offered: u16,
}

impl FrontEnd {
    /// At this end of a connection.
    fn over(socket: UnixStream) -> Self {
        let memory = |length| {
            let file = File::from(memfd_create("guest", MemfdFlags::CLOEXEC).unwrap());
            ftruncate(&file, length).unwrap();
            file
        };
        let event = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        let full = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        rustix::io::write(&full, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        let channel = UnixStream::pair().unwrap();
        channel.0.set_nonblocking(true).unwrap();
        Self {
            socket,
            memory: memory(MEMORY),
            short_memory: memory(MEMORY / 4),
            kick: event(),
            call: event(),
            null: File::open("/dev/null").unwrap(),
            full,
            channel,
            offered: 0,
        }
    }

    fn descriptor(&self, which: Descriptor) -> BorrowedFd<'_> {
        match which {
            Descriptor::Memory => self.memory.as_fd(),
            Descriptor::ShortMemory => self.short_memory.as_fd(),
            Descriptor::Kick => self.kick.as_fd(),
            Descriptor::Call => self.call.as_fd(),
            Descriptor::Socket => self.channel.1.as_fd(),
            Descriptor::Null => self.null.as_fd(),
            Descriptor::Connection => self.socket.as_fd(),
            Descriptor::Full => self.full.as_fd(),
        }
    }

    fn send(&self, request: u32, flags: u32, body: &[u8], descriptors: &[Descriptor]) {
        self.send_bytes(&message(request, flags, body), descriptors);
    }

    fn send_bytes(&self, bytes: &[u8], descriptors: &[Descriptor]) {
        let descriptors = descriptors.iter().take(MOST_DESCRIPTORS);
        let descriptors: Vec<_> = descriptors.map(|which| self.descriptor(*which)).collect();
        send(&self.socket, bytes, &descriptors);
    }

    fn words(&self, request: u32, words: &[u64], descriptors: &[Descriptor]) {
        let body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.send(request, 0, &body, descriptors);
    }

    fn start(&mut self, backend_channel: bool, protocol_features: bool) {
        use request::*;
        const VERSION_1: u64 = 1 << 32;
        const PROTOCOL_FEATURES: u64 = 1 << 30;
        self.words(SET_OWNER, &[], &[]);
        self.words(GET_FEATURES, &[], &[]);
        if protocol_features {
            self.words(GET_PROTOCOL_FEATURES, &[], &[]);
            // MQ, REPLY_ACK, BACKEND_REQ, CONFIG, BACKEND_SEND_FD and SHMEM.
            let taken = 1 | 1 << 3 | 1 << 5 | 1 << 9 | 1 << 10 | 1 << 22;
            self.words(SET_PROTOCOL_FEATURES, &[taken], &[]);
        }
        if backend_channel {
            self.words(SET_BACKEND_REQ_FD, &[], &[Descriptor::Socket]);
        }
        self.words(SET_FEATURES, &[VERSION_1 | PROTOCOL_FEATURES], &[]);
        self.memory_table(None, &[Region::Whole], &[Descriptor::Memory]);
        for queue in 0..2u64 {
            let pair = |number: u64| queue | number << 32;
            self.words(SET_VRING_NUM, &[pair(64)], &[]);
            self.words(SET_VRING_BASE, &[pair(0)], &[]);
            let [table, available, used] = RINGS.map(|at| USER + at + queue * 0x6000);
            self.words(SET_VRING_ADDR, &[queue, table, used, available, 0], &[]);
            self.words(SET_VRING_CALL, &[queue], &[Descriptor::Call]);
            self.words(SET_VRING_KICK, &[queue], &[Descriptor::Kick]);
            self.words(SET_VRING_ENABLE, &[pair(1)], &[]);
        }
        self.offered = 0;
    }

    fn memory_table(&self, count: Option<u32>, regions: &[Region], descriptors: &[Descriptor]) {
        let count = count.unwrap_or(regions.len() as u32);
        let regions: Vec<u8> = regions.iter().flat_map(|region| region.bytes()).collect();
        let body = [&count.to_le_bytes()[..], &[0; 4], &regions].concat();
        self.send(request::SET_MEM_TABLE, 0, &body, descriptors);
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, at).unwrap();
    }

    fn request(&mut self) {
        let open = OpenAdapter { version: Version::CURRENT, reserved: 0, features: 0 };
        let open = bytes(0, &open);
        self.write(REQUEST, &open);
        let mut table = Vec::new();
        let descriptors = [(REQUEST, open.len() as u32, 1u16, 1u16), (REPLY, 256, 2, 0)];
        for (at, length, flags, next) in descriptors {
            table.extend_from_slice(&(PHYSICAL + at).to_le_bytes());
            table.extend_from_slice(&length.to_le_bytes());
            table.extend_from_slice(&flags.to_le_bytes());
            table.extend_from_slice(&next.to_le_bytes());
        }
        self.write(RINGS[0], &table);
        self.write(RINGS[1] + 4 + u64::from(self.offered % 64) * 2, &[0; 2]);
        self.offered = self.offered.wrapping_add(1);
        self.write(RINGS[1] + 2, &self.offered.to_le_bytes());
        self.kick();
    }

    fn kick(&self) {
        // A full counter is fine: it is a kick, too.
        let _ = rustix::io::write(&self.kick, &1u64.to_ne_bytes());
    }

    /// Reads what the device sent, so that it does not block.
    fn drain(mut socket: &UnixStream) {
        let mut bytes = [0; 4096];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        while poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&now)).is_ok_and(|n| n > 0) {
            if !socket.read(&mut bytes).is_ok_and(|length| length > 0) {
                return;
            }
        }
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::Start { backend_channel, protocol_features } => {
                self.start(*backend_channel, *protocol_features);
            }
            Action::Message { request, needs_reply, words, descriptors } => {
                let words: Vec<u8> =
                    words.iter().take(8).flat_map(|word| word.get().to_le_bytes()).collect();
                let flags = if *needs_reply { NEED_REPLY } else { 0 };
                self.send(u32::from(*request) % request::END, flags, &words, descriptors);
            }
            Action::Queue { request, queue, number, descriptor } => {
                use request::*;
                let requests = [
                    SET_VRING_NUM,
                    SET_VRING_BASE,
                    GET_VRING_BASE,
                    SET_VRING_KICK,
                    SET_VRING_CALL,
                    SET_VRING_ENABLE,
                ];
                let request = requests[usize::from(*request) % requests.len()];
                let is_file = matches!(request, SET_VRING_KICK | SET_VRING_CALL);
                // Bit 8 says that no descriptor comes.
                let number = if is_file { 0 } else { u64::from(*number) << 32 };
                let none = if is_file && descriptor.is_none() { 1 << 8 } else { 0 };
                let word = u64::from(*queue) | number | none;
                self.words(request, &[word], descriptor.as_slice());
            }
            Action::Addresses { queue, places: [table, used, available], flags } => {
                let first = u64::from(*queue) | u64::from(*flags) << 32;
                let words = [first, table.get(), used.get(), available.get(), 0];
                self.words(request::SET_VRING_ADDR, &words, &[]);
            }
            Action::MemoryTable { count, regions, descriptors } => {
                let regions = regions.get(..regions.len().min(40)).unwrap_or_default();
                self.memory_table(*count, regions, descriptors);
            }
            Action::MemoryRegion { adds, region, descriptor } => {
                let request = if *adds { request::ADD_MEM_REG } else { request::REM_MEM_REG };
                let body = [&[0; 8][..], &region.bytes()].concat();
                self.send(request, 0, &body, descriptor.as_slice());
            }
            Action::Config { is_set, offset, size, flags, payload } => {
                let head = [*offset, *size, u32::from(*flags)].map(u32::to_le_bytes).concat();
                let body = [head, vec![0; usize::from(*payload)]].concat();
                self.send(request::GET_CONFIG + u32::from(*is_set), 0, &body, &[]);
            }
            Action::Raw { request, flags, size, body, descriptors } => {
                let header = [*request, *flags, *size].map(u32::to_le_bytes).concat();
                let body = body.get(..body.len().min(256)).unwrap_or_default();
                self.send_bytes(&[&header[..], body].concat(), descriptors);
            }
            Action::Request => self.request(),
            Action::Write { at, words } => {
                let at = u64::from(*at).min(MEMORY - 16);
                self.write(at, &words.map(u64::to_le_bytes).concat());
            }
            Action::Kick => self.kick(),
            Action::Shrink { size } => {
                ftruncate(&self.memory, MEMORY.min(u64::from(*size) << 10)).unwrap();
            }
            Action::Answer { value, size } => {
                Self::drain(&self.channel.0);
                // The request's own header with the flag of a reply: number 9 maps, 10 unmaps.
                let header = [9 + u32::from(*size % 2), VERSION | 4, 8].map(u32::to_le_bytes);
                let answer = [&header.concat()[..], &value.to_le_bytes()].concat();
                let length = answer.len() - usize::from(*size / 16).min(answer.len());
                // The peer may have gone.
                let _ = (&self.channel.0).write(&answer[..length]);
            }
            Action::Drain => Self::drain(&self.socket),
        }
        Self::drain(&self.socket);
    }
}

/// A message's bytes.
fn message(request: u32, flags: u32, body: &[u8]) -> Vec<u8> {
    let header = [request, VERSION | flags, body.len() as u32].map(u32::to_le_bytes).concat();
    [&header[..], body].concat()
}

/// Sends bytes, as far as the other end takes them.
fn send(socket: &UnixStream, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    match sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags) {
        Ok(_) => {}
        // The other end has ended the connection, or is behind with reading.
        Err(error) => {
            let kind = std::io::Error::from(error).kind();
            let is_expected = matches!(
                kind,
                ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::WouldBlock
            );
            assert!(is_expected, "{error}");
        }
    }
}
