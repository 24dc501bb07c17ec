// SPDX-License-Identifier: MIT OR Apache-2.0

//! Descriptors and rings of the virtqueues.

use crate::bench::bytes;
use crate::host::{host, place};
use crate::rig::eventually;
use arbitrary::Arbitrary;
use bellhop_device::vhost::backend::{GuestBackend, Host};
use bellhop_host_kmd::hardware::FrontEnd;
use bellhop_protocol::config::{CONTROL_QUEUE, EVENT_QUEUE, MAX_QUEUE_SIZE};
use bellhop_protocol::control::adapter::{GetNodeMetadata, OpenAdapter, QueryStatistics};
use bellhop_protocol::control::process::{CreateProcess, DestroyProcess};
use bellhop_protocol::control::{ReplyHeader, RequestHeader};
use bellhop_protocol::features::Version;
use bellhop_protocol::status::Status;
use std::ops::Range;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

/// The guest's memory: two pieces with a gap between them.
const LOW: Range<u64> = 0x1000..0x8000;
const HIGH: Range<u64> = 0x1_0000..0x1_8000;
/// Initial addresses of each queue's descriptor table, available ring and used ring.
const RINGS: [[u64; 3]; 2] = [[0x1000, 0x2000, 0x3000], [0x4000, 0x5000, 0x6000]];
/// The address, stride and number of requests.
const REQUESTS: u64 = HIGH.start;
const REQUEST_STRIDE: u64 = 0x100;
const REQUEST_KINDS: usize = 8;
/// Where replies go.
const REPLIES: u64 = 0x1_2000;
/// Where indirect tables are.
const TABLES: u64 = 0x1_4000;

/// Bytes that are compared at once.
const PART: usize = 64;

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;

/// An address of guest memory.
#[derive(Debug, Clone, Copy, Arbitrary)]
enum Place {
    Request(u8),
    Reply(u8, u8),
    Table(u8),
    Low(u16),
    End(bool, u8),
    Any(u64),
}

impl Place {
    fn get(self) -> u64 {
        match self {
            Self::Request(kind) => {
                REQUESTS + u64::from(kind) % REQUEST_KINDS as u64 * REQUEST_STRIDE
            }
            Self::Reply(which, offset) => {
                REPLIES + u64::from(which % 16) * 0x100 + u64::from(offset)
            }
            Self::Table(index) => TABLES + u64::from(index) * 16,
            Self::Low(offset) => LOW.start + u64::from(offset % 0x7000),
            Self::End(is_high, before) => {
                (if is_high { HIGH.end } else { LOW.end }) - u64::from(before)
            }
            Self::Any(address) => address,
        }
    }
}

/// A length in bytes.
#[derive(Debug, Clone, Copy, Arbitrary)]
enum Length {
    /// The length of the request at that place.
    Fitting,
    Short(u8),
    Long(u16),
    Any(u32),
}

/// A descriptor.
#[derive(Debug, Clone, Copy, Arbitrary)]
struct Descriptor {
    place: Place,
    length: Length,
    flags: u8,
    next: u16,
}

/// An action of the guest or its VMM.
#[derive(Debug, Arbitrary)]
enum Action {
    /// Offers a valid request and room for its reply.
    Request { kind: u8, first: u8, room: u16 },
    /// Offers room for an event.
    Room { first: u8, room: u16 },
    /// Writes a descriptor of a queue, or of an indirect table.
    Describe { table: u8, index: u8, descriptor: Descriptor },
    /// Puts a head into an available ring.
    Offer { queue: bool, head: u16 },
    /// Publishes this number of heads.
    Lie { queue: bool, index: u16 },
    /// Writes anything anywhere.
    Write { at: Place, words: [u64; 2] },
    /// Kicks the device.
    Kick { queue: bool },
    /// Waits until all requests are answered.
    Settle,
    /// Stops the device, as a reset does.
    Reset,
    /// Moves a queue.
    Move { queue: bool, places: [Place; 3], size: u16 },
    /// Pulls half of the memory out, or plugs it in again.
    Plug { all: bool },
}

/// Most actions of one input.
const MOST: usize = 64;

/// A guest with two queues.
struct Guest {
    host: Host,
    backend: GuestBackend,
    memory: GuestMemoryMmap,
    /// The number of heads in each available ring.
    offered: [u16; 2],
    /// Ranges that the device may write, as long as only plain descriptors were used.
    writable: Option<Vec<Range<u64>>>,
}

/// A guest's queues hold anything. The device returns every chain that it takes once, writes only what descriptors
/// offer, and works after a reset.
pub fn virtqueue(data: &[u8]) {
    let mut guest = Guest::new();
    for action in crate::actions(data, MOST) {
        guest.act(&action);
    }
    guest.settle();
    guest.check();
    guest.reset();
    guest.works();
    guest.backend.close();
    assert_eq!(guest.backend.guest(), None);
}

