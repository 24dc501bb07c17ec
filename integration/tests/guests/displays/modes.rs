// SPDX-License-Identifier: MIT OR Apache-2.0

//! Several connectors, and modes that change while a guest flips.

use super::{Over, Shows, TWO, captured, colours};
use crate::support::screens::{Serves, Watches, vncdotool};
use crate::support::{Daemon, TIMEOUT};
use bellhop_guest_umd::display::{
    Flip, FlipOutcome, Path, PresentMode, Primary, Surface, SwapChain, TargetMode, Topology,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// The size of a picture, and its pixels.
type Picture = ((u32, u32), Vec<u32>);

/// A picture of its own for each number.
fn picture(surface: Surface, number: u32) -> impl Fn(u32) -> u32 {
    move |at| colours(at + number * surface.width * surface.height)
}

fn pixels(surface: Surface, number: u32) -> Vec<u32> {
    (0..surface.width * surface.height).map(picture(surface, number)).collect()
}

/// A smaller picture in the middle of a black screen.
fn centred(of: Surface, number: u32, (width, height): (u32, u32)) -> Vec<u32> {
    let (left, top) = ((width - of.width) / 2, (height - of.height) / 2);
    let picture = picture(of, number);
    let at = |(x, y): (u32, u32)| (x.checked_sub(left), y.checked_sub(top));
    let pixel = |(x, y): (Option<u32>, Option<u32>)| match (x, y) {
        (Some(x), Some(y)) if x < of.width && y < of.height => picture(y * of.width + x),
        _ => 0,
    };
    (0..width * height).map(|place| pixel(at((place % width, place / width)))).collect()
}

#[test]
fn viewers_see_both_connectors_of_an_extended_and_of_a_cloned_picture() {
    let Some(python) = vncdotool() else { return };
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start_with(1, TWO);
    let shows = Shows::new(&daemon);
    let extended = Topology::new().path(Path::new(0, 0)).path(Path::new(1, 1));
    let extended = shows.display.complete(&extended).unwrap();
    shows.display.commit(&extended).unwrap();
    let surfaces = [0, 1].map(|path| Surface::from(extended.paths()[path].get().source_mode));
    let primaries = [0, 1]
        .map(|source| shows.primary(surfaces[source], picture(surfaces[source], source as u32)));
    for source in [0, 1] {
        shows.show_on(source as u32, &primaries[source]);
    }
    let serves = ["left", "right"].map(|name| {
        let serve = ["screen", "serve", "--connector", name, "--listen", "127.0.0.1:0"];
        Serves::start(daemon.tool(&serve), folder.path())
    });
    let mut viewers = [0, 1].map(|of| Watches::start(&python, &serves[of]));
    let mut see = |expected: [&Picture; 2]| {
        for (of, name) in ["left", "right"].into_iter().enumerate() {
            let (size, pixels) = expected[of];
            viewers[of].await_picture(&folder.path().join(format!("{name}.png")), *size, pixels);
            let captured = captured(&daemon, name, folder.path());
            assert!(captured == *expected[of], "the PNG of {name} is not what was drawn");
        }
    };
    let left = ((640, 480), pixels(surfaces[0], 0));
    see([&left, &((800, 600), pixels(surfaces[1], 1))]);
    // One picture on both, in the middle of the monitor that is larger.
    let clone = Topology::new().path(Path::new(0, 0)).path(Path::new(0, 1));
    shows.display.commit(&shows.display.complete(&clone).unwrap()).unwrap();
    // The source's mode stays, and so does what it shows.
    see([&left, &((800, 600), centred(surfaces[0], 0, (800, 600)))]);
    let next = shows.primary(surfaces[0], picture(surfaces[0], 2));
    shows.show(&next);
    see([
        &((640, 480), pixels(surfaces[0], 2)),
        &((800, 600), centred(surfaces[0], 2, (800, 600))),
    ]);
}

#[test]
fn no_frame_is_lost_after_a_change_of_mode_and_viewers_follow() {
    let Some(python) = vncdotool() else { return };
    let folder = tempfile::tempdir().unwrap();
    let modes = "[[adapter.displays]]\nname = \"left\"\nmodes = [\"640x480@60\", \"800x600@75\"]\n\
                 [[adapter.displays]]\nname = \"right\"\nmodes = [\"640x480@60\"]\n";
    let daemon = Daemon::start_with(1, modes);
    let shows = Shows::new(&daemon);
    // Another process of the guest shows something on the other connector all the while.
    let steady = Shows::of(shows.adapter.open_process().unwrap());
    let right = steady.display.complete(&Topology::new().path(Path::new(1, 1))).unwrap();
    steady.display.commit(&right).unwrap();
    let surface = right.paths()[0].get().source_mode.into();
    let mut chain = SwapChain::new(&steady.display, &steady.device, 1, surface, 3).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let steady = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let image = chain.acquire(TIMEOUT).unwrap();
                chain.present(image, PresentMode::Vsync, &[]).unwrap();
            }
            chain.finish(TIMEOUT).unwrap();
            chain.statistics().unwrap()
        });
        let _over = Over(&is_over);
        let modes = shows.display.monitor_modes(0).unwrap();
        let mode = |width: u32| *modes.iter().find(|mode| mode.width == width).unwrap();
        let mut left = Left { shows: &shows, waiting: Vec::new(), pictures: None };
        let shown = left.change(mode(640), 0);
        let serve = ["screen", "serve", "--connector", "left", "--listen", "127.0.0.1:0"];
        let serves = Serves::start(daemon.tool(&serve), folder.path());
        let mut viewer = Watches::start(&python, &serves);
        let png = folder.path().join("seen.png");
        viewer.await_picture(&png, shown.0, &shown.1);
        for round in 1..6 {
            let shown = left.change(mode([640, 800][round % 2]), 100 * round as u32);
            let captured = captured(&daemon, "left", folder.path());
            assert!(captured == shown, "the newest frame is not shown in round {round}");
            viewer.await_picture(&png, shown.0, &shown.1);
        }
        drop(_over);
        let steady = steady.join().unwrap();
        assert_eq!((steady.lost, steady.dropped), (0, 0), "{steady:?}");
        assert_eq!(steady.shown, steady.presented);
    });
}

