// SPDX-License-Identifier: MIT OR Apache-2.0

//! `virtqueue.*`: wrong descriptor chains. The device answers each, and the queue continues.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::raw::{self, Process};
use crate::conformance::scene::Scene;
use crate::conformance::source;
use bellhop_guest_umd::raw::RAW_INDEX;
use bellhop_guest_umd::transport::DmaMemory;
use bellhop_guest_umd::transport::virtqueue::{DESCRIPTOR_NEXT, DESCRIPTOR_WRITE, Descriptor};
use bellhop_protocol::control::device::CreateDevice;
use bellhop_protocol::control::escape::{Escape, ObjectList};
use bellhop_protocol::control::{Handle, ReplyHeader};
use bellhop_protocol::snapshot::Device;
use bellhop_protocol::status::Status;
use vm_memory::Bytes;
use zerocopy::{FromZeros, IntoBytes};

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new("virtqueue.chain.loops", source::VIRTIO, loops)
        .shows("a descriptor chain that loops is refused"),
    Behaviour::new("virtqueue.chain.leaves-the-table", source::VIRTIO, leaves_the_table)
        .shows("a descriptor whose next one is outside the table is refused"),
    Behaviour::new("virtqueue.chain.out-of-order", source::VIRTIO, out_of_order)
        .shows("a readable descriptor behind a writable one is refused"),
    Behaviour::new("virtqueue.buffer.not-the-guests", source::VIRTIO, not_the_guests)
        .shows("a buffer outside the guest's memory is refused, and the refusal names it"),
    Behaviour::new("virtqueue.buffer.no-room", source::VIRTIO, no_room)
        .shows("a chain without room for the reply comes back, and the queue continues"),
    Behaviour::new("virtqueue.buffer.short-reply", source::PROTOCOL_REQUESTS, short_reply).shows(
        "a request whose reply does not fit is not carried out, and the status tells how much \
         room it needs",
    ),
    Behaviour::new("virtqueue.chain.many-descriptors", source::VIRTIO, many_descriptors)
        .shows("a request in many small descriptors is a valid request"),
];

/// A good request and room for its reply, in one page.
struct Chain<'a> {
    scene: &'a Scene,
    process: Process<'a>,
    memory: DmaMemory,
    request: Descriptor,
    reply: Descriptor,
}

/// Offset of the reply in the page.
const REPLY: usize = 2048;

impl<'a> Chain<'a> {
    fn new(scene: &'a Scene) -> Result<Self, Mismatch> {
        let process = Process::begin(scene.transport())?;
        let memory = scene.guest().memory(4096).map_err(bellhop_guest_umd::Error::from)?;
        let bytes = raw::encode(process.id, &CreateDevice { reserved: 0 }, &[]);
        let request = Descriptor {
            address: memory.address(),
            length: bytes.len() as u32,
            flags: DESCRIPTOR_NEXT,
            next: RAW_INDEX + 1,
        };
        let reply = Descriptor {
            address: memory.address() + REPLY as u64,
            length: 256,
            flags: DESCRIPTOR_WRITE,
            next: 0,
        };
        let chain = Self { scene, process, memory, request, reply };
        chain.access(|slice| slice.write_slice(&bytes, 0))?;
        Ok(chain)
    }

