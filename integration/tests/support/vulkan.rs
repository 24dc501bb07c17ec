// SPDX-License-Identifier: MIT OR Apache-2.0

//! Programs that use a guest's GPU through Vulkan.

use super::{Daemon, bellhop, run, text};
use std::process::{Command, Stdio};

/// The areas of behaviours of a driver, each once.
pub const DEVICE: &[&str] = &["device."];
pub const MEMORY: &[&str] = &["memory.", "transfer."];
pub const DISPATCHES: &[&str] = &["pipeline.", "dispatch.", "chain.", "set."];
pub const IMAGES: &[&str] = &["image.", "storage-image.", "sampler.", "texels."];
pub const OPERATIONS: &[&str] = &["shader.", "conversion.", "program."];
pub const SHARING: &[&str] =
    &["atomic.", "workgroup.", "subgroup.", "builtin.", "layout.", "store."];
pub const ORDER: &[&str] = &[
    "command.",
    "fence.",
    "semaphore.",
    "timeline.",
    "sharing.",
    "event.",
    "query.",
    "asynchronous.",
];
/// Those of a device that draws.
pub const DRAWING: &[&str] = &[
    "draw.",
    "vertex.",
    "index.",
    "raster.",
    "fragment.",
    "depth.",
    "stencil.",
    "blend.",
    "attachment.",
    "rendering.",
    "pass.",
    "secondary.",
    "view.",
    "sample.",
    "resolve.",
    "blit.",
    "occlusion.",
    "transform.",
    "condition.",
    "statistics.",
    "geometry.",
    "tessellation.",
    "graphics.",
    "swapchain.",
];
/// Those among them that are about what lavapipe does not have.
const NOT_OFFERED: [&str; 8] = [
    "depth.bounds",
    "depth.bounds-dynamic",
    "resolve.depth-greatest",
    "resolve.depth-least",
    "resolve.integers",
    "sample.count.16",
    "sample.count.2",
    "sample.count.8",
];
/// Those of a program that does what Vulkan does not allow.
pub const LOST: &[&str] = &["lost."];
/// All others.
pub const ALLOWED: [&[&str]; 8] =
    [DEVICE, MEMORY, DISPATCHES, IMAGES, OPERATIONS, SHARING, ORDER, DRAWING];

/// The configuration of a daemon that soon ends what hangs, however often.
pub const IMPATIENT: &str = "[adapter]\ntimeout = \"5s\"\nhang_limit = 0\n";

/// `bellhop vulkan` beside a daemon that runs, as its guest of this number, with a Vulkan loader on any machine.
pub fn beside(daemon: &Daemon, number: usize) -> Command {
    let mut command = bellhop();
    command.args(["vulkan", "--vulkan", "debian-13", "--socket-path"]).arg(daemon.socket(number));
    command
}

/// Tries the behaviours of these areas as a program of the daemon's first guest; none may be missing or wrong, and the validation layer
/// may find nothing.
#[track_caller]
pub fn assert_seen(daemon: &Daemon, areas: &[&str]) {
    assert_seen_of(daemon, "0", areas);
}

/// The same of the physical device of this number.
#[track_caller]
pub fn assert_seen_of(daemon: &Daemon, device: &str, areas: &[&str]) {
    let mut command = beside(daemon, 0);
    command.args(["--validate", "--selftest", "--", "--device", device]);
    all_passed(&run(command.args(areas)));
}

/// The same of a program that does what Vulkan does not allow.
#[track_caller]
pub fn assert_seen_of_a_bad_program(daemon: &Daemon, areas: &[&str]) {
    all_passed(&run(beside(daemon, 0).args(["--selftest", "--"]).args(areas)));
}

/// Kills a program a dozen times that tries behaviours of some areas, later each time. Its neighbour, which tries others meanwhile, and
/// the next program of its guest, which tries the last, must see all.
#[track_caller]
pub fn assert_killed_at_any_moment(neighbour: &[&str], killed: &[&str], next: &[&str]) {
    let Some(daemon) = Daemon::start_with_kernels(2, "") else { return };
    let mut beside_it = beside(&daemon, 1);
    let beside_it = beside_it.args(["--selftest", "--"]).args(neighbour);
    let beside_it = beside_it.stdout(Stdio::piped()).spawn().unwrap();
    for tenths in 1..=12 {
        let mut program = beside(&daemon, 0);
        let moment = format!("{}.{}", tenths / 10, tenths % 10);
        program.args(["--", "timeout", "--signal", "KILL", &moment]);
        program.arg(bellhop().get_program()).arg("vulkan-suite").args(killed);
        let status = program.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        // Some end before.
        assert!(matches!(status.code(), Some(0 | 137)), "{status}");
    }
    assert_seen(&daemon, next);
    let output = beside_it.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stdout));
}

/// Looks at what the suite printed: it tried something, and all was seen, of drawing as far as lavapipe offers it.
#[track_caller]
pub fn all_passed(said: &str) {
    let last = said.lines().last().unwrap_or_default();
    let draws = said.lines().any(|line| line.starts_with("draw."));
    let mut left_out: Vec<_> =
        said.lines().filter(|line| line.contains(" not offered: ")).collect();
    left_out.sort_unstable();
    let left_out: Vec<_> = left_out.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(left_out, if draws { &NOT_OFFERED[..] } else { &[] }, "{said}");
    assert!(last.contains(" passed, 0 failed, ") && !last.starts_with("0 "), "{said}");
}

/// Makes an instance with flags that there are not.
const WRONG: &str = "
import ctypes
vulkan = ctypes.CDLL('libvulkan.so.1')
information = (ctypes.c_uint64 * 8)(1, 0, 0x80)
vulkan.vkCreateInstance(information, None, ctypes.byref(ctypes.c_void_p()))
";

/// Has a command that validates what its Python does run a program with an error, which must fail and be told why.
#[track_caller]
pub fn assert_told_what_is_wrong(command: &mut Command) {
    let output = command.args(["-c", WRONG]).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the validation layer found an error:"), "{said}");
    assert!(said.contains("VUID-VkInstanceCreateInfo-flags-parameter"), "{said}");
}