/// A process that changes the mode of its source while flips wait.
struct Left<'a> {
    shows: &'a Shows,
    /// Flips of the mode before, which may be shown or lost.
    waiting: Vec<u64>,
    /// What is shown.
    pictures: Option<[Primary; 2]>,
}

impl Left<'_> {
    /// Changes the mode and flips ten times, of which each is shown; and leaves two more waiting. Returns what is shown
    /// then.
    fn change(&mut self, mode: TargetMode, first: u32) -> Picture {
        let Self { shows, waiting, pictures: shown } = self;
        let topology = Topology::new().path(Path::new(0, 0).target_mode(mode));
        let topology = shows.display.complete(&topology).unwrap();
        shows.display.commit(&topology).unwrap();
        for flip in waiting.drain(..) {
            let ended = shows.display.wait_for_flip(0, flip, TIMEOUT).unwrap().outcome;
            assert!([FlipOutcome::SHOWN, FlipOutcome::LOST].contains(&ended), "{ended}");
        }
        let surface = Surface::from(topology.paths()[0].get().source_mode);
        assert_eq!((surface.width, surface.height), (mode.width, mode.height));
        let pictures =
            [0, 1].map(|number| shows.primary(surface, picture(surface, first + number)));
        let flip = |turn: usize| shows.display.flip(0, Flip::to(&pictures[turn % 2])).unwrap();
        let flips: Vec<_> = (0..5).map(flip).collect();
        let mut last = 0;
        for (turn, flip) in flips.into_iter().chain((5..10).map(flip)).enumerate() {
            let ended = shows.display.wait_for_flip(0, flip, TIMEOUT).unwrap();
            assert_eq!(ended.outcome, FlipOutcome::SHOWN, "flip {turn} after a change of mode");
            assert!(ended.count > last, "flip {turn} at VSYNC {} after {last}", ended.count);
            last = ended.count;
        }
        // They show the same, so that it does not matter to a picture when they are.
        waiting.extend([9, 9].map(flip));
        *shown = Some(pictures);
        ((surface.width, surface.height), pixels(surface, first + 1))
    }
}
