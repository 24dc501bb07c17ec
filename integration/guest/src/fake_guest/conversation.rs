//! What each VMM says, message by message, against what it is known to say.

use super::{CLOUD_HYPERVISOR, FakeGuest, GuestOptions, QEMU, VmmProfile};
use bellhop_protocol::config::{CONFIG_MAGIC, ConfigSpace, QUEUE_COUNT};
use bellhop_protocol::features::{Features, Version};
use rustix::cmsg_space;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, recvmsg};
use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::thread;
use vhost::vhost_user::message::VhostUserVirtioFeatures;
use zerocopy::IntoBytes;

/// Names of messages by their numbers. Source: QEMU's `vhost-user.rst`.
const NAMES: &[(u32, &str)] = &[
    (1, "GET_FEATURES"),
    (2, "SET_FEATURES"),
    (3, "SET_OWNER"),
    (5, "SET_MEM_TABLE"),
    (8, "SET_VRING_NUM"),
    (9, "SET_VRING_ADDR"),
    (10, "SET_VRING_BASE"),
    (11, "GET_VRING_BASE"),
    (12, "SET_VRING_KICK"),
    (13, "SET_VRING_CALL"),
    (14, "SET_VRING_ERR"),
    (15, "GET_PROTOCOL_FEATURES"),
    (16, "SET_PROTOCOL_FEATURES"),
    (17, "GET_QUEUE_NUM"),
    (18, "SET_VRING_ENABLE"),
    (21, "SET_BACKEND_REQ_FD"),
    (24, "GET_CONFIG"),
    (44, "GET_SHMEM_CONFIG"),
];
const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;
const HEADER: usize = 12;

/// A device that says yes to everything and writes down what it is told.
fn record(mut socket: UnixStream) -> Vec<String> {
    let mut heard = Vec::new();
    loop {
        let mut header = [0; HEADER];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(8))];
        let mut descriptors = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut header)];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL;
        let received = recvmsg(&socket, &mut parts, &mut descriptors, flags);
        if received.is_ok_and(|received| received.bytes < HEADER) {
            return heard;
        }
        let [code, flags, size] =
            [0, 4, 8].map(|at| u32::from_le_bytes(*header[at..].first_chunk().unwrap()));
        let mut body = vec![0; size as usize];
        socket.read_exact(&mut body).unwrap();
        let name = NAMES.iter().find(|(number, _)| *number == code).unwrap().1;
        let is_marked = flags & NEED_REPLY != 0;
        heard.push(format!("{name}{}", if is_marked { "*" } else { "" }));
        let answer = match name {
            "GET_FEATURES" => {
                (1 << 32 | VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits()).as_bytes().to_vec()
            }
            "GET_PROTOCOL_FEATURES" => QEMU.protocol_features.bits().as_bytes().to_vec(),
            "GET_QUEUE_NUM" => u64::from(QUEUE_COUNT).as_bytes().to_vec(),
            "GET_VRING_BASE" => body,
            "GET_CONFIG" => with_config(body),
            "GET_SHMEM_CONFIG" => {
                // One region of 1 MiB among 256 possible.
                let mut answer = vec![0; 8 + 256 * 8];
                answer[..4].copy_from_slice(&1u32.to_le_bytes());
                answer[8..16].copy_from_slice(&(1u64 << 20).to_le_bytes());
                answer
            }
            _ if is_marked => 0u64.as_bytes().to_vec(),
            _ => continue,
        };
        let header = [code, 1 | REPLY, answer.len() as u32].map(u32::to_le_bytes).concat();
        socket.write_all(&[header, answer].concat()).unwrap();
    }
}

/// The piece of the configuration that a request is about, after its own header.
fn with_config(mut body: Vec<u8>) -> Vec<u8> {
    let config = ConfigSpace {
        magic: CONFIG_MAGIC,
        version: Version::CURRENT,
        node_count: 1,
        bar_size: 1 << 20,
        doorbell_count: 1,
        fence_count: 1,
        features: Features::all().bits(),
        reserved: [0; 3],
    };
    let offset = u32::from_le_bytes(*body.first_chunk().unwrap()) as usize;
    let (_, piece) = body.split_at_mut(12);
    piece.copy_from_slice(&config.as_bytes()[offset..][..piece.len()]);
    body
}

/// What a VMM says while its guest starts, resets the device once and goes. Repeated messages
/// count once.
fn conversation(profile: &'static VmmProfile) -> Vec<String> {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let device = thread::spawn(move || record(theirs));
    let guest = FakeGuest::over(ours, GuestOptions { profile, ..GuestOptions::default() }).unwrap();
    guest.reset().unwrap();
    drop(guest);
    let mut heard = device.join().unwrap();
    heard.dedup();
    heard
}

/// As recorded from QEMU 11.1.3, whose guest resets the device once. A `*` marks messages that
/// want to be acknowledged.
#[test]
fn qemu_says_what_qemu_says() {
    let connect = [
        "GET_FEATURES",
        "GET_PROTOCOL_FEATURES",
        "SET_PROTOCOL_FEATURES",
        "GET_QUEUE_NUM",
        "SET_BACKEND_REQ_FD*",
        "SET_OWNER",
        "GET_FEATURES",
        "SET_VRING_CALL*",
        "SET_VRING_ERR*",
        "SET_VRING_CALL*",
        "SET_VRING_ERR*",
        "GET_SHMEM_CONFIG",
        "GET_CONFIG",
    ];
    let queue =
        ["SET_VRING_NUM", "SET_VRING_BASE", "SET_VRING_ADDR", "SET_VRING_KICK*", "SET_VRING_CALL*"];
    let start = [
        &["SET_FEATURES", "SET_MEM_TABLE*"][..],
        &queue,
        &queue,
        &["SET_VRING_ENABLE*", "SET_VRING_CALL*"],
    ]
    .concat();
    let stop = ["SET_VRING_ENABLE*", "GET_VRING_BASE"];
    let expected = [&connect[..], &start, &stop, &start].concat();
    assert_eq!(conversation(&QEMU), expected);
}

/// As cloud-hypervisor's sources have it: `vhost_user::vu_common_ctrl` and
/// `vhost_user::generic_vhost_user`.
#[test]
fn cloud_hypervisor_says_what_cloud_hypervisor_says() {
    let connect = [
        "SET_OWNER",
        "GET_FEATURES",
        "GET_PROTOCOL_FEATURES",
        "SET_PROTOCOL_FEATURES",
        "GET_QUEUE_NUM*",
        "GET_CONFIG*",
    ];
    let queue = ["SET_VRING_ADDR*", "SET_VRING_BASE*", "SET_VRING_CALL*", "SET_VRING_KICK*"];
    let start = [
        &["SET_FEATURES*", "SET_MEM_TABLE*", "SET_VRING_NUM*"][..],
        &queue,
        &queue,
        &["SET_VRING_ENABLE*", "SET_BACKEND_REQ_FD*"],
    ]
    .concat();
    let stop = ["SET_VRING_ENABLE*", "GET_VRING_BASE*", "SET_VRING_ENABLE*", "GET_VRING_BASE*"];
    let expected = [&connect[..], &start, &stop, &start].concat();
    assert_eq!(conversation(&CLOUD_HYPERVISOR), expected);
}