    fn access<R>(
        &self,
        access: impl FnOnce(&vm_memory::VolatileSlice<'_>) -> Result<R, vm_memory::VolatileMemoryError>,
    ) -> Result<R, Mismatch> {
        let slice = self.memory.bytes().map_err(bellhop_guest_umd::Error::from)?;
        access(&slice).map_err(|error| Mismatch::Seen(format!("guest memory: {error}")))
    }

    /// Offers the descriptors; returns how many bytes came back.
    fn offer(&self, descriptors: &[Descriptor]) -> Result<u32, Mismatch> {
        self.access(|slice| slice.write_slice(&[0; 256], REPLY))?;
        let offered = self.scene.guest().offer_raw(descriptors);
        Ok(offered.map_err(bellhop_guest_umd::Error::from)?)
    }

    /// Asserts that the device refuses these descriptors, and that a valid request works afterwards.
    fn expect_refused(
        &self,
        descriptors: &[Descriptor],
        status: Status,
        detail: u64,
    ) -> Result<(), Mismatch> {
        let written = self.offer(descriptors)? as usize;
        require!(written == size_of::<ReplyHeader>(), "{written} bytes came back");
        self.expect_header(status, detail)?;
        self.process.device().map(|_| ())
    }

    /// Asserts the reply's status.
    fn expect_header(&self, status: Status, detail: u64) -> Result<(), Mismatch> {
        let mut header = ReplyHeader::new_zeroed();
        self.access(|slice| slice.read_slice(header.as_mut_bytes(), REPLY))?;
        require!(header.status == status, "ended with {}, not {status}", header.status);
        require!(header.detail == detail, "the detail is {:#x}, not {detail:#x}", header.detail);
        Ok(())
    }

    /// Asserts how many devices the process has.
    fn expect_devices(&self, expected: usize) -> Result<(), Mismatch> {
        let list = Escape {
            list: ObjectList::DEVICES,
            process: self.process.id,
            parent: Handle(0),
            after: 0,
        };
        let (_, devices) = raw::listed::<Device>(self.scene.transport(), &list)?;
        let found = devices.len();
        require!(found == expected, "the process has {found} devices, not {expected}");
        Ok(())
    }
}

fn loops(scene: &Scene) -> Result<(), Mismatch> {
    scene.needs_whole_guest("virtqueue")?;
    let chain = Chain::new(scene)?;
    let back = Descriptor {
        flags: DESCRIPTOR_WRITE | DESCRIPTOR_NEXT,
        next: RAW_INDEX + 1,
        ..chain.reply
    };
    chain.expect_refused(&[chain.request, back], Status::INVALID_PARAMETER, RAW_INDEX.into())
}

fn leaves_the_table(scene: &Scene) -> Result<(), Mismatch> {
    scene.needs_whole_guest("virtqueue")?;
    let chain = Chain::new(scene)?;
    for next in [64, u16::MAX] {
        let away = Descriptor { flags: DESCRIPTOR_WRITE | DESCRIPTOR_NEXT, next, ..chain.reply };
        chain.expect_refused(
            &[chain.request, away],
            Status::INVALID_PARAMETER,
            RAW_INDEX.into(),
        )?;
    }
    Ok(())
}

fn out_of_order(scene: &Scene) -> Result<(), Mismatch> {
    scene.needs_whole_guest("virtqueue")?;
    let chain = Chain::new(scene)?;
    let reply = Descriptor {
        flags: DESCRIPTOR_WRITE | DESCRIPTOR_NEXT,
        next: RAW_INDEX + 1,
        ..chain.reply
    };
    let request = Descriptor { flags: 0, next: 0, ..chain.request };
    chain.expect_refused(&[reply, request], Status::INVALID_PARAMETER, RAW_INDEX.into())
}

fn not_the_guests(scene: &Scene) -> Result<(), Mismatch> {
    scene.needs_whole_guest("virtqueue")?;
    let chain = Chain::new(scene)?;
    for address in [scene.guest().end_of_memory(), u64::MAX - 4] {
        let request = Descriptor { address, ..chain.request };
        chain.expect_refused(&[request, chain.reply], Status::ACCESS_VIOLATION, address)?;
        let reply = Descriptor { address, ..chain.reply };
        let written = chain.offer(&[chain.request, reply])?;
        require!(written == 0, "{written} bytes were written to {address:#x}");
        // The status fits in front of the reply's body, and says so.
        let header =
            Descriptor { length: 16, flags: DESCRIPTOR_WRITE | DESCRIPTOR_NEXT, ..chain.reply };
        let header = Descriptor { next: RAW_INDEX + 2, ..header };
        chain.expect_refused(&[chain.request, header, reply], Status::ACCESS_VIOLATION, address)?;
    }
    // Only the valid requests after each refusal were carried out.
    chain.expect_devices(4)
}

fn no_room(scene: &Scene) -> Result<(), Mismatch> {
    scene.needs_whole_guest("virtqueue")?;
    let chain = Chain::new(scene)?;
    let alone = Descriptor { flags: 0, next: 0, ..chain.request };
    let written = chain.offer(&[alone])?;
    require!(written == 0, "{written} bytes were written nowhere");
    let written = chain.offer(&[chain.request, Descriptor { length: 5, ..chain.reply }])?;
    require!(written == 5, "{written} bytes were written into 5");
    let written = chain.offer(&[Descriptor { length: 0, ..chain.request }, chain.reply])?;
    require!(written == 16, "an empty request got {written} bytes");
    chain.expect_devices(0)?;
    chain.process.device().map(|_| ())
}

fn short_reply(scene: &Scene) -> Result<(), Mismatch> {
    scene.needs_whole_guest("virtqueue")?;
    let chain = Chain::new(scene)?;
    // Header and handle.
    const NEEDED: u32 = 24;
    for room in [16, 17, NEEDED - 1] {
        let short = Descriptor { length: room, ..chain.reply };
        let written = chain.offer(&[chain.request, short])?;
        require!(written == 16, "{written} bytes were written into {room}");
        chain.expect_header(Status::BUFFER_TOO_SMALL, NEEDED.into())?;
    }
    chain.expect_devices(0)?;
    let whole = Descriptor { length: NEEDED, ..chain.reply };
    let written = chain.offer(&[chain.request, whole])?;
    require!(written == NEEDED, "{written} bytes were written into {NEEDED}");
    chain.expect_header(Status::SUCCESS, 0)?;
    chain.expect_devices(1)
}

fn many_descriptors(scene: &Scene) -> Result<(), Mismatch> {
    scene.needs_whole_guest("virtqueue")?;
    let chain = Chain::new(scene)?;
    let Descriptor { address, length, .. } = chain.request;
    let mut descriptors = Vec::new();
    for place in 0..length {
        descriptors.push(Descriptor {
            address: address + u64::from(place),
            length: 1,
            flags: DESCRIPTOR_NEXT,
            next: RAW_INDEX + place as u16 + 1,
        });
    }
    descriptors.push(chain.reply);
    let written = chain.offer(&descriptors)? as usize;
    require!(written > size_of::<ReplyHeader>(), "{written} bytes came back");
    let mut header = ReplyHeader::new_zeroed();
    chain.access(|slice| slice.read_slice(header.as_mut_bytes(), REPLY))?;
    require!(header.status == Status::SUCCESS, "ended with {}", header.status);
    Ok(())
}