/// All of the guest's memory, with requests in it.
fn memory(plugged: &[Range<u64>]) -> GuestMemoryMmap {
    let ranges = plugged.iter().map(|r| (GuestAddress(r.start), (r.end - r.start) as usize));
    GuestMemoryMmap::from_ranges(&ranges.collect::<Vec<_>>()).unwrap()
}

/// Requests for which the device writes only their replies.
fn requests() -> [Vec<u8>; REQUEST_KINDS] {
    let open = OpenAdapter { version: Version::CURRENT, reserved: 0, features: 0 };
    let create = bytes(0, &CreateProcess { reserved: 0 });
    [
        bytes(0, &open),
        create.clone(),
        bytes(0, &GetNodeMetadata { node: 0, reserved: 0 }),
        bytes(0, &QueryStatistics { reserved: 0 }),
        bytes(1, &DestroyProcess { flags: 0 }),
        create[..size_of::<RequestHeader>() - 1].to_vec(),
        [create.clone(), vec![0xFF; 64]].concat(),
        vec![0xFF; 64],
    ]
}

impl Guest {
    fn new() -> Self {
        let host = host();
        let backend = GuestBackend::new(host.clone(), FrontEnd::default(), place(), None).unwrap();
        backend.take_features(backend.features());
        let memory = memory(&[LOW, HIGH]);
        let mut guest = Self { host, backend, memory, offered: [0; 2], writable: None };
        guest.start();
        guest
    }

    /// Starts the queues, as a VMM does when a driver has set them up.
    fn start(&mut self) {
        self.plug(&[LOW, HIGH]);
        for (ring, [table, available, used]) in self.backend.rings().iter().zip(RINGS) {
            assert!(ring.set_size(MAX_QUEUE_SIZE.into()));
            ring.set_addresses(table, available, used).unwrap();
            ring.set_next_available(0);
            ring.set_next_used(0);
            ring.set_ready();
            ring.set_enabled(true);
        }
        for (place, request) in (REQUESTS..).step_by(REQUEST_STRIDE as usize).zip(requests()) {
            self.write(place, &request);
        }
        self.offered = [0; 2];
        self.writable = Some(Vec::new());
    }

    /// Announces other memory.
    fn plug(&mut self, plugged: &[Range<u64>]) {
        self.memory = memory(plugged);
        self.backend.update_memory(self.memory.clone());
    }

    /// Writes to the guest's memory, where it exists.
    fn write(&self, at: u64, bytes: &[u8]) {
        // Absent memory is not written.
        let _ = self.memory.write_slice(bytes, GuestAddress(at));
    }

    fn read(&self, at: u64, bytes: &mut [u8]) {
        self.memory.read_slice(bytes, GuestAddress(at)).unwrap();
    }

    fn read_u16(&self, at: u64) -> u16 {
        let mut bytes = [0; 2];
        self.read(at, &mut bytes);
        u16::from_le_bytes(bytes)
    }

    fn describe(
        &mut self,
        table: u64,
        index: u16,
        address: u64,
        length: u32,
        flags: u16,
        next: u16,
    ) {
        let bytes = [
            &address.to_le_bytes()[..],
            &length.to_le_bytes(),
            &flags.to_le_bytes(),
            &next.to_le_bytes(),
        ];
        self.write(table + u64::from(index) * 16, &bytes.concat());
        let offered = address..address.saturating_add(length.into());
        // The device must not write the descriptors and rings that say where it may write.
        let is_plain = flags & INDIRECT == 0
            && (flags & WRITE == 0 || offered.is_empty() || offered.start >= REPLIES);
        match &mut self.writable {
            Some(writable) if is_plain => {
                if flags & WRITE != 0 {
                    writable.push(offered);
                }
            }
            writable => *writable = None,
        }
    }

    fn offer(&mut self, queue: usize, head: u16) {
        let [_, available, _] = RINGS[queue];
        let index = self.offered[queue];
        self.write(available + 4 + u64::from(index % MAX_QUEUE_SIZE) * 2, &head.to_le_bytes());
        self.offered[queue] = index.wrapping_add(1);
        self.write(available + 2, &self.offered[queue].to_le_bytes());
    }

    fn kick(&self, queue: u16) {
        self.backend.kicked(queue).unwrap();
    }

    fn settle(&self) {
        crate::host::settle(&self.host);
        self.backend.hand_out();
    }

    /// Stops the control queue first, as a VMM does.
    fn reset(&mut self) {
        for queue in [CONTROL_QUEUE, EVENT_QUEUE] {
            self.backend.rings()[usize::from(queue)].stop();
            self.backend.ring_stopped(queue.into());
        }
        assert_eq!(self.backend.guest(), None);
        self.start();
    }

