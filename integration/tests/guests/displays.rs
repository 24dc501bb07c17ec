// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a guest shows, as people and programs beside the daemon see it.

mod agent;
mod drawn;
mod modes;
mod programs;
mod resets;
mod watched;

use crate::support::screens::{Serves, read_png, viewer, vncdotool};
use crate::support::{Daemon, TIMEOUT, adapter_of, guest, report, run};
use bellhop_guest_umd::display::{
    Display, Flip, FlipOutcome, Path, Primary, Surface, SwapChain, Topology,
};
use bellhop_guest_umd::display::{HotPlug, PresentMode};
use bellhop_guest_umd::{Adapter, Device};
use bellhop_integration::screen::{Event, Frame, View};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const ONE: &str = "[[adapter.displays]]\nname = \"left\"\nmodes = [\"640x480@60\"]\n";
const TWO: &str = "[[adapter.displays]]\nname = \"left\"\nmodes = [\"640x480@60\"]\n\
                   [[adapter.displays]]\nname = \"right\"\nmodes = [\"800x600@75\"]\n";

/// A guest's program that shows something.
struct Shows {
    adapter: Adapter,
    display: Display,
    device: Device,
}

impl Shows {
    fn new(daemon: &Daemon) -> Self {
        Self::of(adapter_of(&guest(daemon, 0)))
    }

    fn of(adapter: Adapter) -> Self {
        let (display, device) = (adapter.display().unwrap(), adapter.create_device().unwrap());
        Self { adapter, display, device }
    }

    /// Shows source 0 on connector 0, in the monitor's preferred mode.
    fn commit(&self) -> Surface {
        let topology = self.display.complete(&Topology::new().path(Path::new(0, 0))).unwrap();
        self.display.commit(&topology).unwrap();
        topology.paths()[0].get().source_mode.into()
    }

    fn primary(&self, surface: Surface, pixel: impl Fn(u32) -> u32) -> Primary {
        let primary = self.device.create_primary(surface).unwrap();
        let words = (0..surface.width * surface.height).map(pixel);
        primary.set_pixels(&words.flat_map(u32::to_le_bytes).collect::<Vec<_>>()).unwrap();
        primary
    }

    fn show(&self, primary: &Primary) {
        self.show_on(0, primary);
    }

    fn show_on(&self, source: u32, primary: &Primary) {
        let flip = self.display.flip(source, Flip::to(primary)).unwrap();
        let ended = self.display.wait_for_flip(source, flip, TIMEOUT).unwrap();
        assert_eq!(ended.outcome, FlipOutcome::SHOWN);
    }
}

/// The next frame.
fn next_frame(view: &mut View) -> Frame {
    loop {
        if let Some(Event::Frame(frame)) = view.next(Some(TIMEOUT)).unwrap() {
            return frame;
        }
    }
}

fn capture(daemon: &Daemon, png: &std::path::Path) {
    run(&mut daemon.tool(&["screen", "capture", "--png", png.to_str().unwrap()]));
}

/// What a connector of the first guest shows.
pub fn captured(
    daemon: &Daemon,
    connector: &str,
    folder: &std::path::Path,
) -> ((u32, u32), Vec<u32>) {
    let png = folder.join("captured.png");
    let guest = daemon.snapshot().guests[0].id.to_string();
    let which = ["screen", "capture", "--guest", &guest, "--connector", connector];
    run(daemon.tool(&which).arg("--png").arg(&png));
    read_png(&png)
}

/// Tells a thread that a test is over, however it ends.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A picture in which no two neighbours have one colour.
fn colours(at: u32) -> u32 {
    at.wrapping_mul(0x9E37_79B1) >> 8
}

#[test]
fn a_picture_and_an_independent_viewer_have_the_pixels_that_the_guest_drew() {
    let Some(python) = vncdotool() else { return };
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start_with(1, ONE);
    let shows = Shows::new(&daemon);
    let surface = shows.commit();
    assert_eq!((surface.width, surface.height), (640, 480));
    shows.show(&shows.primary(surface, |_| 0));
    let picture = shows.primary(surface, colours);
    shows.show(&picture);
    let drawn: Vec<_> = (0..640 * 480).map(colours).collect();
    let png = folder.path().join("captured.png");
    capture(&daemon, &png);
    assert!(read_png(&png) == ((640, 480), drawn.clone()), "the picture is not what was drawn");
    let serve = daemon.tool(&["screen", "serve", "--listen", "127.0.0.1:0"]);
    let serves = Serves::start(serve, folder.path());
    let taken = folder.path().join("taken.png");
    run(viewer(&python, &serves, "secret").args(["pause", "1", "capture"]).arg(&taken));
    assert!(read_png(&taken) == ((640, 480), drawn), "the viewer does not see what was drawn");
    // What a person types reaches the process that shows.
    run(viewer(&python, &serves, "secret").args(["type", "b"]));
    assert!(shows.display.next_input(TIMEOUT).unwrap().is_some());
}

#[test]
fn a_captured_frame_is_never_half_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start_with(1, ONE);
    let shows = Shows::new(&daemon);
    let surface = shows.commit();
    // Each frame has one colour, and the program draws on a frame as soon as it is not shown any more.
    let mut chain =
        SwapChain::new(&shows.display, &shows.device, 0, surface, 2).expect("two images");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let bytes = (surface.width * surface.height * 4) as usize;
            for frame in 0u32.. {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                let image = chain.acquire(TIMEOUT).unwrap();
                let colour = frame.wrapping_mul(0x0001_0307).to_le_bytes();
                chain.primary(&image).set_pixels(&colour.repeat(bytes / 4)).unwrap();
                chain.present(image, PresentMode::Vsync, &[]).unwrap();
            }
        });
        let _over = Over(&is_over);
        let mut seen = Vec::new();
        for number in 0..12 {
            let png = folder.path().join(format!("{number}.png"));
            capture(&daemon, &png);
            let (_, pixels) = read_png(&png);
            let first = pixels[0];
            assert!(pixels.iter().all(|pixel| *pixel == first), "half of a frame");
            seen.push(first);
        }
        seen.dedup();
        assert!(seen.len() > 1, "nothing moved");
    });
}

#[test]
fn monitors_come_and_go_while_a_guest_flips_and_no_flip_is_lost() {
    let daemon = Daemon::start_with(1, TWO);
    let shows = Shows::new(&daemon);
    let surface = shows.commit();
    let pictures = [shows.primary(surface, |_| 1), shows.primary(surface, |_| 2)];
    let turn = || pictures.iter().cycle().take(8).for_each(|picture| shows.show(picture));
    turn();
    for round in 0..3 {
        for (command, is_connected) in [("unplug", false), ("plug", true)] {
            for (child, name) in [(1, "right"), (0, "left")] {
                run(&mut daemon.operate(&["screen", command, "--connector", name]));
                let event = shows.display.next_hot_plug(TIMEOUT).unwrap().expect("an event");
                let HotPlug { child: of, is_connected: now, .. } = event;
                assert_eq!((of, now), (child, is_connected), "{command} {name} in round {round}");
                turn();
            }
        }
    }
    // The topology was committed all the while.
    let screens = report(&mut daemon.tool(&["screen", "list", "--json"]));
    assert_eq!(screens[0]["mode"]["width"], 640);
    assert_eq!(screens[0]["plugged"], true);
    drop(shows.adapter);
}
