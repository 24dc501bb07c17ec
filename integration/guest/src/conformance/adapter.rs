// SPDX-License-Identifier: MIT OR Apache-2.0

//! `adapter.*`: versions, features, nodes, malformed requests.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::raw::{self, Process};
use crate::conformance::scene::Scene;
use crate::conformance::source;
use crate::inspect;
use bellhop_protocol::config::CONFIG_MAGIC;
use bellhop_protocol::control::adapter::{
    EngineType, GetNodeMetadata, NODE_USER_MODE_SUBMISSION_SUPPORTED, OpenAdapter, QueryStatistics,
    QueryUserModeSubmissionCaps,
};
use bellhop_protocol::control::device::CreateDevice;
use bellhop_protocol::control::escape::{Escape, ObjectList};
use bellhop_protocol::control::fence::CreateNativeFence;
use bellhop_protocol::control::{Handle, MAX_REQUEST_SIZE, RequestHeader};
use bellhop_protocol::features::{Features, Version};
use bellhop_protocol::snapshot::{Fence, Name};
use bellhop_protocol::status::Status;
use std::collections::BTreeMap;
use zerocopy::IntoBytes;

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new(
        "adapter.config.magic-and-version",
        source::PROTOCOL_DEVICE,
        config_magic_and_version,
    )
    .shows(
        "the configuration space names a Bellhop device, of a protocol version that the driver \
         speaks",
    ),
    Behaviour::new("adapter.open.unknown-version", source::PROTOCOL_DEVICE, unknown_version)
        .shows("the device refuses a driver of another major version, and tells its own version"),
    Behaviour::new("adapter.open.unknown-feature", source::PROTOCOL_DEVICE, unknown_feature)
        .shows("the device refuses a feature that was not negotiated, and names those that were"),
    Behaviour::new("adapter.open.again", source::PROTOCOL_DEVICE, open_again)
        .shows("an adapter is not opened again while processes rely on its features"),
    Behaviour::new("adapter.nodes.metadata", source::UM_DISCOVERY, nodes_metadata).shows(
        "of each GPU the 3D nodes come first, then those that copy, of which there is one of each at least, then those that \
         compute, and each says whether it takes user-mode submission",
    ),
    Behaviour::new(
        "adapter.caps.user-mode-submission",
        source::UM_DISCOVERY,
        user_mode_submission_caps,
    )
    .shows("the driver learns a doorbell's size before it creates one"),
    Behaviour::new("adapter.statistics.count", source::PROTOCOL_REQUESTS, statistics_count)
        .shows("the device counts this guest's requests"),
    Behaviour::new("adapter.escape.own-objects", source::KMD_ESCAPE, escape_own_objects).shows(
        "a tool in the guest sees the guest's objects as they are, and none of another guest",
    ),
    Behaviour::new("adapter.escape.pages", source::KMD_ESCAPE, escape_pages)
        .shows("a list that is longer than a reply comes in pages, complete and in order"),
    Behaviour::new("adapter.escape.nothing-there", source::KMD_ESCAPE, escape_nothing_there)
        .shows("an escape for a list or an object that does not exist is refused"),
    Behaviour::new("adapter.request.unknown-code", source::PROTOCOL_REQUESTS, unknown_code)
        .shows("a request with an unknown code is refused as such"),
    Behaviour::new("adapter.request.wrong-length", source::PROTOCOL_REQUESTS, wrong_length).shows(
        "a request of a wrong length, or one that lies about its length, is refused as such",
    ),
    Behaviour::new("adapter.request.reserved-field", source::PROTOCOL_REQUESTS, reserved_field)
        .shows("a request with a reserved field other than zero is refused"),
];

fn config_magic_and_version(scene: &Scene) -> Result<(), Mismatch> {
    let config = scene.transport().config();
    require!(config.magic == CONFIG_MAGIC, "the magic is {:#x}", config.magic);
    let version = config.version;
    require!(Version::CURRENT.is_compatible_with(version), "the device's version is {version}");
    require!(config.bar_size.is_power_of_two(), "the BAR has {} bytes", config.bar_size);
    Ok(())
}

