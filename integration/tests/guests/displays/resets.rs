// SPDX-License-Identifier: MIT OR Apache-2.0

//! What is shown when power, an engine or the display itself fails.

use super::{ONE, Shows, captured, colours, next_frame};
use crate::support::stopped::{HOW, Stopped};
use crate::support::{Daemon, TIMEOUT, adapter_of, client, guest, skip};
use bellhop_guest_umd::display::{Flip, FlipOutcome, Surface};
use bellhop_integration::screen::View;
use bellhop_protocol::control::power::DevicePowerState;
use bellhop_protocol::packet::dispatch::Kernel;
use bellhop_protocol::screen::Connector;

/// What the guest shows.
fn drawn(surface: Surface) -> ((u32, u32), Vec<u32>) {
    let pixels = (0..surface.width * surface.height).map(colours).collect();
    ((surface.width, surface.height), pixels)
}

#[test]
fn a_picture_is_there_again_after_d3() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start_with(1, &format!("{ONE}[debug]\npower_control = true\n"));
    let shows = Shows::new(&daemon);
    let surface = shows.commit();
    let picture = shows.primary(surface, colours);
    shows.show(&picture);
    for _ in 0..3 {
        shows.adapter.set_device_power(DevicePowerState::D3).unwrap();
        shows.adapter.set_device_power(DevicePowerState::D0).unwrap();
        assert!(captured(&daemon, "left", folder.path()) == drawn(surface));
    }
    let next = shows.primary(surface, |at| at);
    shows.show(&next);
    shows.show(&picture);
    assert!(captured(&daemon, "left", folder.path()) == drawn(surface));
}

#[test]
fn a_picture_is_there_again_after_a_reset_of_the_adapter() {
    let folder = tempfile::tempdir().unwrap();
    let reset_soon =
        "[adapter]\ntimeout = \"200ms\"\nrecovery_timeout = \"100ms\"\nkernels = \"off\"\n";
    let configuration = format!("{reset_soon}{ONE}[debug]\ntest_kernels = true\n");
    let daemon = Daemon::start_with(2, &configuration);
    let shows = Shows::new(&daemon);
    let surface = shows.commit();
    let picture = shows.primary(surface, colours);
    shows.show(&picture);
    let before = shows.display.child_status(0).unwrap();
    let mut hangs = client(&daemon, 1);
    let at = hangs.va(0);
    hangs.commands.dispatch(Kernel::HANG_UNTIL_ADAPTER_RESET, at, at + 8, 8, 1).unwrap();
    hangs.submit().unwrap();
    daemon.await_log("the adapter was reset");
    assert!(captured(&daemon, "left", folder.path()) == drawn(surface), "the picture is not back");
    assert_eq!(shows.display.child_status(0).unwrap(), before, "no monitor was plugged");
    shows.display.set_vsync_events(0, true).unwrap();
    shows.display.wait_for_vsync(0, TIMEOUT).unwrap();
    // The reset cost the process its device, and nothing of the topology.
    let Shows { adapter, display, device } = shows;
    let again = Shows { device: adapter.create_device().unwrap(), adapter, display };
    let next = again.primary(surface, |at| at);
    again.show(&next);
    let (size, pixels) = captured(&daemon, "left", folder.path());
    assert_eq!(size, (surface.width, surface.height));
    assert!(pixels.into_iter().eq(0..surface.width * surface.height));
    drop((picture, device));
}

#[test]
fn a_display_that_stands_still_is_reset_and_its_picture_is_there_again() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start_with(2, &format!("[adapter]\ntimeout = \"400ms\"\n{ONE}"));
    let shows = Shows::new(&daemon);
    let surface = shows.commit();
    let (picture, next) = (shows.primary(surface, colours), shows.primary(surface, |at| at));
    shows.show(&picture);
    let Some(stopped) = Stopped::thread(daemon.id(), "display") else {
        return skip("threads cannot be traced here", "no display stands still", HOW);
    };
    let late = shows.display.flip(0, Flip::to(&next)).unwrap();
    daemon.await_log("a flip did not happen in time");
    // Nobody else notices.
    let neighbour = Shows::of(adapter_of(&guest(&daemon, 1)));
    let other = neighbour.commit();
    neighbour.show(&neighbour.primary(other, |_| 7));
    drop(stopped);
    let ended = shows.display.wait_for_flip(0, late, TIMEOUT).unwrap();
    assert_eq!(ended.outcome, FlipOutcome::LOST);
    let shown = || captured(&daemon, "left", folder.path());
    assert!(shown() == drawn(surface), "what was shown before is not back");
    shows.show(&next);
    assert!(shown().1.into_iter().eq(0..surface.width * surface.height));
}

/// As if each frame of a viewer took for ever: no flip is late, none is lost, and the viewer sees the last one.
#[test]
fn frames_that_take_long_to_compose_delay_no_flip() {
    let daemon = Daemon::start_with(1, &format!("[adapter]\ntimeout = \"400ms\"\n{ONE}"));
    let shows = Shows::new(&daemon);
    let surface = shows.commit();
    let pictures = [shows.primary(surface, colours), shows.primary(surface, |at| at)];
    let mut view = View::open(&daemon.control_socket(), &Connector::default()).unwrap();
    let first = next_frame(&mut view).buffer;
    shows.show(&pictures[0]);
    // The viewer holds both frames, so the thread that composes has nothing to do.
    let second = next_frame(&mut view).buffer;
    let Some(stopped) = Stopped::thread(daemon.id(), "viewers") else {
        return skip("threads cannot be traced here", "no frame takes long", HOW);
    };
    view.give_back(first).unwrap();
    view.give_back(second).unwrap();
    for turn in 0..40 {
        shows.show(&pictures[turn % 2]);
    }
    drop(stopped);
    let pixels: Vec<_> = (0..surface.width * surface.height).collect();
    loop {
        let buffer = next_frame(&mut view).buffer;
        if view.picture(buffer).unwrap().pixels == pixels {
            break;
        }
        view.give_back(buffer).unwrap();
    }
    assert!(daemon.logged().iter().all(|line| !line.contains("did not happen in time")));
}
