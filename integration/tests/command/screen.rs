// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bellhop screen`, before a daemon that shows what the test draws.

mod viewers;

use crate::support::screens::{Serves, read_png, viewer, vncdotool};
use crate::support::{TIMEOUT, bellhop, run, text};
use bellhop_protocol::rect::Rect;
use bellhop_protocol::screen::{
    Connector, Input, ScreenAction, ScreenReply, ScreenRequest, Shown, Viewed,
};
use rustix::fs::{MemfdFlags, inotify, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::fs::File;
use std::io::{BufRead, BufReader, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use tempfile::TempDir;

const WIDTH: u32 = 200;
const HEIGHT: u32 = 150;
/// Nanoseconds from one frame to the next, at 60000/1001 Hz.
const INTERVAL: u64 = 16_683_333;

/// A picture with many colours above, few in the middle, and one below, so that each kind of tile is there.
fn pixels(frame: u32) -> Vec<u32> {
    let pixel = |at: u32| {
        let (x, y) = (at % WIDTH, at / WIDTH);
        match y / 50 {
            0 => ((x * 0x0001_0203) ^ (y * 0x0003_0100)) & 0x00ff_ffff,
            1 => [0x00ff_0000, 0x0000_ff00, 0x0000_00ff, frame][(x / 3 + y) as usize % 4],
            _ => 0x0012_3456 + frame,
        }
    };
    (0..WIDTH * HEIGHT).map(pixel).collect()
}

/// A control socket that shows frames.
struct Shows {
    folder: TempDir,
    /// What viewers did.
    viewed: Receiver<Viewed>,
}

fn tell(stream: &UnixStream, what: &impl serde::Serialize, files: &[File]) {
    let line = serde_json::to_string(what).unwrap() + "\n";
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    if !files.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
    }
    let sent = sendmsg(stream, &[IoSlice::new(line.as_bytes())], &mut control, SendFlags::NOSIGNAL);
    // A client that has what it wanted goes.
    let _ = sent;
}

impl Shows {
    /// Shows this many frames, and then the last one.
    fn frames(frames: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("control")).unwrap();
        let (sender, viewed) = channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, sender) = (stream.unwrap(), sender.clone());
                thread::spawn(move || {
                    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                    let request = lines.next().unwrap().unwrap();
                    let request: ScreenRequest = serde_json::from_str(&request).unwrap();
                    let wanted = Connector { guest: 3, name: "one".into() };
                    if request.screen != ScreenAction::View(wanted) {
                        return tell(
                            &stream,
                            &ScreenReply::Error("there is no such thing".into()),
                            &[],
                        );
                    }
                    tell(&stream, &ScreenReply::Done, &[]);
                    let file = || File::from(memfd_create("frame", MemfdFlags::CLOEXEC).unwrap());
                    let files = [file(), file()];
                    for file in &files {
                        file.set_len(u64::from(WIDTH * HEIGHT) * 4).unwrap();
                    }
                    tell(&stream, &Shown::Buffers { width: WIDTH, height: HEIGHT }, &files);
                    let mut shown = 0;
                    let mut show = |buffer: u32| {
                        if shown == frames {
                            return;
                        }
                        shown += 1;
                        let bytes: Vec<u8> =
                            pixels(shown).into_iter().flat_map(u32::to_le_bytes).collect();
                        files[buffer as usize].write_all_at(&bytes, 0).unwrap();
                        let (flip, vsync, time) =
                            (shown.into(), shown.into(), u64::from(shown) * INTERVAL);
                        let changed = Rect::whole(WIDTH, HEIGHT);
                        let frame = Shown::Frame { buffer, flip, vsync, time, torn_at: 0, changed };
                        tell(&stream, &frame, &[]);
                    };
                    show(0);
                    for line in lines.map_while(Result::ok) {
                        let viewed = serde_json::from_str(&line).unwrap();
                        if let Viewed::GiveBack(buffer) = viewed {
                            show(buffer);
                        }
                        let _ = sender.send(viewed);
                    }
                });
            }
        });
        Self { folder, viewed }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn screen(&self, command: &str) -> Command {
        let mut screen = bellhop();
        screen.args(["screen", command, "--guest", "3", "--connector", "one", "--socket"]);
        screen.arg(self.file("control"));
        screen
    }
}

/// The pixels of a PNG of the screen's size.
fn read(path: &Path) -> Vec<u32> {
    let (size, pixels) = read_png(path);
    assert_eq!(size, (WIDTH, HEIGHT));
    pixels
}

#[test]
fn a_picture_has_the_pixels_of_the_frame() {
    let shows = Shows::frames(1);
    let png = shows.file("screen.png");
    run(shows.screen("capture").arg("--png").arg(&png));
    assert_eq!(read(&png), pixels(1));
}

#[test]
fn a_recording_has_each_frame_and_its_time() {
    let shows = Shows::frames(4);
    let out = shows.file("recording");
    let said = run(shows.screen("record").args(["--frames", "4", "--out"]).arg(&out));
    assert!(said.starts_with("4 frames in"), "{said}");
    for frame in 1..=4 {
        assert_eq!(read(&out.join(format!("frame-{frame:06}.png"))), pixels(frame));
    }
    let times = std::fs::read_to_string(out.join("frames.csv")).unwrap();
    assert_eq!(times.lines().nth(2), Some("frame-000002.png,2,2,33366666,0"));
    let again = shows.screen("record").args(["--frames", "1", "--out"]).arg(&out).output().unwrap();
    assert!(text(&again.stderr).contains("has a recording already"), "{}", text(&again.stderr));
}