fn unknown_version(scene: &Scene) -> Result<(), Mismatch> {
    let device = scene.transport().config().version;
    let version = Version { major: device.major + 1, minor: 0 };
    let request = OpenAdapter { version, reserved: 0, features: 0 };
    let (status, detail) = raw::status(scene.transport(), 0, &request)?;
    require!(status == Status::REVISION_MISMATCH, "version {version} ended with {status}");
    let expected = u64::from(device.major) | u64::from(device.minor) << 16;
    require!(detail == expected, "the detail is {detail:#x}, not {expected:#x}");
    Ok(())
}

fn unknown_feature(scene: &Scene) -> Result<(), Mismatch> {
    for unknown in [1 << 20, 1 << 63] {
        let features = scene.transport().features().bits() | unknown;
        let request = OpenAdapter { version: Version::CURRENT, reserved: 0, features };
        let (status, detail) = raw::status(scene.transport(), 0, &request)?;
        require!(status == Status::REVISION_MISMATCH, "features {features:#x} ended with {status}");
        let on = Features::from_bits(detail);
        require!(on.is_some(), "the detail {detail:#x} is no set of features");
    }
    Ok(())
}

fn open_again(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench();
    let process = Process::begin(scene.transport())?;
    for features in [0, scene.adapter().features().bits()] {
        let request = OpenAdapter { version: Version::CURRENT, reserved: 0, features };
        let (status, _) = raw::status(scene.transport(), 0, &request)?;
        require!(status == Status::DEVICE_BUSY, "features {features:#x} ended with {status}");
    }
    process.device()?;
    // The processes' objects work as before.
    let mut bench = bench?;
    bench.commands.nop()?;
    Ok(bench.run()?)
}

fn nodes_metadata(scene: &Scene) -> Result<(), Mismatch> {
    let count = scene.transport().config().node_count;
    let mut engine_types: BTreeMap<u8, Vec<EngineType>> = BTreeMap::new();
    for node in 0..count {
        let metadata = raw::call(scene.transport(), 0, &GetNodeMetadata { node, reserved: 0 })?;
        engine_types.entry(metadata.gpu()).or_default().push(metadata.engine_type);
        let supported = metadata.flags & NODE_USER_MODE_SUBMISSION_SUPPORTED != 0;
        let negotiated = scene.transport().features().contains(Features::USER_MODE_SUBMISSION);
        require!(negotiated || !supported, "node {node} takes user-mode submission");
        let computes = metadata.engine_type.computes();
        require!(supported || !negotiated || !computes, "node {node} takes no such submission");
    }
    for types in engine_types.values() {
        for (kind, what) in [(EngineType::THREE_D, "3D"), (EngineType::COPY, "copy")] {
            require!(types.contains(&kind), "no {what} node: {types:?}");
        }
        let rank = |kind: &EngineType| match *kind {
            EngineType::THREE_D => 0,
            EngineType::COPY => 1,
            EngineType::COMPUTE => 2,
            _ => 3,
        };
        require!(types.is_sorted_by_key(rank), "out of order: {types:?}");
    }
    let beyond = GetNodeMetadata { node: count, reserved: 0 };
    raw::expect_status(scene.transport(), 0, &beyond, Status::INVALID_PARAMETER)
}

fn user_mode_submission_caps(scene: &Scene) -> Result<(), Mismatch> {
    let query = QueryUserModeSubmissionCaps { reserved: 0 };
    let caps = raw::call(scene.transport(), 0, &query)?;
    require!(caps.doorbell_size == 8, "a doorbell has {} bytes", caps.doorbell_size);
    require!(caps.physical_doorbells > 0, "there is no physical doorbell");
    Ok(())
}

