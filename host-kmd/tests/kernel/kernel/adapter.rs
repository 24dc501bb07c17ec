// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about the adapter.

use crate::bench::{BAR, Bench, FEATURES, RESOURCES, USER_MODE, bytes};
use crate::model::Model;
use bellhop_host_kmd::dxgkrnl::Limits;
use bellhop_host_kmd::hardware::{GuestId, NodeDescription};
use bellhop_host_kmd::port::{GuestResources, Input};
use bellhop_protocol::control::adapter::{
    ADAPTER_BAR_MAPPED, EngineType, GetNodeMetadata, NODE_SUGGESTED,
    NODE_USER_MODE_SUBMISSION_SUPPORTED, OpenAdapter, QueryStatistics, QueryUserModeSubmissionCaps,
};
use bellhop_protocol::control::context::CreateContext;
use bellhop_protocol::control::device::CreateDevice;
use bellhop_protocol::control::hw_queue::CreateHwQueue;
use bellhop_protocol::control::process::{CreateProcess, DestroyProcess};
use bellhop_protocol::control::{RequestCode, RequestHeader};
use bellhop_protocol::features::{Features, Version};
use bellhop_protocol::status::Status;
use std::sync::Arc;
use zerocopy::IntoBytes;

#[test]
fn an_adapter_tells_what_it_is_when_it_is_opened() {
    let mut bench = Bench::new(2);
    let guest = bench.attach(1);
    let info = bench.open(guest).unwrap();
    assert_eq!(info.version, Version::CURRENT);
    assert_eq!(info.node_count, 2);
    assert_eq!(info.features, FEATURES.bits());
    assert_eq!(info.local_memory, BAR.local_memory);
    assert_eq!(info.flags, ADAPTER_BAR_MAPPED);
    bench.open(guest).unwrap();
}

#[test]
fn nothing_is_answered_before_the_adapter_is_open() {
    let mut bench = Bench::new(2);
    let guest = bench.attach(1);
    let code = RequestCode::CREATE_PROCESS;
    assert_eq!(
        bench.ask(guest, 0, &CreateProcess { reserved: 0 }).unwrap_err(),
        (Status::INVALID_DEVICE_REQUEST, code.0.into())
    );
}

#[test]
fn another_major_version_or_a_feature_that_is_not_offered_is_a_revision_mismatch() {
    let mut bench = Bench::new(2);
    let guest = bench.attach(1);
    let newer = Version { major: Version::CURRENT.major + 1, minor: 0 };
    let open = OpenAdapter { version: newer, reserved: 0, features: 0 };
    let device = u64::from(Version::CURRENT.major) | u64::from(Version::CURRENT.minor) << 16;
    assert_eq!(bench.ask(guest, 0, &open).unwrap_err(), (Status::REVISION_MISMATCH, device));

    let open = OpenAdapter { version: Version::CURRENT, reserved: 0, features: 1 << 63 };
    let offered = RESOURCES.features.bits();
    assert_eq!(bench.ask(guest, 0, &open).unwrap_err(), (Status::REVISION_MISMATCH, offered));

    let minor = Version { minor: u16::MAX, ..Version::CURRENT };
    let open = OpenAdapter { version: minor, reserved: 0, features: 0 };
    assert!(bench.ask(guest, 0, &open).is_ok());
}

#[test]
fn an_adapter_is_opened_again_when_it_has_no_process_and_not_before() {
    let mut bench = Bench::new(2);
    let guest = bench.guest(1);
    let processes = [bench.process(guest), bench.process(guest)];
    let open = OpenAdapter { version: Version::CURRENT, reserved: 0, features: 0 };
    assert_eq!(bench.ask(guest, 0, &open).unwrap_err(), (Status::DEVICE_BUSY, 2));
    // Negotiated features cannot be changed: the guest has a queue for user-mode submission.
    let client = bench.client(guest);
    for process in processes.into_iter().chain([client.process]) {
        bench.send(guest, bytes(process, &DestroyProcess { flags: 0 }));
    }
    for _ in 0..3 {
        bench.pass_tickets();
    }
    assert_eq!(bench.ask(guest, 0, &open).unwrap().features, 0);
}

#[test]
fn without_the_feature_there_is_only_kernel_mode_submission() {
    let mut bench = Bench::new(2);
    let guest = GuestId(1);
    let resources = GuestResources { features: Features::empty(), ..RESOURCES };
    bench.input(Input::Attach { guest, resources });
    assert_eq!(bench.open(guest).unwrap_err(), (Status::REVISION_MISMATCH, 0));
    let open = OpenAdapter { version: Version::CURRENT, reserved: 0, features: 0 };
    bench.ask(guest, 0, &open).unwrap();
    let node = bench.ask(guest, 0, &GetNodeMetadata { node: 0, reserved: 0 }).unwrap();
    assert_eq!(node.flags & NODE_USER_MODE_SUBMISSION_SUPPORTED, 0);

    let process = bench.process(guest);
    let device = bench.ask(guest, process, &CreateDevice { reserved: 0 }).unwrap();
    let request = CreateContext { device, node: 0, engine_affinity: 0 };
    let context = bench.ask(guest, process, &request).unwrap();
    let flags = USER_MODE.bits();
    let mut queue = CreateHwQueue { context, flags, reserved: 0 };
    assert_eq!(bench.ask(guest, process, &queue).unwrap_err().0, Status::NOT_SUPPORTED);
    queue.flags = 0;
    assert!(bench.ask(guest, process, &queue).is_ok());
}

