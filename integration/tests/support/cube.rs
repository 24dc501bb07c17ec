// SPDX-License-Identifier: MIT OR Apache-2.0

//! Vulkan's cube, on lavapipe itself, and pictures of it.

use super::text;
use super::windows::XServer;
use bellhop_vm::{Mesa, Sources, fetch_programs, fetch_vulkan};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::process::{Child, Command, Stdio};

/// Different pictures of a guest's cube that are looked at, and how many of lavapipe's own must be the same to the pixel. Some are
/// caught while they are drawn, or not at all. The cube's matrix loses a little with each turn, so frames of different turns differ.
const LOOKS: usize = 100;
const FRAMES: usize = 5;
/// Colours of a frame in which something was drawn: a plain window has one or two.
const COLOURS: usize = 100;
/// Debian's package of the cube, and the program.
pub const PACKAGE: &str = "vulkan-tools";
pub const CUBE: &str = "vkcube";
/// Vulkan's numbers of modes in which frames are shown: each at its time, the newest, or at once.
pub const FIFO: &str = "2";
pub const MAILBOX: &str = "1";
pub const IMMEDIATE: &str = "0";
/// Where the cube has its window, and how large it is unless something else is said.
pub const PLACE: [usize; 2] = [100, 100];
pub const SMALL: [usize; 2] = [200, 200];
/// Far more frames than a test looks at.
pub const MANY: &str = "1000000";
/// Frames of some turns, which lavapipe draws faster than anybody looks: it is started again and again, so often at most.
const TURNS: &str = "700";
const RUNS: usize = 60;

/// The cube's words for frames of this size. It turns by 4 degrees from frame to frame, whatever time that takes.
pub fn words(mode: &str, size: [usize; 2], frames: &str) -> Vec<String> {
    let [width, height] = size.map(|side| side.to_string());
    let words = ["--suppress_popups", "--wsi", "xcb", "--width", &width, "--height", &height];
    let words = words.into_iter().chain(["--present_mode", mode, "--c", frames]);
    words.map(str::to_owned).collect()
}

/// Starts the cube.
pub fn start(command: &mut Command, mode: &str, size: [usize; 2], frames: &str) -> Child {
    command.args(words(mode, size, frames));
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The cube on lavapipe itself, in a window of this server.
fn native(server: &XServer) -> Command {
    let sources = Sources::default();
    let packages = fetch_programs(&[PACKAGE.to_owned()], &sources).unwrap();
    let cube = packages.program(OsStr::new(CUBE)).unwrap();
    let mut command = fetch_vulkan(Mesa::Debian13, &sources).unwrap().command(&cube);
    command.env("DISPLAY", &server.display);
    command
}

/// Whether something is drawn in a picture.
pub fn is_drawn(picture: &[u32]) -> bool {
    picture.iter().collect::<BTreeSet<_>>().len() >= COLOURS
}

/// Looks at pictures in which something was drawn, until this says that there are enough, or the program has ended.
pub fn look(
    program: &mut Child,
    picture: impl Fn() -> Vec<u32>,
    mut is_enough: impl FnMut(Vec<u32>) -> bool,
) -> bool {
    let mut last = Vec::new();
    while program.try_wait().unwrap().is_none() {
        let picture = picture();
        if picture == last {
            continue;
        }
        last.clone_from(&picture);
        if is_drawn(&picture) && is_enough(picture) {
            return true;
        }
    }
    false
}

/// Has a guest's cube draw and lavapipe's own in a window, until enough of their frames were the same.
pub fn assert_same_frames(mut guest: Child, picture: impl Fn() -> Vec<u32>, size: [usize; 2]) {
    let mut drawn = BTreeSet::new();
    let has_drawn = look(&mut guest, picture, |picture| {
        drawn.insert(picture);
        drawn.len() >= LOOKS
    });
    // It ends its program, too, where that has not ended.
    let _ = kill_process(Pid::from_child(&guest), Signal::TERM);
    let said = guest.wait_with_output().unwrap();
    assert!(has_drawn, "{} pictures: {}", drawn.len(), text(&said.stderr));
    assert_drawn_natively(&drawn, size, &text(&said.stderr));
}

/// Has lavapipe itself draw the cube in a window, until enough of its frames are among these. A guest has said this.
pub fn assert_drawn_natively(drawn: &BTreeSet<Vec<u32>>, size: [usize; 2], said: &str) {
    let server = XServer::start().unwrap();
    let mut same = BTreeSet::new();
    for _ in 0..RUNS {
        let mut native = start(&mut native(&server), FIFO, size, TURNS);
        let picture = || server.picture(PLACE, size);
        let are_same = look(&mut native, picture, |picture| {
            if drawn.contains(&picture) {
                same.insert(picture);
            }
            same.len() >= FRAMES
        });
        let _ = native.kill();
        let _ = native.wait();
        if are_same {
            return;
        }
    }
    panic!("{} of {} pictures: {said}", same.len(), drawn.len());
}
