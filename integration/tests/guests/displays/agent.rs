// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the guest's agent makes of monitors that cannot all be shown, and of pictures for which there is no room.

use super::captured;
use crate::support::{DISPLAYS, Daemon, LINK, adapter_of, guest, quick};
use bellhop_guest::agent::{Layout, Screens, ScreensError};
use bellhop_guest_umd::agent::WantedTopology;
use bellhop_integration::screen::{list, onlooker};

/// The colour that the agent shows.
const COLOUR: u32 = 0x0020_3040;

fn mode(connector: u32, width: u32, height: u32) -> WantedTopology {
    WantedTopology::Mode { connector, width, height, refresh: 0 }
}

#[test]
fn what_cannot_be_drawn_leaves_the_monitors_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    // The picture of the small mode fits, and that of the large one does not.
    let config = "[guest]\nlocal_memory = \"4MiB\"\n[[adapter.displays]]\nname = \"left\"\n\
                  modes = [\"640x480@60\", \"1920x1080@60\"]\n";
    let daemon = Daemon::start_with(1, config);
    let mut screens = Screens::open(adapter_of(&guest(&daemon, 0)), Layout::Extend).unwrap();
    let before = screens.apply().unwrap();
    let shown = ((640, 480), vec![COLOUR; 640 * 480]);
    assert!(captured(&daemon, "left", folder.path()) == shown);
    let refused = screens.show(mode(0, 1920, 1080)).unwrap_err();
    let (size, pixels) = captured(&daemon, "left", folder.path());
    assert_eq!(size, shown.0, "it said {refused}, and the monitor has another mode");
    assert!(pixels == shown.1, "the picture went with a refusal");
    assert_eq!(screens.apply().unwrap(), before);
}

#[test]
fn a_clone_is_on_the_monitors_of_every_gpu() {
    let daemon = Daemon::start_with(1, &format!("{}{DISPLAYS}{LINK}", quick("", "")));
    let mut screens = Screens::open(adapter_of(&guest(&daemon, 0)), Layout::Single).unwrap();
    screens.apply().unwrap();
    let said = screens.show(WantedTopology::Clone).unwrap();
    let onlooker = onlooker(&daemon.control_socket(), &daemon.socket(0));
    let connectors = list(&daemon.control_socket()).unwrap().len();
    assert_eq!(connectors, 3);
    for connector in 0..connectors as u32 {
        let seen = onlooker.look(connector).unwrap();
        let seen = seen.unwrap_or_else(|| panic!("connector {connector} is dark: {said}"));
        assert!(seen.pixels.iter().all(|pixel| *pixel == COLOUR), "connector {connector}");
    }
    assert!(!said.contains("dark"), "{said}");
}

#[test]
fn where_not_all_monitors_can_be_shown_some_are_whatever_was_asked_for_before() {
    // Each needs 25 megapixels a second at least.
    let config = "[adapter]\ndisplay_megapixels = 30\n\
                  [[adapter.displays]]\nmodes = [\"640x480@60\", \"1920x1080@60\"]\n\
                  [[adapter.displays]]\nmodes = [\"640x480@60\"]\n";
    let daemon = Daemon::start_with(1, config);
    let mut screens = Screens::open(adapter_of(&guest(&daemon, 0)), Layout::Extend).unwrap();
    let dark = |connector: u32| format!("connector {connector} is dark");
    let said = screens.apply().unwrap();
    assert!(said.contains(&dark(1)) && !said.contains(&dark(0)), "{said}");
    let said = screens.show(mode(0, 640, 480)).unwrap();
    assert!(said.contains(&dark(1)), "{said}");
    // As after a monitor was plugged in.
    let again = screens.apply().unwrap();
    assert_eq!(again, said);
    let refused = screens.show(mode(0, 1920, 1080));
    assert!(matches!(refused, Err(ScreensError::NotTogether(0, _))), "{refused:?}");
    assert_eq!(screens.apply().unwrap(), said, "a refusal changed what is shown");
    let said = screens.show(mode(1, 640, 480)).unwrap();
    assert!(said.contains(&dark(0)) && !said.contains(&dark(1)), "{said}");
}
