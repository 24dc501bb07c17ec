// SPDX-License-Identifier: MIT OR Apache-2.0

//! `name.*`: what a process calls its objects, for people.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::raw::{self, Process};
use crate::conformance::scene::Scene;
use crate::conformance::source;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::{AllocationKind, CreateAllocation, SegmentSet};
use bellhop_protocol::control::context::CreateContext;
use bellhop_protocol::control::escape::{Escape, ObjectList};
use bellhop_protocol::control::fence::{
    CreateNativeFence, DestroyNativeFence, FenceFlags, OpenNativeFence, ShareNativeFence,
};
use bellhop_protocol::control::hw_queue::CreateHwQueue;
use bellhop_protocol::control::process::{MAX_OBJECT_NAME, SetObjectName};
use bellhop_protocol::features::Features;
use bellhop_protocol::snapshot::Name;
use bellhop_protocol::status::Status;
use serde::Deserialize;

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new("name.seen", source::NAMES, seen).shows(
        "a tool in the guest sees the name of a device, context, HW queue, allocation and fence, as the \
         process has set it last, and none once it is taken away",
    ),
    Behaviour::new("name.gone", source::NAMES, gone)
        .shows("an object that goes takes its name along: the next one of its kind has none"),
    Behaviour::new("name.shared", source::NAMES, shared)
        .shows("each process that has a shared fence names it for itself"),
    Behaviour::new("name.other-process", source::NAMES, other_process)
        .shows("a process names its own objects alone"),
    Behaviour::new("name.bad", source::NAMES, bad).shows(
        "what is not UTF-8, or could do something to a terminal, is no name, and the object keeps its own",
    ),
    Behaviour::new("name.no-such-object", source::NAMES, no_such_object)
        .shows("a name for an object that is not there is refused, and changes nothing"),
];

/// What every list says of an object.
#[derive(Deserialize)]
struct Listed {
    handle: Name,
    name: Option<String>,
}

/// A list and an object in it.
#[derive(Clone, Copy)]
struct Place {
    list: ObjectList,
    parent: Handle,
    object: Handle,
}

impl Place {
    /// The object's name, as a tool of the guest sees it.
    fn name(self, scene: &Scene, process: &Process<'_>) -> Result<Option<String>, Mismatch> {
        let Self { list, parent, object } = self;
        let mut escape = Escape { list, process: process.id, parent, after: 0 };
        loop {
            let (next, listed) = raw::listed::<Listed>(scene.transport(), &escape)?;
            if let Some(found) = listed.into_iter().find(|found| found.handle == object.into()) {
                return Ok(found.name);
            }
            require!(next > escape.after, "{object} is not in the list {list}");
            escape.after = next;
        }
    }

    fn expect(
        self,
        scene: &Scene,
        process: &Process<'_>,
        expected: Option<&str>,
    ) -> Result<(), Mismatch> {
        let name = self.name(scene, process)?;
        require!(name.as_deref() == expected, "{} is called {name:?}, not {expected:?}", self.list);
        Ok(())
    }
}

/// A fence on a device of its own.
fn fence(process: &Process<'_>, flags: FenceFlags) -> Result<Place, Mismatch> {
    let parent = process.device()?;
    let request = CreateNativeFence { flags: flags.bits(), ..CreateNativeFence::new(parent, 0) };
    let object = process.call(&request)?.fence;
    Ok(Place { list: ObjectList::FENCES, parent, object })
}

fn seen(scene: &Scene) -> Result<(), Mismatch> {
    scene.needs_whole_guest("list of objects")?;
    scene.needs(Features::OBJECT_NAMES | Features::NATIVE_FENCES)?;
    let process = Process::begin(scene.transport())?;
    let fence = fence(&process, FenceFlags::empty())?;
    let device = fence.parent;
    let context = process.call(&CreateContext { device, node: 0, engine_affinity: 0 })?;
    let queue = process.call(&CreateHwQueue { context, flags: 0, reserved: 0 })?.hw_queue;
    let paged = CreateAllocation {
        supported_segments: SegmentSet::SYSTEM.bits(),
        ..CreateAllocation::fixed(device, AllocationKind::PAGED, PAGE_SIZE, 0)
    };
    let allocation = process.call(&paged)?.allocation;
    let place = |list, parent, object| Place { list, parent, object };
    let full = "ü".repeat(MAX_OBJECT_NAME / 2);
    for place in [
        place(ObjectList::DEVICES, Handle(0), device),
        place(ObjectList::CONTEXTS, device, context),
        place(ObjectList::HW_QUEUES, context, queue),
        place(ObjectList::ALLOCATIONS, device, allocation),
        fence,
    ] {
        place.expect(scene, &process, None)?;
        for name in ["first", "a \"name\" \\ 影", &full] {
            process.call(&SetObjectName::new(place.object, name))?;
            place.expect(scene, &process, Some(name))?;
        }
        process.call(&SetObjectName::new(place.object, ""))?;
        place.expect(scene, &process, None)?;
    }
    Ok(())
}

