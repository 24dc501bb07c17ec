// SPDX-License-Identifier: MIT OR Apache-2.0

//! Video sessions: counted, named by number, and gone with their device.

use crate::bench::{Bench, Client};
use crate::model::{Model, NODES_WITH_VIDEO};
use bellhop_host_kmd::dxgkrnl::Limits;
use bellhop_host_kmd::port::Input;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::device::{CreateDevice, DestroyDevice};
use bellhop_protocol::control::video::{
    CreateVideoSession, DestroyVideoSession, QueryVideoCaps, VideoFormat, VideoSessionCreated,
};
use bellhop_protocol::status::Status;
use std::sync::Arc;

/// A guest that may have two sessions, of a GPU that has room for as many.
fn scene(room: u32) -> (Bench, Client) {
    let mut model = Model::new(2);
    model.nodes = NODES_WITH_VIDEO;
    model.state().video_room = room;
    let limits = Limits { video_sessions: 2, ..Limits::default() };
    let mut bench = Bench::of(vec![Arc::new(model)], limits);
    let guest = bench.guest(1);
    let client = bench.client(guest);
    (bench, client)
}

fn request(device: Handle) -> CreateVideoSession {
    CreateVideoSession::decoding(device, 2, VideoFormat::P010, [1920, 1080])
}

fn create(bench: &mut Bench, client: Client) -> Result<VideoSessionCreated, Status> {
    bench.call(client, &request(client.device)).map_err(|(status, _)| status)
}

#[test]
fn a_session_is_what_was_asked_for_until_it_is_destroyed() {
    let (mut bench, client) = scene(4);
    let created = create(&mut bench, client).unwrap();
    {
        let state = bench.model.state();
        let (key, settings) = state.video_sessions.iter().next().unwrap();
        assert_eq!(key.1.0, created.number);
        assert_eq!((settings.node, settings.encodes, settings.size), (2, false, [1920, 1080]));
    }
    let destroy = DestroyVideoSession { session: created.session };
    bench.call(client, &destroy).unwrap();
    assert!(bench.model.state().video_sessions.is_empty());
    assert_eq!(bench.call(client, &destroy).unwrap_err().0, Status::INVALID_HANDLE);
}

#[test]
fn a_guest_has_as_many_sessions_as_its_limit_and_the_hardware_allow() {
    let (mut bench, client) = scene(4);
    let caps = bench.ask(client.guest, 0, &QueryVideoCaps { reserved: 0 }).unwrap();
    assert_eq!(caps.max_sessions, 2);
    let first = create(&mut bench, client).unwrap();
    create(&mut bench, client).unwrap();
    assert_eq!(create(&mut bench, client).unwrap_err(), Status::QUOTA_EXCEEDED);
    bench.call(client, &DestroyVideoSession { session: first.session }).unwrap();
    create(&mut bench, client).unwrap();
    // What the hardware refuses costs no quota.
    let (mut bench, client) = scene(1);
    let first = create(&mut bench, client).unwrap();
    for _ in 0..3 {
        assert!(create(&mut bench, client).is_err());
    }
    bench.call(client, &DestroyVideoSession { session: first.session }).unwrap();
    create(&mut bench, client).unwrap();
}

#[test]
fn sessions_end_with_their_device_and_their_guest() {
    let (mut bench, client) = scene(4);
    let device = bench.call(client, &CreateDevice { reserved: 0 }).unwrap();
    bench.call(client, &request(device)).unwrap();
    create(&mut bench, client).unwrap();
    let token = bench.begin(client, &DestroyDevice { device });
    bench.pass_tickets();
    assert!(bench.outcome(client, token).is_some());
    assert_eq!(bench.model.state().video_sessions.len(), 1);
    bench.input(Input::Detach { guest: client.guest });
    bench.pass_tickets();
    bench.pass_tickets();
    assert_eq!(bench.detached, [client.guest]);
    assert!(bench.model.is_empty());
}

#[test]
fn an_adapter_without_video_nodes_has_no_sessions() {
    let (mut bench, client) = Bench::with_client(2);
    let caps = bench.ask(client.guest, 0, &QueryVideoCaps { reserved: 0 }).unwrap();
    assert!(!caps.are_supported());
    assert_eq!(create(&mut bench, client).unwrap_err(), Status::NOT_SUPPORTED);
}
