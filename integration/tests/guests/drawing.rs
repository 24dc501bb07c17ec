// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests' programs that draw with Vulkan, compared with the same programs on lavapipe itself.

mod standing;

use crate::displays::captured;
use crate::support::cube::{
    CUBE, FIFO, IMMEDIATE, MAILBOX, MANY, PACKAGE, PLACE, SMALL, assert_same_frames, look, start,
};
use crate::support::vulkan::{all_passed, assert_killed_at_any_moment, assert_seen, beside};
use crate::support::windows::XServer;
use crate::support::{Daemon, run, text};
use bellhop_protocol::snapshot::HwQueue;
use rustix::process::{Pid, Signal, kill_process};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::process::{Command, Stdio};

/// The cube of a guest.
fn cube(daemon: &Daemon) -> Command {
    let mut command = beside(daemon, 0);
    command.args(["--package", PACKAGE, "--", CUBE]);
    command
}

/// Draws into a window in a mode of Vulkan's (`VkPresentModeKHR`).
fn assert_same_frames_in_a_window(mode: &str) {
    let Some(daemon) = Daemon::start_with_kernels(1, "") else { return };
    let Some(server) = XServer::start() else { return };
    let mut command = cube(&daemon);
    let guest = start(command.env("DISPLAY", &server.display), mode, SMALL, MANY);
    assert_same_frames(guest, || server.picture(PLACE, SMALL), SMALL);
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