#[test]
fn nodes_and_caps_are_what_the_hardware_has() {
    let mut bench = Bench::new(3);
    let guest = bench.guest(1);
    let node = bench.ask(guest, 0, &GetNodeMetadata { node: 1, reserved: 0 }).unwrap();
    assert_eq!(&node.friendly_name[..5], b"copy\0");
    assert_ne!(node.flags & NODE_USER_MODE_SUBMISSION_SUPPORTED, 0);
    assert_eq!(
        bench.ask(guest, 0, &GetNodeMetadata { node: 2, reserved: 0 }).unwrap_err(),
        (Status::INVALID_PARAMETER, 2)
    );
    let caps = bench.ask(guest, 0, &QueryUserModeSubmissionCaps { reserved: 0 }).unwrap();
    assert_eq!((caps.doorbell_size, caps.physical_doorbells), (8, 3));
}

#[test]
fn of_each_type_a_guest_is_suggested_the_node_that_the_fewest_others_are() {
    const fn node(engine_type: EngineType, user_mode_submission: bool) -> NodeDescription {
        NodeDescription { engine_type, name: "", user_mode_submission, processor: None }
    }
    let mut model = Model::new(2);
    model.nodes = const {
        &[
            node(EngineType::THREE_D, true),
            node(EngineType::THREE_D, true),
            node(EngineType::THREE_D, true),
            node(EngineType::COPY, true),
            node(EngineType::COPY, true),
            // User-mode submission is available on the others.
            node(EngineType::COPY, false),
        ]
    };
    let mut bench = Bench::of(vec![Arc::new(model)], Limits::default());
    let suggested = |bench: &mut Bench, guest| {
        let asked = (0..6).map(|node| bench.ask(guest, 0, &GetNodeMetadata { node, reserved: 0 }));
        let flags: Vec<_> = asked.map(|metadata| metadata.unwrap().flags).collect();
        (0..6).filter(|node| flags[*node] & NODE_SUGGESTED != 0).collect::<Vec<_>>()
    };
    let guests = [1, 2, 3, 4].map(|number| bench.guest(number));
    let seen = guests.map(|guest| suggested(&mut bench, guest));
    assert_eq!(seen, [[0, 3], [1, 4], [2, 3], [0, 4]]);
    // Suggestions stay while other guests come and go. A new guest takes the place of one that left.
    bench.input(Input::Detach { guest: guests[1] });
    (0..3).for_each(|_| bench.pass_tickets());
    let next = bench.guest(5);
    assert_eq!(suggested(&mut bench, next), [1, 4]);
    assert_eq!(suggested(&mut bench, guests[3]), [0, 4]);
}

#[test]
fn statistics_come_from_the_hardware_and_the_kernel() {
    let mut bench = Bench::new(2);
    let guest = bench.guest(1);
    bench.ask(guest, 0, &GetNodeMetadata { node: 0, reserved: 0 }).unwrap();
    let statistics = bench.ask(guest, 0, &QueryStatistics { reserved: 0 }).unwrap();
    assert_eq!(statistics.packets, 7);
    assert_eq!(statistics.control_messages, 3);
    assert_eq!((statistics.notifies, statistics.victims), (0, 0));
}

#[test]
fn a_reserved_field_must_be_zero() {
    let mut bench = Bench::new(2);
    let guest = bench.guest(1);
    let refused = (Status::INVALID_PARAMETER, 5);
    assert_eq!(bench.ask(guest, 0, &CreateProcess { reserved: 5 }).unwrap_err(), refused);
    let query = QueryStatistics { reserved: 5 };
    assert_eq!(bench.ask(guest, 0, &query).unwrap_err(), refused);
    let mut request = bytes(0, &CreateProcess { reserved: 0 });
    request[12] = 5;
    assert_eq!(bench.raw(guest, request), refused);
}

#[test]
fn an_adapter_request_names_no_process() {
    let mut bench = Bench::new(2);
    let guest = bench.guest(1);
    let process = bench.process(guest);
    assert_eq!(
        bench.ask(guest, process, &QueryStatistics { reserved: 0 }).unwrap_err(),
        (Status::INVALID_PARAMETER, process.into())
    );
}

#[test]
fn a_request_of_another_length_or_code_is_refused() {
    let mut bench = Bench::new(2);
    let guest = bench.guest(1);
    let good = bytes(0, &CreateProcess { reserved: 0 });
    for length in 0..good.len() {
        let mut short = good[..length].to_vec();
        assert_eq!(bench.raw(guest, short.clone()).0, Status::INVALID_BUFFER_SIZE);
        // The header's length is that of the bytes, but the structure is truncated.
        if length >= size_of::<RequestHeader>() {
            short[4..8].copy_from_slice(&(length as u32).to_le_bytes());
            assert_eq!(bench.raw(guest, short), (Status::INVALID_BUFFER_SIZE, length as u64));
        }
    }
    let mut long = good.clone();
    long.push(0);
    assert_eq!(bench.raw(guest, long.clone()).0, Status::INVALID_BUFFER_SIZE);
    long[4] += 1;
    assert_eq!(bench.raw(guest, long).0, Status::INVALID_BUFFER_SIZE);

    let code = RequestCode(0x999);
    let header = RequestHeader { code, length: 16, process: 0, reserved: 0 };
    assert_eq!(
        bench.raw(guest, header.as_bytes().to_vec()),
        (Status::INVALID_DEVICE_REQUEST, 0x999)
    );
}
