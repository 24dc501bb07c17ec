// SPDX-License-Identifier: MIT OR Apache-2.0

//! The messages of each VMM profile, compared one by one with those of the real VMM.

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

/// A device that accepts every message and records it.
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
        let word = |index: usize| u32::from_le_bytes(*body[index * 4..].first_chunk().unwrap());
        let about = match name {
            "SET_VRING_ENABLE" | "SET_VRING_BASE" => format!(" {}", word(1)),
            "GET_CONFIG" => format!(" {}+{}", word(0), word(1)),
            _ => String::new(),
        };
        heard.push(format!("{name}{}{about}", if is_marked { "*" } else { "" }));
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

/// The part of the configuration that a request is about, after the request's own header.
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

/// The messages of a VMM from start to end, with `acts` between. Repeated messages count once.
fn conversation(profile: &'static VmmProfile, acts: impl FnOnce(&FakeGuest)) -> Vec<String> {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let device = thread::spawn(move || record(theirs));
    let guest = FakeGuest::over(ours, GuestOptions { profile, ..GuestOptions::default() }).unwrap();
    acts(&guest);
    drop(guest);
    let mut heard = device.join().unwrap();
    heard.dedup();
    heard
}

/// The messages, one in a line.
fn messages(said: &str) -> Vec<String> {
    let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

/// As recorded from QEMU 11.1.3, whose guest resets the device once; the size of `GET_CONFIG` is
/// that of its sources (`vub_get_config`). A `*` marks messages that want to be acknowledged.
#[test]
fn qemu_says_what_qemu_says() {
    let connect = messages(
        "GET_FEATURES
        GET_PROTOCOL_FEATURES
        SET_PROTOCOL_FEATURES
        GET_QUEUE_NUM
        SET_BACKEND_REQ_FD*
        SET_OWNER
        GET_FEATURES
        SET_VRING_CALL*
        SET_VRING_ERR*
        SET_VRING_CALL*
        SET_VRING_ERR*
        GET_SHMEM_CONFIG
        GET_CONFIG 0+64",
    );
    let start = messages(
        "SET_FEATURES
        SET_MEM_TABLE*
        SET_VRING_NUM
        SET_VRING_BASE 0
        SET_VRING_ADDR
        SET_VRING_KICK*
        SET_VRING_CALL*
        SET_VRING_NUM
        SET_VRING_BASE 0
        SET_VRING_ADDR
        SET_VRING_KICK*
        SET_VRING_CALL*
        SET_VRING_ENABLE* 1
        SET_VRING_CALL*",
    );
    let stop = messages("SET_VRING_ENABLE* 0\nGET_VRING_BASE");
    let expected = [&connect[..], &start, &stop, &start].concat();
    assert_eq!(conversation(&QEMU, |guest| guest.reset().unwrap()), expected);
}

/// From cloud-hypervisor's sources (`VhostUserHandle::setup_vhost_user`), for a driver that takes no MSI-X
/// vector. Queues begin behind the buffers that were offered before.
fn cloud_hypervisor_starts(control: u16, events: u16) -> Vec<String> {
    messages(&format!(
        "SET_FEATURES*
        SET_MEM_TABLE*
        SET_VRING_NUM*
        SET_VRING_ADDR*
        SET_VRING_BASE* {control}
        SET_VRING_KICK*
        SET_VRING_ADDR*
        SET_VRING_BASE* {events}
        SET_VRING_KICK*
        SET_VRING_ENABLE* 1
        SET_BACKEND_REQ_FD*"
    ))
}

/// Sources: `GenericVhostUser::new`, `read_config`; `VhostUserHandle::reset_vhost_user`,
/// `pause_vhost_user`, `resume_vhost_user`; `VhostUserCommon::add_memory_region`.
#[test]
fn cloud_hypervisor_says_what_cloud_hypervisor_says() {
    let mut connect = messages(
        "SET_OWNER
        GET_FEATURES
        GET_PROTOCOL_FEATURES
        SET_PROTOCOL_FEATURES
        GET_QUEUE_NUM*",
    );
    let words = (0..size_of::<ConfigSpace>()).step_by(4);
    connect.extend(words.map(|word| format!("GET_CONFIG* {word}+4")));
    let start = cloud_hypervisor_starts(0, 0);
    let pause = messages("SET_VRING_ENABLE* 0");
    let resume = messages("SET_VRING_ENABLE* 1");
    let memory = messages("SET_MEM_TABLE*");
    let stop = messages(
        "SET_VRING_ENABLE* 0
        GET_VRING_BASE*
        SET_VRING_ENABLE* 0
        GET_VRING_BASE*",
    );
    let expected = [&connect[..], &start, &pause, &resume, &memory, &stop, &start].concat();
    let heard = conversation(&CLOUD_HYPERVISOR, |guest| {
        guest.pause().unwrap();
        guest.resume().unwrap();
        guest.announce_memory().unwrap();
        guest.reset().unwrap();
    });
    assert_eq!(heard, expected);
}

/// Sources: `VhostUserEpollHandler::reconnect_inner`, `VhostUserHandle::reinitialize_vhost_user`.
#[test]
fn cloud_hypervisor_takes_up_with_a_device_that_came_back_where_the_driver_is() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let device = thread::spawn(move || record(theirs));
    conversation(&CLOUD_HYPERVISOR, |guest| guest.reconnect(ours).unwrap());
    let mut heard = device.join().unwrap();
    heard.dedup();
    let connect = messages("SET_OWNER\nGET_FEATURES\nSET_PROTOCOL_FEATURES");
    // The driver has offered all of its 64 event buffers.
    assert_eq!(heard, [connect, cloud_hypervisor_starts(0, 64)].concat());
}
