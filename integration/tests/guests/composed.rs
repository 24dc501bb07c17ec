// SPDX-License-Identifier: MIT OR Apache-2.0

//! Vulkan programs behind a broker that show on the guest's display: alone, and on monitors that a compositor of another user has.

use crate::displays::captured;
use crate::support::brokers::{Brokered, USERS};
use crate::support::vulkan::{all_passed, beside};
use crate::support::{Daemon, bellhop, text};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use tempfile::TempDir;

const DISPLAY: &str =
    "[[adapter.displays]]\nname = \"left\"\nmodes = [\"800x600@60\", \"640x480@60\"]\n";
/// The monitor's preferred mode, and its smallest.
const WHOLE: (u32, u32) = (800, 600);
const SMALL: (u32, u32) = (640, 480);
/// What the suite's programs show at last, in either mode, and what the compositor shows where no window is.
const SHOWN: u32 = 0x0033_6699;
const SHOWN_SMALL: u32 = 0x0099_6633;
const GROUND: u32 = 0x0020_3040;
/// Frames that each of them shows.
const FRAMES: u64 = 420;
/// The behaviour that covers a monitor, and the one in its smallest mode.
const COVERING: &str = "display.flips";
const SMALLEST: &str = "display.smallest";

/// A compositor of a user without privileges, killed when dropped.
struct Compositor {
    process: Child,
    folder: TempDir,
    said: Receiver<String>,
}

impl Compositor {
    fn start(broker: &Brokered, flips: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
        let mut command = broker.work_of(USERS[0], &["compositor", "--mode", "666"]);
        command.args(["--flips", flips, "--listen"]).arg(folder.path().join("compositor.sock"));
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let (says, said) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                eprintln!("{line}");
                if says.send(line).is_err() {
                    break;
                }
            }
        });
        let first = said.recv().unwrap();
        assert!(first.contains("windows may connect"), "{first}");
        Self { process, folder, said }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("compositor.sock")
    }

    /// What it says of the next window that closes: pictures composed, shown by DirectFlip, by IndependentFlip, and bytes copied.
    fn next_counts(&self) -> [u64; 4] {
        let line = self.said.recv().unwrap();
        let counts = line.rsplit(": ").next().unwrap();
        let words = counts.split(", ").filter_map(|part| part.split(' ').next()?.parse().ok());
        words.collect::<Vec<_>>().try_into().unwrap_or_else(|_| panic!("{line}"))
    }
}