fn statistics_count(scene: &Scene) -> Result<(), Mismatch> {
    let query = QueryStatistics { reserved: 0 };
    let before = raw::call(scene.transport(), 0, &query)?.control_messages;
    raw::call(scene.transport(), 0, &query)?;
    let after = raw::call(scene.transport(), 0, &query)?.control_messages;
    require!(after == before + 2, "two requests counted {}", after - before);
    Ok(())
}

fn escape_own_objects(scene: &Scene) -> Result<(), Mismatch> {
    scene.needs_whole_guest("list of objects")?;
    let bench = scene.bench()?;
    let mut source = scene.adapter();
    let found = inspect::snapshot(&mut source)
        .map_err(|error| Mismatch::Seen(format!("nothing is listed: {error:#}")))?;
    let [guest] = found.guests.as_slice() else {
        return Err(Mismatch::Seen(format!("a guest sees {} guests", found.guests.len())));
    };
    require!(guest.state == "open", "the guest is {}", guest.state);
    require!(found.adapter.physical_doorbells_used.is_none(), "a guest is told of all guests' use");
    let count = scene.transport().config().node_count;
    require!(found.nodes.len() as u32 == count, "{} of {count} nodes", found.nodes.len());
    let process = guest.processes.iter().find(|process| process.id == bench.process.process());
    let Some([device]) = process.map(|process| process.devices.as_slice()) else {
        return Err(Mismatch::Seen(format!("the process and its device: {process:?}")));
    };
    let [context] = device.contexts.as_slice() else {
        return Err(Mismatch::Seen(format!("the context: {:?}", device.contexts)));
    };
    require!(context.state == "running", "the context is {}", context.state);
    let [queue] = context.hw_queues.as_slice() else {
        return Err(Mismatch::Seen(format!("the HW queue: {:?}", context.hw_queues)));
    };
    require!(queue.submission == "user-mode" && queue.state == "listed", "the queue: {queue:?}");
    let doorbell = queue.doorbell.as_ref();
    require!(doorbell.is_some_and(|doorbell| doorbell.ring_size == 4096), "{doorbell:?}");
    let run_list = found.nodes.iter().flat_map(|node| &node.run_list);
    let listed = run_list.filter(|listed| listed.hw_queue == queue.handle).count();
    require!(listed == 1, "the queue is on {listed} run lists");
    let memory = device.allocations.iter().filter(|allocation| allocation.segment == "system");
    require!(memory.count() >= 1, "no system memory: {:?}", device.allocations);
    drop(bench);
    let found = inspect::snapshot(&mut source)
        .map_err(|error| Mismatch::Seen(format!("nothing is listed: {error:#}")))?;
    let run_list = found.nodes.iter().flat_map(|node| &node.run_list);
    let left = run_list.filter(|listed| listed.context == context.handle).count();
    require!(left == 0, "{left} queues of a process that ended are on run lists");
    Ok(())
}

fn escape_pages(scene: &Scene) -> Result<(), Mismatch> {
    scene.needs_whole_guest("list of objects")?;
    const FENCES: usize = 200;
    scene.needs(Features::NATIVE_FENCES)?;
    let process = Process::begin(scene.transport())?;
    let device = process.device()?;
    let mut expected = Vec::new();
    for initial_value in 0..FENCES as u64 {
        let fence = process.call(&CreateNativeFence::new(device, initial_value))?.fence;
        expected.push((Name(fence.0), initial_value));
    }
    expected.sort_unstable();
    let (list, mut pages, mut found) = (ObjectList::FENCES, 0, Vec::new());
    let mut escape = Escape { list, process: process.id, parent: device, after: 0 };
    loop {
        let (next, fences) = raw::listed::<Fence>(scene.transport(), &escape)?;
        found.extend(fences.iter().map(|fence| (fence.handle, fence.value)));
        pages += 1;
        if next == 0 {
            break;
        }
        require!(next > escape.after, "the page behind {:#x} is at {next:#x}", escape.after);
        escape.after = next;
    }
    require!(pages > 1, "{FENCES} fences fit into a reply");
    require!(found == expected, "{} of {FENCES} fences, or in disorder", found.len());
    let (next, fences) =
        raw::listed::<Fence>(scene.transport(), &Escape { after: u64::MAX, ..escape })?;
    require!(next == 0 && fences.is_empty(), "behind the last there is something");
    Ok(())
}

