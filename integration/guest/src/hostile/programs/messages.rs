// SPDX-License-Identifier: MIT OR Apache-2.0

//! Messages: halves of them, other kinds, and too many.

use super::scene::{Group, Scene};
use super::session::{Session, encode, message, send_with};
use anyhow::{Context, ensure};
use bellhop_protocol::broker::{MAX_MESSAGE_SIZE, MessageHeader, MessageKind};
use bellhop_protocol::control::RequestCode;
use bellhop_protocol::control::device::CreateDevice;
use bellhop_protocol::control::fence::{
    CreateNativeFence, FenceValue, SignalFences, WaitForFences,
};
use bellhop_protocol::status::Status;
use rustix::io::{Errno, write};
use rustix::net::SendFlags;
use rustix::pipe::fcntl_setpipe_size;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::thread;
use zerocopy::IntoBytes;

pub(super) const ATTACKS: Group = &[
    ("empty-messages", empty),
    ("half-headers", halves),
    ("unknown-kinds", kinds),
    ("messages-too-long", too_long),
    ("posts-without-end", posts),
    ("kicks-without-end", kicks),
    ("replies-that-nobody-reads", unread_replies),
    ("both-channels-at-once", both),
    ("events-that-nobody-reads", unread_events),
    ("events-of-its-own", own_events),
];

/// How many messages are many.
const MANY: usize = 5000;

/// On either channel, this ends the connection, and all three channels of it.
fn ends_it(scene: &Scene, bytes: &[u8]) -> anyhow::Result<()> {
    for channel in [0, 1] {
        let session = Session::open(&scene.socket)?;
        session.process()?;
        session.say(channel, bytes)?;
        session.await_end()?;
    }
    Ok(())
}

fn empty(scene: &mut Scene) -> anyhow::Result<()> {
    ends_it(scene, &[])
}

fn halves(scene: &mut Scene) -> anyhow::Result<()> {
    let whole = message(MessageKind::REQUEST, &[]);
    for length in 1..size_of::<MessageHeader>() {
        ends_it(scene, whole.get(..length).unwrap_or_default())?;
    }
    Ok(())
}

fn kinds(scene: &mut Scene) -> anyhow::Result<()> {
    for kind in [0, 6, 7, 1 << 16, 1 << 31, u32::MAX] {
        ends_it(scene, &message(MessageKind(kind), &[]))?;
        ends_it(scene, &message(MessageKind(kind), &scene.noise.clone().bytes(64)))?;
    }
    Ok(())
}

fn too_long(scene: &mut Scene) -> anyhow::Result<()> {
    // The longest is answered: as a request that says another length.
    let longest = message(MessageKind::REQUEST, &vec![0xff; MAX_MESSAGE_SIZE - 8]);
    let session = Session::open(&scene.socket)?;
    session.say(0, &longest)?;
    let (status, _) = session.reply(0)?;
    ensure!(status == Status::INVALID_BUFFER_SIZE, "the longest message: {status}");
    ends_it(scene, &message(MessageKind::REQUEST, &vec![0; MAX_MESSAGE_SIZE]))?;
    ends_it(scene, &vec![1; MAX_MESSAGE_SIZE + 1])
}

fn posts(scene: &mut Scene) -> anyhow::Result<()> {
    let session = Session::open(&scene.socket)?;
    let process = session.process()?;
    let device = CreateDevice { reserved: 0 };
    let post =
        message(MessageKind::POST, &encode(RequestCode::CREATE_DEVICE, process, device.as_bytes()));
    for number in 0..MANY {
        session.say(number % 2, &post)?;
    }
    session.is_served()
}

/// Wake-ups of engines that have nothing to do.
fn kicks(scene: &mut Scene) -> anyhow::Result<()> {
    let session = Session::open(&scene.socket)?;
    for number in 0..4 * MANY {
        session
            .say(number % 2, &message(MessageKind::KICK, &scene.noise.bytes(number as u64 % 3)))?;
    }
    session.is_served()
}

/// Requests until neither side of the channel takes more.
fn unread_replies(scene: &mut Scene) -> anyhow::Result<()> {
    let session = Session::open(&scene.socket)?;
    session.process()?;
    let ask = message(MessageKind::REQUEST, &encode(RequestCode::QUERY_STATISTICS, 0, &[0; 8]));
    for channel in [0, 1] {
        let mut sent = 0u32;
        // Full for this long: the broker waits in this program's own thread.
        let mut refused = 0;
        while refused < 100 {
            match send_with(session.channel(channel), &ask, &[], SendFlags::DONTWAIT) {
                Ok(()) => sent += 1,
                Err(Errno::AGAIN) => {
                    refused += 1;
                    thread::yield_now();
                }
                Err(error) => return Err(error).context("the broker ended the connection"),
            }
        }
        ensure!(sent > 0, "nothing was sent");
    }
    Ok(())
}

fn both(scene: &mut Scene) -> anyhow::Result<()> {
    let session = Session::open(&scene.socket)?;
    let process = session.process()?;
    let asks = |channel: usize| {
        let session = &session;
        move || {
            for _ in 0..MANY / 10 {
                let device = CreateDevice { reserved: 0 };
                let ask = encode(RequestCode::CREATE_DEVICE, process, device.as_bytes());
                session.say(channel, &message(MessageKind::REQUEST, &ask))?;
                let (status, _) = session.reply(channel)?;
                ensure!(status.is_success(), "{status}");
            }
            Ok(())
        }
    };
    thread::scope(|threads| {
        let both = [0, 1].map(|channel| threads.spawn(asks(channel)));
        both.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread panicked")))
        })
    })
}

/// Waits that are satisfied, again and again, until no event fits: then the broker ends the connection.
fn unread_events(scene: &mut Scene) -> anyhow::Result<()> {
    let session = Session::open(&scene.socket)?;
    // So that it is full soon.
    fcntl_setpipe_size(&session.events, 4096)?;
    let (process, device) = session.device()?;
    let (status, fence) = session.ask(process, &CreateNativeFence::new(device, 0), &[])?;
    ensure!(status.is_success(), "a fence was refused: {status}");
    let fence = fence.context("the reply has no fence")?.fence;
    let mut value = 0;
    loop {
        value += 1;
        ensure!(value < 1 << 20, "the broker keeps events without end");
        let list = FenceValue { fence, value };
        let wait = WaitForFences { cookie: value, flags: 0, count: 1 };
        let signal = SignalFences { count: 1, reserved: 0 };
        let asked = session
            .ask(process, &wait, list.as_bytes())
            .and_then(|_| session.ask(process, &signal, list.as_bytes()));
        if asked.is_err() {
            return session.await_end();
        }
    }
}

/// Into its end of the pipe, and into the other one as far as Linux lets it.
fn own_events(scene: &mut Scene) -> anyhow::Result<()> {
    let session = Session::open(&scene.socket)?;
    session.process()?;
    ensure!(write(&session.events, &[0; 64]).is_err(), "a pipe takes bytes at its other end");
    let end = format!("/proc/self/fd/{}", session.events.as_raw_fd());
    if let Ok(mut events) = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(end)
    {
        // It is the broker's user: it fools itself.
        while events.write_all(&[0; 64]).is_ok() {}
    }
    session.is_served()
}
