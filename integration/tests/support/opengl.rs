// SPDX-License-Identifier: MIT OR Apache-2.0

//! Programs that draw with OpenGL, on lavapipe itself, and pictures of them.

use super::text;
use super::windows::XServer;
use bellhop_integration::vulkan::opengl;
use bellhop_vm::{Mesa, Packaged, Sources, fetch_programs, fetch_vulkan};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Debian's packages of the programs.
pub const PACKAGES: [&str; 3] = ["mesa-utils", "glmark2-x11", "glmark2-es2-x11"];
/// A configuration for a machine on which shaders take long to compile.
pub const UNHURRIED: &str = "[adapter]\ntimeout = \"120s\"\n";
/// Where a program has its window.
const PLACE: [usize; 2] = [0, 0];
/// Colours of a picture in which gears are drawn: a plain window has one.
const COLOURS: usize = 20;
/// A scene of glmark2's that does not move, and how large it is. It lasts until it has been looked at.
pub const STILL: [&str; 4] = ["-b", "effect2d:duration=600", "--size", "400x300"];
const STILL_SIZE: [usize; 2] = [400, 300];
/// How large gears are.
const GEARS: [usize; 2] = [300, 300];
/// Pictures of a guest's gears that are looked at, and of lavapipe's own: as many as they have phases that can be told apart. A picture
/// and the nearest of the others differ where teeth have moved by less than a phase: in few of the pixels.
const LOOKS: usize = 20;
const PHASES: usize = 400;
const DIFFERENT: usize = GEARS[0] * GEARS[1] / 50;
/// How often the picture of a scene that does not move is read: one that is being copied into the window is gone before.
const READS: usize = 200;

/// The packages, with Mesa's OpenGL.
pub fn packages() -> Packaged {
    let packages = opengl::with_packages(&PACKAGES.map(str::to_owned));
    fetch_programs(&packages, &Sources::default()).unwrap()
}

/// A program on lavapipe itself, in a window of this server.
pub fn native(server: &XServer, words: &[&str]) -> Command {
    let packages = packages();
    let [program, arguments @ ..] = words else { panic!("no program") };
    let mut command = packages.command(OsStr::new(program)).unwrap();
    let lavapipe = fetch_vulkan(Mesa::Debian13, &Sources::default()).unwrap();
    let lavapipe = lavapipe.command(Path::new("none"));
    command.envs(lavapipe.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.envs(opengl::variables(&packages.root()));
    // Zink takes a Vulkan of the processor's for no other.
    command.env("LIBGL_ALWAYS_SOFTWARE", "1");
    command.args(arguments).env("DISPLAY", &server.display);
    command
}

/// Starts a program, whose errors are kept.
pub fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Different pictures of a part of the screen in which something is drawn, until there are so many.
fn pictures(
    program: &mut Child,
    server: &XServer,
    size: [usize; 2],
    count: usize,
) -> Vec<Vec<u32>> {
    let mut all: Vec<Vec<u32>> = Vec::new();
    while all.len() < count && program.try_wait().unwrap().is_none() {
        let picture = server.picture(PLACE, size);
        if is_drawn(&picture) && !all.contains(&picture) {
            all.push(picture);
        }
    }
    end(program);
    all
}

/// Whether something is drawn in a picture.
fn is_drawn(picture: &[u32]) -> bool {
    picture.iter().collect::<BTreeSet<_>>().len() >= COLOURS
}

/// Ends a program, with what it has started.
fn end(program: &mut Child) {
    let _ = kill_process(Pid::from_child(program), Signal::TERM);
    let _ = program.wait();
}

/// The picture of a scene that does not move: the first that is read so often. Others are read while they are copied into the window.
pub fn still(program: &mut Child, server: &XServer) -> Vec<u32> {
    let mut reads = BTreeMap::<_, usize>::new();
    while !reads.values().any(|count| *count >= READS) && program.try_wait().unwrap().is_none() {
        let picture = server.picture(PLACE, STILL_SIZE);
        if is_drawn(&picture) {
            *reads.entry(picture).or_default() += 1;
        }
    }
    end(program);
    let last = reads.into_iter().find(|(_, count)| *count >= READS);
    last.map(|(picture, _)| picture).unwrap_or_default()
}

/// Requires that this is the picture of a scene that does not move, which lavapipe itself draws of the same words.
#[track_caller]
pub fn assert_still(seen: &[u32], words: &[&str]) {
    let server = XServer::start().unwrap();
    let right = still(&mut start(&mut native(&server, words)), &server);
    assert!(!right.is_empty(), "{words:?}: lavapipe draws nothing");
    assert!(seen == right, "{words:?}: another picture, or none");
}

fn difference(one: &[u32], other: &[u32]) -> usize {
    one.iter().zip(other).filter(|(one, other)| one != other).count()
}

/// Looks at a guest's gears in a window of this server, and has lavapipe's own turn: each picture must be nearly one of the others.
#[track_caller]
pub fn assert_gears(program: &str, mut gears: Child, server: &XServer) {
    let drawn = pictures(&mut gears, server, GEARS, LOOKS);
    assert_eq!(drawn.len(), LOOKS, "{}", text(&gears.wait_with_output().unwrap().stderr));
    let server = XServer::start().unwrap();
    let right = pictures(&mut start(&mut native(&server, &[program])), &server, GEARS, PHASES);
    assert_eq!(right.len(), PHASES);
    let nearest = |picture: &Vec<u32>| right.iter().map(|right| difference(picture, right)).min();
    let mut off: Vec<_> = drawn.iter().filter_map(nearest).collect();
    off.sort_unstable();
    // Some pictures are caught while they are drawn.
    assert!(off[LOOKS / 2] <= DIFFERENT, "pixels that differ: {off:?}");
}
