// SPDX-License-Identifier: MIT OR Apache-2.0

//! Connections: halves of them, too many, and such as end in the middle of something.

use super::scene::{Group, Scene};
use super::session::{Session, encode, message};
use anyhow::ensure;
use bellhop_protocol::broker::MessageKind;
use bellhop_protocol::control::RequestCode;
use bellhop_protocol::control::device::CreateDevice;
use bellhop_protocol::control::process::CreateProcess;
use rustix::net::{Shutdown, shutdown};
use zerocopy::IntoBytes;

pub(super) const ATTACKS: Group = &[
    ("half-shutdowns", half_shutdowns),
    ("one-channel-closed", one_channel),
    ("connections-without-pause", without_pause),
    ("welcomes-that-nobody-reads", unread_welcomes),
    ("all-places-of-a-user", all_places),
    ("gone-amid-requests", amid_requests),
    ("gone-amid-many-requests", amid_many_requests),
];

/// Connections that come and go.
const MANY: usize = 2000;

/// Each direction of each channel.
fn half_shutdowns(scene: &mut Scene) -> anyhow::Result<()> {
    for socket in 0..2 {
        for how in [Shutdown::Read, Shutdown::Write, Shutdown::Both] {
            let session = Session::open(&scene.socket)?;
            session.process()?;
            if let Some(socket) = session.sockets().get(socket) {
                shutdown(socket, how)?;
            }
            // A reply, or the end.
            let _ = session.is_served();
        }
    }
    Ok(())
}

fn one_channel(scene: &mut Scene) -> anyhow::Result<()> {
    for closed in 0..3 {
        let Session { channels: [first, second], events, memory, .. } = {
            let session = Session::open(&scene.socket)?;
            session.process()?;
            session
        };
        let mut sockets = vec![first, second, events];
        drop(sockets.remove(closed));
        if closed < 2 {
            // The broker ends the others.
            sockets.iter().try_for_each(super::session::await_end)?;
        }
        drop(memory);
    }
    Ok(())
}

fn without_pause(scene: &mut Scene) -> anyhow::Result<()> {
    for number in 0..MANY {
        let knocks = Session::knock(&scene.socket)?;
        if number % 10 == 0 {
            // It was refused, if the last ones have not quite gone.
            let _ = Session::hear(knocks)?;
        }
    }
    Ok(())
}

/// As many as may be, which never read what a program hears first.
fn unread_welcomes(scene: &mut Scene) -> anyhow::Result<()> {
    let knock = || Session::knock(&scene.socket);
    let waiting = (0..scene.places).map(|_| knock()).collect::<Result<Vec<_>, _>>()?;
    let more = (0..scene.places).map(|_| knock()).collect::<Result<Vec<_>, _>>()?;
    for refused in more {
        ensure!(Session::hear(refused)?.is_none(), "there are more programs than places");
    }
    for heard in waiting {
        ensure!(Session::hear(heard)?.is_some(), "a program with a place was not welcome");
    }
    Ok(())
}

/// All places of the user, held while it tries on.
fn all_places(scene: &mut Scene) -> anyhow::Result<()> {
    let places = (0..scene.places).map(|_| Session::open(&scene.socket));
    let places = places.collect::<anyhow::Result<Vec<_>>>()?;
    for _ in 0..MANY / 10 {
        let heard = Session::hear(Session::knock(&scene.socket)?)?;
        ensure!(heard.is_none(), "there are more programs than places");
    }
    places.iter().try_for_each(Session::is_served)
}

/// It goes after each step of its beginning, without waiting for the answer.
fn amid_requests(scene: &mut Scene) -> anyhow::Result<()> {
    let create = encode(RequestCode::CREATE_PROCESS, 0, CreateProcess { reserved: 0 }.as_bytes());
    let create = message(MessageKind::REQUEST, &create);
    for step in 0..5 {
        for _ in 0..10 {
            let Some(session) = Session::hear(Session::knock(&scene.socket)?)? else { continue };
            match step {
                0 => {}
                1 => session.say(0, &create)?,
                2 => {
                    session.say(0, &create)?;
                    session.say(1, &create)?;
                }
                3 => {
                    let (process, _) = session.device()?;
                    let device = CreateDevice { reserved: 0 };
                    let ask = encode(RequestCode::CREATE_DEVICE, process, device.as_bytes());
                    session.say(1, &message(MessageKind::REQUEST, &ask))?;
                }
                _ => {
                    let process = session.process()?;
                    let end = encode(RequestCode::DESTROY_PROCESS, process, &[0; 8]);
                    session.say(1, &message(MessageKind::REQUEST, &end))?;
                }
            }
        }
    }
    Ok(())
}

/// It goes with all requests in flight that its channels hold.
fn amid_many_requests(scene: &mut Scene) -> anyhow::Result<()> {
    for _ in 0..10 {
        let Some(session) = Session::hear(Session::knock(&scene.socket)?)? else { continue };
        let process = session.process()?;
        let device = CreateDevice { reserved: 0 };
        let ask = encode(RequestCode::CREATE_DEVICE, process, device.as_bytes());
        let post = message(MessageKind::POST, &ask);
        for number in 0..100 {
            session.say(number % 2, &post)?;
        }
    }
    Ok(())
}
