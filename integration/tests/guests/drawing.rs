// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests' programs that draw with Vulkan, compared with the same programs on lavapipe itself.

mod standing;

use crate::displays::captured;
use crate::support::vulkan::{all_passed, assert_killed_at_any_moment, assert_seen, beside};
use crate::support::windows::XServer;
use crate::support::{Daemon, run, text};
use bellhop_protocol::snapshot::HwQueue;
use bellhop_vm::{Mesa, Sources, fetch_programs, fetch_vulkan};
use rustix::process::{Pid, Signal, kill_process};
use std::cell::Cell;
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
const PACKAGE: &str = "vulkan-tools";
const CUBE: &str = "vkcube";
/// Vulkan's numbers of modes in which frames are shown: each at its time, the newest, or at once.
const FIFO: &str = "2";
const MAILBOX: &str = "1";
const IMMEDIATE: &str = "0";
/// Where the cube has its window, and how large it is unless something else is said.
const PLACE: [usize; 2] = [100, 100];
const SMALL: [usize; 2] = [200, 200];
/// Far more frames than a test looks at.
const MANY: &str = "1000000";
/// Frames of some turns, which lavapipe draws faster than anybody looks: it is started again and again, so often at most.
const TURNS: &str = "700";
const RUNS: usize = 60;

