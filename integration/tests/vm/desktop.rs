// SPDX-License-Identifier: MIT OR Apache-2.0

//! One VM that several users share, under the eyes of a viewer on the host.

use crate::support::printed::send_lines;
use crate::support::screens::{Serves, Watches, vncdotool};
use crate::support::stranger::{Source, Stranger};
use crate::support::{DISPLAYS, Daemon, vms};
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// The size of the monitor, and its frames a second.
const SIZE: (u32, u32) = (1280, 720);
const RATE: u32 = 60;
/// What the compositor shows where no client is, and the colours of the clients.
const DESKTOP: u32 = 0x0020_3040;
const CLIENTS: [u32; 2] = [0x00F0_0000, 0x0000_F000];
/// What a monitor shows that is no program's.
const NOTHING: [u32; STRIPS] = [0; STRIPS];
/// How often a viewer takes the screen.
const PERIOD: Duration = Duration::from_millis(500);
/// Strips of the screen.
const STRIPS: usize = 4;

/// The colour of each strip, without the shade that clients change. None if a strip is not of one colour.
fn strips(pixels: &[u32]) -> Option<[u32; STRIPS]> {
    let mut colours = [0; STRIPS];
    for (colour, strip) in colours.iter_mut().zip(pixels.chunks_exact(pixels.len() / STRIPS)) {
        let first = strip[0];
        if strip.iter().any(|pixel| *pixel != first) {
            return None;
        }
        *colour = first & 0x00F0_F0F0;
    }
    Some(colours)
}

/// Has users share a VM for some seconds, and checks what each of them got and what a viewer saw.
fn share(seconds: u32) {
    let (Some(mut vm), Some(python)) = (vms().map(|vm| vm()), vncdotool()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let stranger = Stranger::build(&Source::Path);
    let program = bellhop_integration::guest_binary::find(None).unwrap();
    let place = |name: &str, from: &Path, mode| {
        let copy = folder.path().join(name);
        std::fs::copy(from, &copy).unwrap();
        set_permissions(&copy, Permissions::from_mode(mode)).unwrap();
        copy
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vm/desktop.sh");
    let daemon = Daemon::start_with(1, DISPLAYS);
    // Each program has pinned memory of its own.
    vm.args(["--variant", "large-memory", "--broker", "--agent", "--user", "root"]);
    vm.arg("--socket-path").arg(daemon.socket(0));
    vm.arg("--guest-binary").arg(place("desktop", &script, 0o755));
    // An executable would be one of the agent's hooks.
    vm.arg("--file").arg(place("bellhop-guest", &program, 0o644));
    vm.arg("--file").arg(place("compositor", &stranger.compositor(), 0o644));
    vm.args(["--", &seconds.to_string(), &RATE.to_string()]);
    let mut vm =
        vm.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (sender, said) = channel();
    send_lines("VM", vm.stdout.take().unwrap(), sender.clone());
    // What services say, too.
    send_lines("VM", vm.stderr.take().unwrap(), sender);
    let first = said.iter().find(|line| line.contains("the desktop is there"));
    assert!(first.is_some(), "the compositor never listened");

    let serve = ["screen", "serve", "--connector", "VIRTUAL-1", "--listen", "127.0.0.1:0"];
    let serves = Serves::start(daemon.tool(&serve), folder.path());
    let mut viewer = Watches::start(&python, &serves);
    let png = folder.path().join("seen.png");
    let (mut results, mut seen) = (Vec::new(), Vec::new());
    // Until the compositor ends.
    while !results.iter().any(|line: &String| line.starts_with("compositor, ")) {
        match said.recv_timeout(PERIOD) {
            Ok(line) => results.push(line),
            Err(error) => {
                assert_eq!(error, RecvTimeoutError::Timeout, "the VM ended: {results:#?}");
                let (size, pixels) = viewer.take(&png);
                assert_eq!(size, SIZE);
                seen.push(strips(&pixels));
            }
        }
    }
    results.extend(said);
    // As often as programs come and go, and that is what the attacker has them do.
    let scattered = results.iter().find(|line| line.contains("too many pieces"));
    assert_eq!(scattered, None, "a program was refused for want of adjacent memory");
    assert!(vm.wait().unwrap().success());
    check_results(&results, seconds * RATE);
    check_pictures(&seen);
}

/// Checks what each program said at its end.
fn check_results(said: &[String], frames: u32) {
    let of = |who: &str| -> Vec<&str> {
        said.iter().filter_map(|line| line.strip_prefix(who)?.strip_prefix(", ")).collect()
    };
    assert_eq!(of("compositor")[0], format!("0: {frames} frames presented, {frames} shown"));
    for client in ["red", "green"] {
        let said = of(client);
        let pictures = said[0].strip_prefix("0: ").and_then(|said| said.strip_suffix(" pictures"));
        assert!(pictures.unwrap().parse::<u64>().unwrap() > 10, "{said:?}");
    }
    let attacked = of("attacker");
    let result = attacked.last().unwrap();
    assert!(result.starts_with("0: ") && result.contains("; 0 of "), "{attacked:?}");
    assert!(!result.starts_with("0: 0 attacks"), "it tried nothing: {attacked:?}");

    let settings = of("settings");
    let refused = "1: bellhop-guest: the program that shows something refuses: pictures of programs are shown";
    assert!(settings[0].starts_with(refused), "{settings:?}");
    assert_eq!(settings[1], "0: the power policy is saving");
    let listed = |program: &str, user: &str| {
        let is_it = |line: &&&str| {
            line.starts_with(&format!("0: {program} (process ")) && line.contains(user)
        };
        assert_eq!(settings[2..].iter().filter(is_it).count(), 1, "{settings:?}");
    };
    // The agent is one of them. The attacker comes and goes.
    for (program, user) in
        [("compositor", "1000"), ("red", "1001"), ("green", "1002"), ("bellhop-guest", "0")]
    {
        listed(program, &format!(" of user {user})"));
    }
}

/// Checks what a viewer saw between a first and a last look at nothing: the desktop, and at some time both clients in it, each in
/// a strip of its own and whole.
fn check_pictures(seen: &[Option<[u32; STRIPS]>]) {
    let is_shown = |strips: &Option<[u32; STRIPS]>| *strips != Some(NOTHING);
    let first = seen.iter().position(is_shown).unwrap();
    let last = seen.iter().rposition(is_shown).unwrap();
    let mut of_both = 0;
    for picture in &seen[first..=last] {
        let strips = picture.unwrap_or_else(|| panic!("a strip of two pictures: {seen:x?}"));
        let [first, second, rest @ ..] = strips;
        let is_known = |strip: u32| strip == DESKTOP || CLIENTS.contains(&strip);
        let is_right = is_known(first)
            && is_known(second)
            && (first != second || first == DESKTOP)
            && rest == [DESKTOP; STRIPS - 2];
        assert!(is_right, "{seen:x?}");
        of_both += usize::from(![first, second].contains(&DESKTOP));
    }
    println!("{} pictures, {of_both} of them with both clients", seen.len());
    assert!(of_both > 0, "{seen:x?}");
}

#[test]
fn users_share_a_vm_and_an_attacker_among_them_gets_nothing() {
    share(10);
}

#[test]
#[ignore = "a minute of the same"]
fn users_share_a_vm_for_a_minute() {
    share(60);
}