fn gone(scene: &Scene) -> Result<(), Mismatch> {
    scene.needs_whole_guest("list of objects")?;
    scene.needs(Features::OBJECT_NAMES | Features::NATIVE_FENCES)?;
    let process = Process::begin(scene.transport())?;
    let first = fence(&process, FenceFlags::empty())?;
    process.call(&SetObjectName::new(first.object, "first"))?;
    process.call(&DestroyNativeFence { fence: first.object })?;
    process.expect_status(&SetObjectName::new(first.object, "again"), Status::INVALID_HANDLE)?;
    let next = process.call(&CreateNativeFence::new(first.parent, 0))?.fence;
    Place { object: next, ..first }.expect(scene, &process, None)
}

fn shared(scene: &Scene) -> Result<(), Mismatch> {
    scene.needs_whole_guest("list of objects")?;
    scene.needs(Features::OBJECT_NAMES | Features::NATIVE_FENCES)?;
    let [first, second] = [Process::begin(scene.transport())?, Process::begin(scene.transport())?];
    let own = fence(&first, FenceFlags::SHARED)?;
    let nt_handle = first.call(&ShareNativeFence { fence: own.object })?;
    let device = second.device()?;
    let object = second.call(&OpenNativeFence { device, nt_handle })?.fence;
    let opened = Place { object, parent: device, ..own };
    first.call(&SetObjectName::new(own.object, "ready"))?;
    opened.expect(scene, &second, None)?;
    second.call(&SetObjectName::new(object, "theirs"))?;
    opened.expect(scene, &second, Some("theirs"))?;
    own.expect(scene, &first, Some("ready"))
}

fn other_process(scene: &Scene) -> Result<(), Mismatch> {
    scene.needs(Features::OBJECT_NAMES)?;
    let [owner, other] = [Process::begin(scene.transport())?, Process::begin(scene.transport())?];
    let device = owner.device()?;
    owner.call(&SetObjectName::new(device, "mine"))?;
    let (status, detail) = other.status(&SetObjectName::new(device, "theirs"))?;
    require!(status == Status::INVALID_HANDLE, "ended with {status}");
    require!(detail == device.0, "the detail is {detail:#x}, not the handle {device}");
    if scene.needs_whole_guest("list of objects").is_ok() {
        let place = Place { list: ObjectList::DEVICES, parent: Handle(0), object: device };
        place.expect(scene, &owner, Some("mine"))?;
    }
    Ok(())
}

fn bad(scene: &Scene) -> Result<(), Mismatch> {
    scene.needs(Features::OBJECT_NAMES)?;
    let process = Process::begin(scene.transport())?;
    let device = process.device()?;
    process.call(&SetObjectName::new(device, "good"))?;
    let texts: [(&[u8], u8); 8] = [
        (b"\x1b[2J", 0x1b),
        (b"two\nlines", b'\n'),
        (b"\x7f", 0x7f),
        (b"not UTF-8: \xff", 0xff),
        (b"half a character \xc3", 0xc3),
        ("\u{9b}31m".as_bytes(), 0xc2),
        ("\u{202e}turned around".as_bytes(), 0xe2),
        (b"behind\0the end", b't'),
    ];
    for (text, wrong) in texts {
        let mut request = SetObjectName::new(device, "");
        for (to, from) in request.name.iter_mut().zip(text) {
            *to = *from;
        }
        let (status, detail) = process.status(&request)?;
        require!(status == Status::INVALID_PARAMETER, "{text:?} ended with {status}");
        require!(detail == u64::from(wrong), "{text:?}: the detail is {detail:#x}, not {wrong:#x}");
    }
    if scene.needs_whole_guest("list of objects").is_ok() {
        let place = Place { list: ObjectList::DEVICES, parent: Handle(0), object: device };
        place.expect(scene, &process, Some("good"))?;
    }
    Ok(())
}

fn no_such_object(scene: &Scene) -> Result<(), Mismatch> {
    scene.needs(Features::OBJECT_NAMES)?;
    let process = Process::begin(scene.transport())?;
    let device = process.device()?;
    for value in [0, 1, u64::MAX, device.0 ^ 1 << 63] {
        let request = SetObjectName::new(Handle(value), "a name");
        let (status, detail) = process.status(&request)?;
        require!(status == Status::INVALID_HANDLE, "{value:#x} ended with {status}");
        require!(detail == value, "the detail is {detail:#x}, not {value:#x}");
    }
    process.call(&SetObjectName::new(device, "a name"))
}