fn escape_nothing_there(scene: &Scene) -> Result<(), Mismatch> {
    scene.needs_whole_guest("list of objects")?;
    let process = Process::begin(scene.transport())?;
    let device = process.device()?;
    let devices =
        Escape { list: ObjectList::DEVICES, process: process.id, parent: Handle(0), after: 0 };
    let contexts = Escape { list: ObjectList::CONTEXTS, parent: device, ..devices };
    let list = |list| Escape { list: ObjectList(list), ..devices };
    let expect =
        |escape: &Escape, expected| raw::expect_status(scene.transport(), 0, escape, expected);
    expect(&contexts, Status::SUCCESS)?;
    for unknown in [0, 13, u32::MAX] {
        expect(&list(unknown), Status::INVALID_PARAMETER)?;
    }
    expect(&list(ObjectList::NODES.0), Status::INVALID_PARAMETER)?;
    expect(&Escape { parent: device, ..devices }, Status::INVALID_PARAMETER)?;
    for nobody in [0, u32::MAX] {
        expect(&Escape { process: nobody, ..devices }, Status::INVALID_HANDLE)?;
        expect(&Escape { process: nobody, ..contexts }, Status::INVALID_HANDLE)?;
    }
    for nothing in [0, u64::MAX, device.0 ^ 1 << 40] {
        expect(&Escape { parent: Handle(nothing), ..contexts }, Status::INVALID_HANDLE)?;
    }
    let queues = Escape { list: ObjectList::HW_QUEUES, ..contexts };
    expect(&queues, Status::OBJECT_TYPE_MISMATCH)?;
    raw::expect_status(scene.transport(), process.id, &devices, Status::INVALID_PARAMETER)
}

fn unknown_code(scene: &Scene) -> Result<(), Mismatch> {
    let process = Process::begin(scene.transport())?;
    for code in raw::UNKNOWN_CODES {
        let length = size_of::<RequestHeader>() as u32;
        let header = RequestHeader { code, length, process: process.id, reserved: 0 };
        let status = raw::send(scene.transport(), header.as_bytes())?.status;
        let expected = Status::INVALID_DEVICE_REQUEST;
        require!(status == expected, "code {:#x} ended with {status}", code.0);
    }
    Ok(())
}

fn wrong_length(scene: &Scene) -> Result<(), Mismatch> {
    let process = Process::begin(scene.transport())?;
    let good = raw::encode(process.id, &CreateDevice { reserved: 0 }, &[]);
    let mut lying = good.clone();
    lying[4] += 8;
    let long = raw::encode(process.id, &CreateDevice { reserved: 0 }, &[0; 8]);
    let huge = raw::encode(process.id, &CreateDevice { reserved: 0 }, &[0; MAX_REQUEST_SIZE]);
    let cases: [(&str, &[u8]); 6] = [
        ("an empty request", &[]),
        ("half a header", &good[..8]),
        ("a header alone", &good[..16]),
        ("a request that claims more than it has", &lying),
        ("a request with something behind it", &long),
        ("a request longer than any can be", &huge),
    ];
    for (what, bytes) in cases {
        let status = raw::send(scene.transport(), bytes)?.status;
        require!(status == Status::INVALID_BUFFER_SIZE, "{what} ended with {status}");
    }
    process.device().map(|_| ())
}

fn reserved_field(scene: &Scene) -> Result<(), Mismatch> {
    let process = Process::begin(scene.transport())?;
    process.expect_status(&CreateDevice { reserved: 1 }, Status::INVALID_PARAMETER)
}
