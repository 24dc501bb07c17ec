// SPDX-License-Identifier: MIT OR Apache-2.0

//! EDIDs of monitors, checked by a program that knows the standards.

use crate::support::{is_here, text};
use bellhop_device::monitor::{Description, Mode};
use bellhop_protocol::control::display::ConnectorKind;
use std::process::Command;
use tempfile::NamedTempFile;

struct Case(ConnectorKind, &'static [&'static str], u32);

const CASES: [Case; 6] = [
    Case(ConnectorKind::VIRTUAL, &["1920x1080@60"], 0),
    Case(
        ConnectorKind::VIRTUAL,
        &[
            "2560x1440@59.94",
            "1920x1080@60",
            "1920x1080@59.94",
            "1280x720@60",
            "1024x768@60",
            "1600x900@75",
            "1920x1200@60",
            "800x600@60",
        ],
        0,
    ),
    Case(ConnectorKind::HDMI, &["3840x2160@60", "1920x1080@60", "1280x720@50"], 0),
    Case(
        ConnectorKind::DISPLAYPORT,
        &["2560x1440@240", "2560x1440@60", "1920x1080@240", "3840x2160@120"],
        48,
    ),
    Case(ConnectorKind::DISPLAYPORT, &["3840x2160@23.976"], 0),
    Case(ConnectorKind::VIRTUAL, &["1920x1080@500"], 0),
];

#[test]
fn edid_decode_finds_no_fault_with_our_edids() {
    if !is_here("edid-decode", "EDIDs are not checked against the standards") {
        return;
    }
    for Case(connector, modes, variable_refresh) in CASES {
        let modes: Vec<_> = modes.iter().map(|mode| Mode::parse(mode).unwrap()).collect();
        let size_mm = (598, 336);
        let name = "VIRTUAL-1".to_owned();
        let description = Description { name, connector, modes, size_mm, variable_refresh };
        let file = NamedTempFile::new().unwrap();
        std::fs::write(file.path(), description.make().unwrap().edid).unwrap();
        let output = Command::new("edid-decode").arg("--check").arg(file.path()).output().unwrap();
        let said = text(&output.stdout);
        let first = &description.modes[0];
        assert!(said.contains("EDID conformity: PASS"), "{description:?}\n{said}");
        assert!(said.contains(&format!("{}x{}", first.width, first.height)), "{said}");
    }
}
