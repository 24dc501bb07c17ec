//! `adapter.*`: versions, features, nodes, malformed requests.

use super::raw::{self, Process};
use super::scene::Scene;
use super::{Behaviour, Mismatch, require, source};
use bellhop_protocol::config::CONFIG_MAGIC;
use bellhop_protocol::control::adapter::{
    EngineType, GetNodeMetadata, NODE_USER_MODE_SUBMISSION_SUPPORTED, OpenAdapter, QueryStatistics,
    QueryUserModeSubmissionCaps,
};
use bellhop_protocol::control::device::CreateDevice;
use bellhop_protocol::control::{MAX_REQUEST_SIZE, RequestHeader};
use bellhop_protocol::features::{Features, Version};
use bellhop_protocol::status::Status;
use zerocopy::IntoBytes;

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour {
        id: "adapter.config.magic-and-version",
        shows: "the configuration space names a Bellhop device of a version the driver speaks",
        section: source::PROTOCOL_DEVICE,
        check: config_magic_and_version,
    },
    Behaviour {
        id: "adapter.open.unknown-version",
        shows: "a driver of another major version is refused and told the device's version",
        section: source::PROTOCOL_DEVICE,
        check: unknown_version,
    },
    Behaviour {
        id: "adapter.open.unknown-feature",
        shows: "a feature that was not negotiated is refused, and those that were are named",
        section: source::PROTOCOL_DEVICE,
        check: unknown_feature,
    },
    Behaviour {
        id: "adapter.nodes.metadata",
        shows: "there is a 3D/compute node and two copy nodes, and each tells whether it takes user-mode submission",
        section: source::UM_DISCOVERY,
        check: nodes_metadata,
    },
    Behaviour {
        id: "adapter.caps.user-mode-submission",
        shows: "the doorbell's size is known before one is created",
        section: source::UM_DISCOVERY,
        check: user_mode_submission_caps,
    },
    Behaviour {
        id: "adapter.statistics.count",
        shows: "the device counts this guest's requests",
        section: source::PROTOCOL_REQUESTS,
        check: statistics_count,
    },
    Behaviour {
        id: "adapter.request.unknown-code",
        shows: "a request that does not exist is refused as such",
        section: source::PROTOCOL_REQUESTS,
        check: unknown_code,
    },
    Behaviour {
        id: "adapter.request.wrong-length",
        shows: "a request that is shorter, longer or not as long as it says is refused as such",
        section: source::PROTOCOL_REQUESTS,
        check: wrong_length,
    },
    Behaviour {
        id: "adapter.request.reserved-field",
        shows: "a reserved field that is not zero is refused",
        section: source::PROTOCOL_REQUESTS,
        check: reserved_field,
    },
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
    raw::open(scene.transport())?;
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

fn nodes_metadata(scene: &Scene) -> Result<(), Mismatch> {
    raw::open(scene.transport())?;
    let count = scene.transport().config().node_count;
    let mut engine_types = Vec::new();
    for node in 0..count {
        let metadata = raw::call(scene.transport(), 0, &GetNodeMetadata { node, reserved: 0 })?;
        engine_types.push(metadata.engine_type);
        let supported = metadata.flags & NODE_USER_MODE_SUBMISSION_SUPPORTED != 0;
        let negotiated = scene.transport().features().contains(Features::USER_MODE_SUBMISSION);
        require!(negotiated || !supported, "node {node} takes user-mode submission");
        let is_compute = metadata.engine_type == EngineType::THREE_D;
        require!(
            supported || !negotiated || !is_compute,
            "the compute node takes no user-mode submission"
        );
    }
    let copy_nodes = engine_types.iter().filter(|kind| **kind == EngineType::COPY).count();
    require!(engine_types.contains(&EngineType::THREE_D), "no 3D/compute node: {engine_types:?}");
    require!(copy_nodes >= 1, "no copy node: {engine_types:?}");
    let beyond = GetNodeMetadata { node: count, reserved: 0 };
    raw::expect_status(scene.transport(), 0, &beyond, Status::INVALID_PARAMETER)
}

fn user_mode_submission_caps(scene: &Scene) -> Result<(), Mismatch> {
    raw::open(scene.transport())?;
    let query = QueryUserModeSubmissionCaps { reserved: 0 };
    let caps = raw::call(scene.transport(), 0, &query)?;
    require!(caps.doorbell_size == 8, "a doorbell has {} bytes", caps.doorbell_size);
    require!(caps.physical_doorbells > 0, "there is no physical doorbell");
    Ok(())
}

fn statistics_count(scene: &Scene) -> Result<(), Mismatch> {
    raw::open(scene.transport())?;
    let query = QueryStatistics { reserved: 0 };
    let before = raw::call(scene.transport(), 0, &query)?.control_messages;
    raw::call(scene.transport(), 0, &query)?;
    let after = raw::call(scene.transport(), 0, &query)?.control_messages;
    require!(after == before + 2, "two requests counted {}", after - before);
    Ok(())
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