#[test]
fn a_recording_in_one_file_has_the_pixels_and_the_times_of_all_frames() {
    let shows = Shows::frames(5);
    let file = shows.file("screen.apng");
    let said = run(shows.screen("record").args(["--frames", "5", "--apng"]).arg(&file));
    assert!(said.starts_with("5 frames in"), "{said}");
    let decoder = png::Decoder::new(BufReader::new(File::open(&file).unwrap()));
    let mut reader = decoder.read_info().unwrap();
    assert_eq!(reader.info().animation_control().map(|control| control.num_frames), Some(5));
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    for frame in 1..=5 {
        reader.next_frame(&mut bytes).unwrap();
        let control = *reader.info().frame_control().unwrap();
        // The interval, exactly; the last frame lasts as long as the one before.
        assert_eq!((control.delay_num, control.delay_den), (1001, 60_000), "frame {frame}");
        assert_eq!((control.width, control.height), (WIDTH, HEIGHT));
        let rgb = bytes.chunks_exact(3).map(|rgb| u32::from_be_bytes([0, rgb[0], rgb[1], rgb[2]]));
        assert!(rgb.eq(pixels(frame)), "frame {frame}");
    }
    let neither = shows.screen("record").args(["--frames", "1"]).output().unwrap();
    assert!(text(&neither.stderr).contains("--apng"), "{}", text(&neither.stderr));
}

#[test]
fn what_the_daemon_refuses_is_said() {
    let shows = Shows::frames(1);
    let refused =
        bellhop().args(["screen", "list", "--socket"]).arg(shows.file("control")).output();
    let said = text(&refused.unwrap().stderr);
    assert!(said.contains("there is no such thing"), "{said}");
}

/// Starts `screen serve` with these arguments.
fn serve(shows: &Shows, arguments: &[&str]) -> Serves {
    let mut command = shows.screen("serve");
    command.args(arguments);
    Serves::start(command, shows.folder.path())
}

#[test]
fn an_independent_viewer_takes_the_screen_and_types() {
    let Some(python) = vncdotool() else { return };
    let shows = Shows::frames(3);
    let serves = serve(&shows, &["--listen", "127.0.0.1:0"]);
    let png = shows.file("taken.png");
    let mut take = viewer(&python, &serves, "secret");
    take.args(["type", "a", "move", "17", "23", "pause", "1", "capture"]).arg(&png);
    run(&mut take);
    // What was last shown.
    assert_eq!(read(&png), pixels(3));
    let mut viewed = Vec::new();
    while !viewed
        .iter()
        .any(|viewed| matches!(viewed, Viewed::Input(Input::Pointer { x: 17, y: 23, .. })))
    {
        viewed.push(shows.viewed.recv_timeout(TIMEOUT).unwrap());
    }
    assert!(viewed.contains(&Viewed::Input(Input::Key { keysym: 0x61, down: true })), "{viewed:?}");
    let mut wrong = viewer(&python, &serves, "Secret");
    wrong.arg("capture").arg(&png);
    let wrong = wrong.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(!wrong.success(), "a wrong password takes nothing");
}

#[test]
fn a_port_is_of_this_machine_and_has_a_password() {
    let shows = Shows::frames(1);
    let said = |command: &mut Command| {
        let output = command.output().unwrap();
        assert!(!output.status.success());
        text(&output.stderr)
    };
    let everywhere = said(shows.screen("serve").args(["--listen", "0.0.0.0:0"]));
    assert!(everywhere.contains("not of this machine alone"), "{everywhere}");
    let open = said(shows.screen("serve").args(["--listen", "127.0.0.1:0"]));
    assert!(open.contains("--password-file"), "{open}");
}

#[test]
fn nobody_else_may_connect_to_a_viewers_socket_at_any_time() {
    let shows = Shows::frames(1);
    let path = shows.file("screen.sock");
    let folder = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    let changes = inotify::WatchFlags::CREATE | inotify::WatchFlags::ATTRIB;
    inotify::add_watch(&folder, shows.folder.path(), changes).unwrap();
    let _serves = serve(&shows, &["--unix", path.to_str().unwrap()]);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut space = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(&folder, &mut space);
    let mut seen = Vec::new();
    while let Ok(event) = reader.next() {
        if event.file_name() == Some(c"screen.sock") {
            seen.push(event.events());
        }
    }
    // It has that mode since it exists: nothing changed it.
    assert_eq!(seen, [inotify::ReadFlags::CREATE]);
}

#[test]
fn a_viewer_that_sends_nonsense_disturbs_no_other() {
    let shows = Shows::frames(1);
    let path = shows.file("screen.sock");
    let serves = serve(&shows, &["--unix", path.to_str().unwrap()]);
    assert_eq!(serves.1, path.to_str().unwrap());
    for nonsense in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], b"RFB 003.008\n\x05", b"RFB 003.008\n\x02aaaaaaaaaaaaaaaa"]
    {
        let mut viewer = UnixStream::connect(&path).unwrap();
        viewer.write_all(nonsense).unwrap();
        // The server says its own words, and ends the connection.
        let mut said = Vec::new();
        viewer.set_read_timeout(Some(TIMEOUT)).unwrap();
        let _ = std::io::Read::read_to_end(&mut viewer, &mut said);
        assert!(said.starts_with(b"RFB 003.008\n"), "{said:?}");
    }
}
