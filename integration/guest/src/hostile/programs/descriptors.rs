// SPDX-License-Identifier: MIT OR Apache-2.0

//! Descriptors, which the broker takes from nobody. Closing one can take as long as its sender likes.

use super::scene::{Group, Scene};
use super::session::{MOST_DESCRIPTORS, Session, await_end, message, send_with};
use anyhow::{Context, ensure};
use bellhop_protocol::broker::MessageKind;
use bellhop_protocol::control::RequestCode;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, socketpair};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

pub(super) const ATTACKS: Group = &[
    ("files-with-requests", with_requests),
    ("files-with-wrong-messages", with_wrong_messages),
    ("its-own-ends", own_ends),
    ("its-watch-of-interrupts", watch),
    ("sockets-that-linger", lingering),
    ("sockets-that-linger-unheard", lingering_unheard),
];

/// How long a socket lingers when it is closed: longer than others may wait.
const LINGER: Duration = Duration::from_secs(3);

/// As many as fit a message, of several kinds.
fn many() -> anyhow::Result<Vec<OwnedFd>> {
    let (one, other) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let memory = memfd_create("sent", MemfdFlags::CLOEXEC)?;
    let file = OwnedFd::from(File::open("/dev/zero")?);
    let kinds = [one, other, memory, file];
    let all = kinds.iter().cycle().take(MOST_DESCRIPTORS).map(OwnedFd::try_clone);
    Ok(all.collect::<Result<_, _>>()?)
}

fn borrowed(files: &[OwnedFd]) -> Vec<BorrowedFd<'_>> {
    files.iter().map(AsFd::as_fd).collect()
}

/// With each kind of message, on both channels. Linux may refuse to send them.
fn with_requests(scene: &mut Scene) -> anyhow::Result<()> {
    let session = Session::open(&scene.socket)?;
    let files = many()?;
    let query = super::session::encode(RequestCode::QUERY_STATISTICS, 0, &[0; 8]);
    for channel in [0, 1] {
        for kind in [MessageKind::POST, MessageKind::KICK] {
            for _ in 0..20 {
                let bytes = message(kind, &query);
                let socket = session.channel(channel);
                let _ = send_with(socket, &bytes, &borrowed(&files), SendFlags::empty());
            }
        }
    }
    session.is_served()
}

fn with_wrong_messages(scene: &mut Scene) -> anyhow::Result<()> {
    let files = many()?;
    for _ in 0..20 {
        let session = Session::open(&scene.socket)?;
        let bytes = message(MessageKind(9), &[]);
        let sent = send_with(session.channel(0), &bytes, &borrowed(&files), SendFlags::empty());
        if sent.is_ok() {
            session.await_end()?;
        }
    }
    Ok(())
}

/// The connection's own ends, over the connection itself: so they would stay open after the program has gone.
fn own_ends(scene: &mut Scene) -> anyhow::Result<()> {
    for _ in 0..10 {
        let session = Session::open(&scene.socket)?;
        session.process()?;
        let own = session.borrowed();
        let kick = message(MessageKind::KICK, &[]);
        for socket in session.sockets() {
            let _ = send_with(socket, &kick, &own, SendFlags::DONTWAIT);
            let _ = send_with(socket, &kick, &[session.memory.as_fd()], SendFlags::DONTWAIT);
        }
    }
    Ok(())
}

/// Watches that others would wait for with it: as many as Linux lets it make.
const WATCHES: usize = 1024;

/// By what it is woken with, it takes no interrupt from the broker, removes no watch of others, and delays nobody for long,
/// whatever else it has woken.
fn watch(scene: &mut Scene) -> anyhow::Result<()> {
    let session = Session::open(&scene.socket)?;
    let read = rustix::io::read(&session.interrupts, &mut [0; 8]);
    ensure!(read.is_err(), "interrupts can be read");
    for file in session.sockets() {
        let removed = epoll::delete(&session.interrupts, file);
        ensure!(removed.is_err(), "a watch of the broker's can be removed");
    }
    let each = EventFlags::IN | EventFlags::ET;
    let mut watches = Vec::new();
    for _ in 0..WATCHES {
        let Ok(watch) = epoll::create(CreateFlags::CLOEXEC) else { break };
        if epoll::add(&watch, &session.interrupts, EventData::new_u64(0), each).is_err() {
            break;
        }
        watches.push(watch);
    }
    for _ in 0..20 {
        session.is_served()?;
    }
    Session::open(&scene.socket)?.is_served()
}

/// A connection with bytes that its reader never takes, whose close therefore lingers; and the reader.
fn lingering_socket() -> anyhow::Result<(OwnedFd, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0").context("there is no loopback")?;
    let mut stream = TcpStream::connect(listener.local_addr()?)?;
    let (reader, _) = listener.accept()?;
    stream.set_nonblocking(true)?;
    loop {
        match stream.write(&[0; 1 << 16]) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error.into()),
        }
    }
    stream.set_nonblocking(false)?;
    let stream = OwnedFd::from(stream);
    set_socket_linger(&stream, Some(LINGER))?;
    Ok((stream, reader))
}

/// Over channels that the broker reads: it waits in this program's thread at most.
fn lingering(scene: &mut Scene) -> anyhow::Result<()> {
    let mut readers = Vec::new();
    for socket in 0..3 {
        let session = Session::open(&scene.socket)?;
        session.process()?;
        let (stream, reader) = lingering_socket()?;
        let kick = message(MessageKind::KICK, &[]);
        let sockets = session.sockets();
        let socket = sockets.get(socket).context("it has three")?;
        let _ = send_with(socket, &kick, &[stream.as_fd()], SendFlags::DONTWAIT);
        drop(stream);
        drop(session);
        readers.push(reader);
    }
    drop(readers);
    Ok(())
}

/// Over connections that the broker refuses: others that come must not wait meanwhile.
fn lingering_unheard(scene: &mut Scene) -> anyhow::Result<()> {
    let places = (0..scene.places).map(|_| Session::open(&scene.socket));
    let places = places.collect::<anyhow::Result<Vec<_>>>()?;
    let (mut refused, mut readers) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let (stream, reader) = lingering_socket()?;
        let knocks = Session::knock(&scene.socket)?;
        // The broker may have been faster, or take none.
        let _ = send_with(&knocks, &[1], &[stream.as_fd()], SendFlags::DONTWAIT);
        refused.push(knocks);
        readers.push(reader);
    }
    let start = Instant::now();
    refused.iter().try_for_each(await_end)?;
    ensure!(start.elapsed() < LINGER, "newcomers wait for what a program sent");
    drop((places, readers));
    Ok(())
}