    fn act(&mut self, action: &Action) {
        match *action {
            Action::Request { kind, first, room } => {
                let (kind, first) = (usize::from(kind) % REQUEST_KINDS, u16::from(first));
                let place = REQUESTS + kind as u64 * REQUEST_STRIDE;
                let length = requests()[kind].len() as u32;
                let second = (first + 1) % MAX_QUEUE_SIZE;
                let table = RINGS[0][0];
                self.describe(table, first, place, length, NEXT, second);
                let reply = REPLIES + u64::from(first % 16) * 0x100;
                self.describe(table, second, reply, (room % 512).into(), WRITE, 0);
                self.offer(0, first);
            }
            Action::Room { first, room } => {
                let (place, room) =
                    (REPLIES + u64::from(first % 16) * 0x100, u32::from(room % 512));
                self.describe(RINGS[1][0], first.into(), place, room, WRITE, 0);
                self.offer(1, first.into());
            }
            Action::Describe { table, index, descriptor } => {
                let tables = [RINGS[0][0], RINGS[0][0], RINGS[1][0], TABLES];
                let Descriptor { place, length, flags, next } = descriptor;
                let fitting = match place {
                    Place::Request(kind) => requests()[usize::from(kind) % REQUEST_KINDS].len(),
                    _ => 0x100,
                };
                let length = match length {
                    Length::Fitting => fitting as u32,
                    Length::Short(length) => length.into(),
                    Length::Long(length) => length.into(),
                    Length::Any(length) => length,
                };
                let flags = u16::from(flags) & 7;
                let table = tables[usize::from(table % 4)];
                self.describe(table, index.into(), place.get(), length, flags, next);
            }
            Action::Offer { queue, head } => {
                if head >= MAX_QUEUE_SIZE {
                    // The device cannot return such a descriptor.
                    self.writable = None;
                }
                self.offer(queue.into(), head);
            }
            Action::Lie { queue, index } => {
                self.write(RINGS[usize::from(queue)][1] + 2, &index.to_le_bytes());
            }
            Action::Write { at, words } => {
                self.writable = None;
                self.write(at.get(), &words.map(u64::to_le_bytes).concat());
            }
            Action::Kick { queue } => self.kick(queue.into()),
            Action::Settle => self.settle(),
            Action::Reset => self.reset(),
            Action::Move { queue, places: [table, available, used], size } => {
                self.writable = None;
                let ring = &self.backend.rings()[usize::from(queue)];
                // The queue refuses an invalid size and an invalid place.
                ring.set_size(size.into());
                let _ = ring.set_addresses(table.get(), available.get(), used.get());
            }
            Action::Plug { all } => {
                self.settle();
                self.check();
                self.writable = None;
                self.plug(if all { &[LOW, HIGH] } else { &[LOW] });
            }
        }
    }

    /// If only plain descriptors were used, checks that as many chains were returned as were taken, and that memory
    /// that none of them offered is unchanged.
    fn check(&self) {
        let Some(writable) = &self.writable else { return };
        let taken = self.backend.rings()[0].next_available();
        // The destruction of a process waits for the engines.
        eventually("all chains that were taken are given back", || {
            self.settle();
            self.read_u16(RINGS[0][2] + 2) == taken
        });
        let mut kept = vec![0; (HIGH.end - REPLIES) as usize];
        self.read(REPLIES, &mut kept);
        // Most of it is untouched, and looked at as such.
        let parts = kept.chunks(PART).zip((REPLIES..).step_by(PART));
        for (part, first) in parts.filter(|(part, _)| **part != [0; PART]) {
            for (address, byte) in (first..).zip(part) {
                // The guest writes indirect tables, which are not plain descriptors.
                let may_be_written = writable.iter().any(|range| range.contains(&address));
                let is_table = (TABLES..TABLES + 0x1000).contains(&address);
                assert!(*byte == 0 || may_be_written || is_table, "{address:#x} was written");
            }
        }
    }

    /// Checks that a valid request is answered.
    fn works(&mut self) {
        self.act(&Action::Request { kind: 0, first: 0, room: 256 });
        self.kick(CONTROL_QUEUE);
        self.settle();
        let mut status = [0; size_of::<Status>()];
        self.read(REPLIES, &mut status);
        assert_eq!(self.read_u16(RINGS[0][2] + 2), 1, "the request was not answered");
        assert_eq!(status, Status::SUCCESS.0.to_le_bytes());
        let mut written = [0; 4];
        self.read(RINGS[0][2] + 8, &mut written);
        assert!(u32::from_le_bytes(written) as usize > size_of::<ReplyHeader>());
    }
}