impl Drop for Compositor {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The suite's behaviour of a Vulkan program behind a broker.
fn suite(daemon: &Daemon, broker: &Brokered, compositor: Option<&Path>, behaviour: &str) -> Child {
    let mut command: Command = beside(daemon, 0);
    command.args(["--validate", "--", "env", "-u", "BELLHOP_SOCKET"]);
    command.arg(format!("BELLHOP_BROKER={}", broker.socket().display()));
    command.args(compositor.map(|at| format!("BELLHOP_COMPOSITOR={}", at.display())));
    command.arg(bellhop().get_program()).args(["vulkan-suite", behaviour]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Looks at the monitor until it shows this, or the program has ended.
fn is_seen(
    daemon: &Daemon,
    program: &mut Child,
    is_it: impl Fn((u32, u32), &[u32]) -> bool,
) -> bool {
    let folder = tempfile::tempdir().unwrap();
    while program.try_wait().unwrap().is_none() {
        let (size, pixels) = captured(daemon, "left", folder.path());
        if is_it(size, &pixels) {
            return true;
        }
    }
    false
}

#[track_caller]
fn passes(program: Child) {
    let said = program.wait_with_output().unwrap();
    all_passed(&text(&said.stdout));
    assert!(said.status.success(), "{}", text(&said.stderr));
}

/// Whether all pixels are this.
fn is_all(pixels: &[u32], colour: u32) -> bool {
    pixels.iter().all(|pixel| *pixel == colour)
}

/// Whether a window of the smallest mode is at this place, with another colour around it.
fn is_window(pixels: &[u32], place: (u32, u32), [inside, around]: [u32; 2]) -> bool {
    (0..).zip(pixels).all(|(at, pixel)| {
        let (column, row) = (at % WHOLE.0, at / WHOLE.0);
        let is_inside = (place.0..place.0 + SMALL.0).contains(&column)
            && (place.1..place.1 + SMALL.1).contains(&row);
        *pixel == if is_inside { inside } else { around }
    })
}

#[test]
fn a_vulkan_program_behind_a_broker_has_a_monitor_to_itself_where_nobody_has_it() {
    let Some(daemon) = Daemon::start_with_kernels(1, DISPLAY) else { return };
    let broker = Brokered::start(&daemon, 0, &[]);
    let mut program = suite(&daemon, &broker, None, "display.");
    let whole = |size, pixels: &[u32]| size == WHOLE && is_all(pixels, SHOWN);
    let small = |size, pixels: &[u32]| size == SMALL && is_all(pixels, SHOWN_SMALL);
    let are_seen = is_seen(&daemon, &mut program, whole) && is_seen(&daemon, &mut program, small);
    passes(program);
    assert!(are_seen);
}

#[test]
fn a_vulkan_program_that_covers_a_compositor_s_monitor_is_shown_without_a_copy() {
    let Some(daemon) = Daemon::start_with_kernels(1, DISPLAY) else { return };
    let broker = Brokered::start(&daemon, 0, &[]);
    for flips in ["composed", "direct", "independent"] {
        let compositor = Compositor::start(&broker, flips);
        let mut program = suite(&daemon, &broker, Some(&compositor.socket()), COVERING);
        let is_shown =
            is_seen(&daemon, &mut program, |size, pixels| size == WHOLE && is_all(pixels, SHOWN));
        passes(program);
        assert!(is_shown, "{flips}");
        let bytes = u64::from(WHOLE.0) * u64::from(WHOLE.1) * 4;
        let seen = compositor.next_counts();
        match flips {
            // The ground is drawn, too, where the window opens and closes; of the window each picture is copied once.
            "composed" => assert_eq!(seen, [FRAMES, 0, 0, FRAMES * bytes]),
            "direct" => assert_eq!(seen, [0, FRAMES, 0, 0]),
            // The first one shows that it covers the monitor.
            _ => assert_eq!(seen, [0, 1, FRAMES - 1, 0]),
        }
    }
}

#[test]
fn a_window_over_a_program_that_covers_the_monitor_has_both_composed_until_it_closes() {
    let Some(daemon) = Daemon::start_with_kernels(1, DISPLAY) else { return };
    let broker = Brokered::start(&daemon, 0, &[]);
    let compositor = Compositor::start(&broker, "independent");
    let socket = compositor.socket();
    let mut alone = suite(&daemon, &broker, Some(&socket), SMALLEST);
    // In the middle.
    let place = ((WHOLE.0 - SMALL.0) / 2, (WHOLE.1 - SMALL.1) / 2);
    let is_alone = is_seen(&daemon, &mut alone, |size, pixels| {
        size == WHOLE && is_window(pixels, place, [SHOWN_SMALL, GROUND])
    });
    passes(alone);
    assert!(is_alone);
    let [composed, direct, independent, copied] = compositor.next_counts();
    assert_eq!((composed, direct, independent), (FRAMES, 0, 0));
    let bytes = u64::from(SMALL.0) * u64::from(SMALL.1) * 4;
    assert!(copied >= FRAMES * bytes && copied.is_multiple_of(bytes), "{copied}");

    let mut below = suite(&daemon, &broker, Some(&socket), COVERING);
    let covers = |size, pixels: &[u32]| size == WHOLE && is_all(pixels, SHOWN);
    assert!(is_seen(&daemon, &mut below, covers));
    let mut above = suite(&daemon, &broker, Some(&socket), SMALLEST);
    // The third window is two steps of 32 pixels beside the middle.
    let place =
        ((place.0 + 64) % (WHOLE.0 - SMALL.0 + 1), (place.1 + 64) % (WHOLE.1 - SMALL.1 + 1));
    let are_both = is_seen(&daemon, &mut above, |size, pixels| {
        size == WHOLE && is_window(pixels, place, [SHOWN_SMALL, SHOWN])
    });
    passes(below);
    passes(above);
    assert!(are_both);
    let counts = [compositor.next_counts(), compositor.next_counts()];
    let [under, over] = if counts[0][2] > 0 { counts } else { [counts[1], counts[0]] };
    let [composed, direct, independent, copied] = under;
    assert!(composed > 0 && direct > 0 && independent > 0 && copied > 0, "{under:?}");
    assert_eq!(composed + direct + independent, FRAMES, "{under:?}");
    assert_eq!(over[0], FRAMES, "{over:?}");
}