/// Starts the cube, with frames of this size. It turns by 4 degrees from frame to frame, whatever time that takes.
fn start(command: &mut Command, mode: &str, size: [usize; 2], frames: &str) -> Child {
    let [width, height] = size.map(|side| side.to_string());
    command.args(["--suppress_popups", "--wsi", "xcb", "--width", &width, "--height", &height]);
    command.args(["--present_mode", mode, "--c", frames]);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The cube of a guest.
fn cube(daemon: &Daemon) -> Command {
    let mut command = beside(daemon, 0);
    command.args(["--package", PACKAGE, "--", CUBE]);
    command
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

/// Looks at pictures in which something was drawn, until this says that there are enough, or the program has ended.
fn look(
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
        let colours: BTreeSet<_> = picture.iter().collect();
        if colours.len() >= COLOURS && is_enough(picture) {
            return true;
        }
    }
    false
}

/// Has a guest's cube draw and lavapipe's own in a window, until enough of their frames were the same.
fn assert_same_frames(mut guest: Child, picture: impl Fn() -> Vec<u32>, size: [usize; 2]) {
    let mut drawn = BTreeSet::new();
    let has_drawn = look(&mut guest, picture, |picture| {
        drawn.insert(picture);
        drawn.len() >= LOOKS
    });
    // It ends its program, too, where that has not ended.
    let _ = kill_process(Pid::from_child(&guest), Signal::TERM);
    let said = guest.wait_with_output().unwrap();
    assert!(has_drawn, "{} pictures: {}", drawn.len(), text(&said.stderr));
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
    panic!("{} of {} pictures: {}", same.len(), drawn.len(), text(&said.stderr));
}

/// Draws into a window in a mode of Vulkan's (`VkPresentModeKHR`).
fn assert_same_frames_in_a_window(mode: &str) {
    let Some(daemon) = Daemon::start_with_kernels(1, "") else { return };
    let Some(server) = XServer::start() else { return };
    let size = SMALL;
    let mut command = cube(&daemon);
    let guest = start(command.env("DISPLAY", &server.display), mode, size, MANY);
    assert_same_frames(guest, || server.picture(PLACE, size), size);
}

/// A chain of two GPUs.
const CHAIN: &str = "[adapters.second]\nkernels = \"auto\"\n\
     [link.pair]\nadapters = [\"\", \"second\"]\n";
/// What an administrator says of the cube.
const ONE: &str = "[[program]]\napplication = \"vkcube\"\nframes = \"one\"\n";
const PROFILES: &str = "BELLHOP_VULKAN_PROFILES";

/// Submissions of a program that draws frames, and of none that asks what a GPU can do.
const FRAMES_AT_WORK: u64 = 50;

/// The GPUs that have completed many submissions of a queue.
fn gpus_at_work(daemon: &Daemon) -> BTreeSet<u32> {
    let seen = daemon.snapshot();
    let processes = seen.guests.iter().flat_map(|guest| &guest.processes);
    let contexts = processes.flat_map(|of| &of.devices).flat_map(|device| &device.contexts);
    let has_drawn = |queues: &[HwQueue]| queues.iter().any(|of| of.completed > FRAMES_AT_WORK);
    let at_work = contexts.filter(|context| has_drawn(&context.hw_queues));
    at_work.map(|context| context.gpu).collect()
}

/// The cube's frames have one image of depths, which no two GPUs may draw on at a time.
#[test]
fn a_cube_whose_frames_two_gpus_draw_in_turns_is_lavapipe_s_to_the_pixel() {
    assert_drawn_by_gpus(CHAIN, "", 2);
}

#[test]
fn frames_are_drawn_by_one_gpu_if_a_profile_says_so_or_others_have_power_when_needed() {
    assert_drawn_by_gpus(CHAIN, ONE, 1);
    assert_drawn_by_gpus(&format!("{CHAIN}power = \"when_needed\"\n"), "", 1);
}

/// Has a guest's cube draw by the GPUs of a chain, with these profiles: so many are at work.
#[track_caller]
fn assert_drawn_by_gpus(chain: &str, rules: &str, gpus: usize) {
    let Some(daemon) = Daemon::start_with_kernels(1, chain) else { return };
    let Some(server) = XServer::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let profiles = folder.path().join("vulkan.toml");
    std::fs::write(&profiles, rules).unwrap();
    let mut command = cube(&daemon);
    command.env("DISPLAY", &server.display).env(PROFILES, &profiles);
    let guest = start(&mut command, FIFO, SMALL, MANY);
    let most = Cell::new(0);
    let picture = || {
        if most.get() < 2 {
            most.set(most.get().max(gpus_at_work(&daemon).len()));
        }
        server.picture(PLACE, SMALL)
    };
    assert_same_frames(guest, picture, SMALL);
    assert_eq!(most.get(), gpus, "{chain}{rules}");
}

#[test]
fn frames_that_two_gpus_draw_in_turns_find_what_those_before_them_left() {
    let Some(daemon) = Daemon::start_with_kernels(1, CHAIN) else { return };
    all_passed(&run(beside(&daemon, 0).args(["--validate", "--selftest", "--", "swapchain."])));
}

#[test]
fn a_cube_in_a_window_is_lavapipe_s_to_the_pixel() {
    assert_same_frames_in_a_window(FIFO);
}

#[test]
fn a_cube_in_a_window_that_shows_the_newest_frame_is_lavapipe_s_to_the_pixel() {
    assert_same_frames_in_a_window(MAILBOX);
}

/// The colour of most images that the suite shows on a display, and no other program.
const SHOWN: u32 = 0x0033_6699;

const DISPLAY: &str = "[[adapter.displays]]\nname = \"left\"\nmodes = [\"640x480@60\"]\n";

#[test]
fn images_on_the_guest_s_own_display_are_what_the_host_sees() {
    assert_seen_on_the_display(DISPLAY, ("0", 0), "");
}

/// The second GPU has no display. It sleeps until the program comes, which need not choose it itself.
#[test]
fn the_first_gpu_s_display_shows_what_the_second_one_draws() {
    let chain = format!("{DISPLAY}{CHAIN}power = \"when_needed\"\n");
    assert_seen_on_the_display(&chain, ("1", 1), "");
    let rules = "[[program]]\napplication = \"suite\"\ngpu = 1\n";
    assert_seen_on_the_display(&chain, ("0", 1), rules);
}

/// Tries the behaviours of displays on a device, which is this GPU, while the host looks at the display.
#[track_caller]
fn assert_seen_on_the_display(configuration: &str, (device, gpu): (&str, u32), rules: &str) {
    let Some(daemon) = Daemon::start_with_kernels(1, configuration) else { return };
    let folder = tempfile::tempdir().unwrap();
    let profiles = folder.path().join("vulkan.toml");
    std::fs::write(&profiles, rules).unwrap();
    let mut command = beside(&daemon, 0);
    command.args(["--validate", "--selftest", "--", "--device", device, "display."]);
    command.env(PROFILES, &profiles);
    let mut suite = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut was_seen = false;
    while suite.try_wait().unwrap().is_none() && !was_seen {
        if !daemon.snapshot().guests.is_empty() {
            let (size, pixels) = captured(&daemon, "left", folder.path());
            was_seen = size == (640, 480)
                && pixels.iter().all(|pixel| *pixel == SHOWN)
                && gpus_at_work(&daemon) == BTreeSet::from([gpu]);
        }
    }
    let said = suite.wait_with_output().unwrap();
    all_passed(&text(&said.stdout));
    assert!(said.status.success() && was_seen, "{}", text(&said.stderr));
}

/// Sizes of windows, of which each is another than the one before, and how often a window gets them.
const SIZES: [[u32; 2]; 5] = [[300, 200], [1, 1], [640, 480], [17, 333], [200, 200]];
const ROUNDS: usize = 60;

/// Wherever a program is with its images when its window gets another size: it makes another chain, and draws on.
#[test]
fn a_cube_whose_window_gets_other_sizes_at_any_moment_draws_on() {
    let Some(daemon) = Daemon::start_with_kernels(2, "") else { return };
    let (Some(server), Some(other)) = (XServer::start(), XServer::start()) else { return };
    for mode in [FIFO, MAILBOX, IMMEDIATE] {
        let mut guest = start(cube(&daemon).env("DISPLAY", &server.display), mode, SMALL, MANY);
        // A neighbour draws at its own pace.
        let mut command = beside(&daemon, 1);
        command.args(["--package", PACKAGE, "--", CUBE]).env("DISPLAY", &other.display);
        let neighbour = start(&mut command, FIFO, SMALL, "120");
        let window = server.await_window();
        for round in 0..ROUNDS {
            for size in SIZES {
                assert!(window.resize(size), "{mode}: {:?}", guest.try_wait());
                (0..round * 10).for_each(|_| std::thread::yield_now());
            }
        }
        let [width, height] = SIZES[SIZES.len() - 1].map(|side| side as usize);
        assert_eq!(window.size(), Some([width, height].map(|side| side as u32)));
        let picture = || server.picture(PLACE, [width, height]);
        let draws = look(&mut guest, picture, |_| true);
        let _ = kill_process(Pid::from_child(&guest), Signal::TERM);
        let said = guest.wait_with_output().unwrap();
        assert!(draws, "{mode}: {}", text(&said.stderr));
        let said = neighbour.wait_with_output().unwrap();
        assert!(said.status.success(), "{mode}: {}", text(&said.stderr));
    }
}

/// Wherever a program is in what it draws when it is killed: the next one of its guest draws, and a neighbour notices nothing.
#[test]
fn a_program_that_is_killed_at_any_drawing_command_leaves_nothing() {
    let killed = ["draw.", "attachment.", "pass."];
    assert_killed_at_any_moment(&["draw.", "pass.", "blend."], &killed, &["blend.", "pass."]);
}

/// A neighbour draws while a program has very many draws in one submission.
#[test]
fn very_many_draws_of_one_submission_leave_a_neighbour_its_turns() {
    let Some(daemon) = Daemon::start_with_kernels(2, "") else { return };
    let mut many = beside(&daemon, 1);
    let many = many.args(["--selftest", "--", "draw.very-many"]).stdout(Stdio::piped());
    let many = many.spawn().unwrap();
    assert_seen(&daemon, &["index.", "pass."]);
    let output = many.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stdout));
}

#[test]
fn the_validation_layer_finds_nothing_in_a_cube() {
    let Some(daemon) = Daemon::start_with_kernels(1, "") else { return };
    let Some(server) = XServer::start() else { return };
    let mut command = beside(&daemon, 0);
    command.args(["--validate", "--package", PACKAGE, "--", CUBE]).env("DISPLAY", &server.display);
    let said = start(&mut command, FIFO, SMALL, "60").wait_with_output().unwrap();
    assert!(said.status.success(), "{}", text(&said.stderr));
}
