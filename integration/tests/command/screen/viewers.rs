// SPDX-License-Identifier: MIT OR Apache-2.0

//! Viewers of `bellhop screen serve`, and those who would be: each speaks RFB by itself.

use super::{Shows, serve};
use crate::support::TIMEOUT;
use bellhop_protocol::screen::{Input, Viewed};
use bellhop_rfb::Password;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

/// How an attempt to log in ended.
#[derive(Debug, PartialEq, Eq)]
enum Attempt {
    Wrong,
    /// The connection was ended before a password was asked for.
    TurnedAway,
}

/// Tries a password. Returns the viewer's connection if it was let in.
fn try_password(server: &Path, password: &str) -> Result<UnixStream, Attempt> {
    let talk = || -> io::Result<Option<UnixStream>> {
        let mut viewer = UnixStream::connect(server)?;
        viewer.set_read_timeout(Some(TIMEOUT))?;
        let hear = |viewer: &mut UnixStream, bytes: usize| -> io::Result<Vec<u8>> {
            let mut heard = vec![0; bytes];
            viewer.read_exact(&mut heard).map(|()| heard)
        };
        hear(&mut viewer, 12)?;
        viewer.write_all(b"RFB 003.008\n")?;
        assert_eq!(hear(&mut viewer, 2)?, [1, 2]);
        viewer.write_all(&[2])?;
        let challenge = hear(&mut viewer, 16)?.try_into().unwrap();
        viewer.write_all(&Password::new(password).unwrap().answer(&challenge))?;
        if hear(&mut viewer, 4)? != [0; 4] {
            return Ok(None);
        }
        viewer.write_all(&[1])?;
        let screen = hear(&mut viewer, 24)?;
        hear(&mut viewer, usize::from(screen[23]))?;
        Ok(Some(viewer))
    };
    match talk() {
        Ok(Some(viewer)) => Ok(viewer),
        Ok(None) => Err(Attempt::Wrong),
        Err(error) => {
            let ends =
                [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
            assert!(ends.contains(&error.kind()), "{error}");
            Err(Attempt::TurnedAway)
        }
    }
}

/// A message that a key goes down or comes up.
fn key(keysym: u8, down: bool) -> [u8; 8] {
    [4, down.into(), 0, 0, 0, 0, 0, keysym]
}

/// What viewers did, until they do this.
fn viewed_until(shows: &Shows, last: Viewed) -> Vec<Viewed> {
    let mut viewed = Vec::new();
    while viewed.last() != Some(&last) {
        viewed.push(shows.viewed.recv_timeout(TIMEOUT).unwrap());
    }
    viewed
}

fn typed(keysym: u32, down: bool) -> Viewed {
    Viewed::Input(Input::Key { keysym, down })
}

#[test]
fn who_says_nothing_keeps_nobody_out() {
    let shows = Shows::frames(1);
    let path = shows.file("screen.sock");
    let _serves = serve(&shows, &["--unix", path.to_str().unwrap()]);
    let silent: Vec<_> = (0..40).map(|_| UnixStream::connect(&path).unwrap()).collect();
    let mut viewer = try_password(&path, "secret").unwrap();
    viewer.write_all(&key(0x61, true)).unwrap();
    viewed_until(&shows, typed(0x61, true));
    drop(silent);
}

#[test]
fn wrong_passwords_are_few_and_so_are_the_lines_about_them() {
    const TRIED: usize = 60;
    let shows = Shows::frames(1);
    let path = shows.file("screen.sock");
    let password = shows.file("password");
    std::fs::write(&password, "secret\n").unwrap();
    let mut command: Command = shows.screen("serve");
    command.arg("--unix").arg(&path).arg("--password-file").arg(password);
    let mut serves = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(serves.stderr.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("screen.sock"));
    let attempts: Vec<_> =
        (0..TRIED).map(|_| try_password(&path, "Secret").expect_err("it is wrong")).collect();
    // A person mistypes, and then has to wait.
    assert_eq!(attempts[..3], [Attempt::Wrong, Attempt::Wrong, Attempt::Wrong]);
    assert!(attempts.contains(&Attempt::TurnedAway), "{TRIED} passwords were tried at once");
    serves.kill().unwrap();
    serves.wait().unwrap();
    let written = lines.count();
    let wrong = attempts.iter().filter(|attempt| **attempt == Attempt::Wrong).count();
    assert!(written < TRIED, "{written} lines for {wrong} wrong passwords");
}

#[test]
fn nobody_has_the_daemon_show_frames_before_the_login() {
    let shows = Shows::frames(1);
    let path = shows.file("screen.sock");
    let _serves = serve(&shows, &["--unix", path.to_str().unwrap()]);
    // The server speaks to them first, so they are at the door.
    let strangers: Vec<_> = (0..3)
        .map(|_| {
            let mut stranger = UnixStream::connect(&path).unwrap();
            stranger.read_exact(&mut [0; 12]).unwrap();
            stranger
        })
        .collect();
    assert_eq!(try_password(&path, "Secret").unwrap_err(), Attempt::Wrong);
    let mut viewer = try_password(&path, "secret").unwrap();
    viewer.write_all(&key(0x61, true)).unwrap();
    let viewed = viewed_until(&shows, typed(0x61, true));
    let watches = viewed.iter().filter(|viewed| **viewed == Viewed::Watch(true)).count();
    assert_eq!(watches, 1, "{viewed:?}");
    drop(strangers);
}

#[test]
fn a_viewer_that_leaves_lets_go_of_its_keys_and_buttons() {
    let shows = Shows::frames(1);
    let path = shows.file("screen.sock");
    let _serves = serve(&shows, &["--unix", path.to_str().unwrap()]);
    let mut viewer = try_password(&path, "secret").unwrap();
    for message in [key(0x61, true), key(0x62, true), key(0x61, false)] {
        viewer.write_all(&message).unwrap();
    }
    viewer.write_all(&[5, 1, 0, 17, 0, 23]).unwrap();
    let pointer = |buttons| Viewed::Input(Input::Pointer { x: 17, y: 23, buttons });
    viewed_until(&shows, pointer(1));
    drop(viewer);
    let mut viewed = viewed_until(&shows, pointer(0));
    viewed.retain(|viewed| matches!(viewed, Viewed::Input(_)));
    assert_eq!(viewed, [typed(0x62, false), pointer(0)]);
}

#[test]
fn more_viewers_than_there_are_places_for_are_told_so_by_the_end_of_their_connection() {
    let shows = Shows::frames(1);
    let path = shows.file("screen.sock");
    let _serves = serve(&shows, &["--unix", path.to_str().unwrap()]);
    let mut viewers: Vec<_> = (0..16).map(|_| try_password(&path, "secret").unwrap()).collect();
    // Each has its place when it is heard.
    for (viewer, keysym) in viewers.iter_mut().zip(0x61..) {
        viewer.write_all(&key(keysym, true)).unwrap();
        viewed_until(&shows, typed(keysym.into(), true));
    }
    let mut late = try_password(&path, "secret").unwrap();
    assert_eq!(late.read(&mut [0]).unwrap(), 0);
    drop(viewers.pop());
    viewed_until(&shows, typed(0x70, false));
    // The place is free when the server has forgotten who had it.
    let start = std::time::Instant::now();
    loop {
        let mut next = try_password(&path, "secret").unwrap();
        // It asks for a pixel, and gets that or the end.
        let asked = next.write_all(&[3, 0, 0, 0, 0, 0, 0, 1, 0, 1]);
        if asked.and_then(|()| next.read(&mut [0])).is_ok_and(|read| read > 0) {
            return;
        }
        assert!(start.elapsed() < TIMEOUT, "its place stays taken");
        thread::yield_now();
    }
}
