// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bellhop link`: jobs for several GPUs as one adapter, as people run them; and GPUs that their operator takes away.

use crate::support::links::{MONITORS, WHEN_NEEDED, assert_frames, chain, see_detach};
use crate::support::screens::read_png;
use crate::support::{
    DISPLAYS, Daemon, LINK, TIMEOUT, adapter_of, await_that, bellhop, guest, quick, refusal,
    report, run, text,
};
use bellhop_guest_umd::Adapter;
use bellhop_guest_umd::display::{Constraint, DisplayError, Path, Refusal, Topology};
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::power::DevicePowerState;
use bellhop_protocol::status::Status;
use serde_json::json;
use std::fs;

#[test]
fn two_gpus_draw_frames_in_turns_and_all_are_right_and_in_order() {
    let (config, folder) = (chain(), tempfile::tempdir().unwrap());
    let path = folder.path().join("frames.apng");
    let mut job = bellhop();
    job.arg("link").arg("--config").arg(config.path()).args(["frames", "--json", "--frames=7"]);
    let report = report(job.args(["--size=64x36", "--repetitions=2", "--apng"]).arg(&path));
    assert_eq!(report["drawn"], 28, "{report}");
    assert_eq!((&report["right"], &report["in_order"]), (&28.into(), &28.into()), "{report}");
    assert_eq!((&report["alone"]["gpus"], &report["in_turns"]["gpus"]), (&1.into(), &2.into()));
    assert!(report["ratio"].as_f64().unwrap() > 0.0, "{report}");
    assert_eq!(report["in_turns"]["busy"].as_array().unwrap().len(), 2, "{report}");
    assert_frames(&path, 7);
}

#[test]
fn frames_of_a_chain_need_no_configuration_and_are_told_in_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sheet.png");
    let mut job = bellhop();
    job.args(["link", "frames", "--frames=3", "--size=32x18", "--repetitions=1", "--png"]);
    let said = run(job.arg(&path));
    assert!(said.contains("by 2 GPUs in turns and by one"), "{said}");
    assert!(said.contains("all 6 frames equal the processor's"), "{said}");
    // Three frames beside each other, with gaps of 4 pixels.
    let (size, _) = read_png(&path);
    assert_eq!(size, (3 * 36 + 4, 18 + 8));
}

#[test]
fn one_gpu_is_no_chain_and_the_error_says_how_to_make_one() {
    let daemon = Daemon::start(1);
    let mut job = bellhop();
    job.args(["link", "--socket-path"]).arg(daemon.socket(0)).arg("frames");
    let output = job.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("the adapter has one GPU") && said.contains("[link.NAME]"), "{said}");
}

#[test]
fn a_gpu_leaves_under_work_and_comes_back_and_nothing_else_is_lost() {
    let config = chain();
    let mut job = bellhop();
    job.arg("link").arg("--config").arg(config.path()).args(["detach", "--frames=6", "--json"]);
    let report = report(&mut job);
    let right = |phase: &str| report[phase]["right"].clone();
    assert_eq!((right("before"), right("after")), (json!([6, 6]), json!([6, 6])), "{report}");
    assert_eq!(right("away"), json!([6, null]), "{report}");
    assert_eq!(report["reason"], "GPU_REMOVED", "{report}");
    assert_eq!(report["refused"], "DEVICE_REMOVED", "{report}");
    assert!(report["redrawn"].as_u64().unwrap() > 0, "{report}");
}

/// Where bellhop did not start the daemon, another operator acts.
#[test]
fn a_person_who_takes_a_gpu_away_is_told_when() {
    let daemon = Daemon::start_with(1, LINK);
    let mut job = bellhop();
    job.args(["link", "--socket-path"]).arg(daemon.socket(0)).args(["detach", "--frames=2"]);
    see_detach(&daemon, &mut job);
}

#[test]
fn a_surface_lies_on_two_monitors_and_what_they_show_put_together_is_what_was_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let (config, path) = (folder.path().join("c.toml"), folder.path().join("wall.png"));
    fs::write(&config, MONITORS).unwrap();
    let mut job = bellhop();
    job.arg("link").arg("--config").arg(&config).args(["surface", "--bezel=30", "--frames=3"]);
    let report = report(job.arg("--json").arg("--png").arg(&path));
    assert_eq!((&report["width"], &report["height"]), (&1470.into(), &600.into()), "{report}");
    for (gpu, left) in [0, 670].into_iter().enumerate() {
        let part = &report["parts"][gpu];
        assert_eq!((&part["gpu"], &part["left"]), (&gpu.into(), &left.into()), "{report}");
        assert_eq!((&part["shown"], &part["lost"]), (&3.into(), &0.into()), "{report}");
        assert_eq!(part["wrong_pixels"], 0, "{report}");
        assert_eq!(part["captured_wrong_pixels"], 0, "{report}");
    }
    let (size, pixels) = read_png(&path);
    assert_eq!(size, (1470, 600));
    // Between the monitors nothing is seen, and below the lower one.
    let at = |x: usize, y: usize| pixels[y * 1470 + x];
    let dark = at(650, 5);
    assert!((640..670).all(|x| at(x, 300) == dark) && at(10, 590) == dark && at(700, 590) != dark);
}

#[test]
fn a_second_gpu_has_power_only_while_it_draws_what_the_first_shows() {
    let folder = tempfile::tempdir().unwrap();
    let (config, path) = (folder.path().join("c.toml"), folder.path().join("shown.png"));
    fs::write(&config, WHEN_NEEDED).unwrap();
    let mut job = bellhop();
    job.arg("link").arg("--config").arg(&config).args(["power", "--bursts=2", "--frames=2"]);
    let report = report(job.arg("--json").arg("--png").arg(&path));
    assert_eq!(report["right"], 2, "{report}");
    let states: Vec<_> =
        report["steps"].as_array().unwrap().iter().map(|step| step["draws"].clone()).collect();
    assert_eq!(states, ["D3", "D0", "D3", "D0", "D3"], "{report}");
    assert_eq!(read_png(&path).0, (640, 480));
    // Without the key there is nothing to see.
    fs::write(&config, WHEN_NEEDED.replace("power = \"when_needed\"\n", "")).unwrap();
    let mut job = bellhop();
    let output = job.arg("link").arg("--config").arg(&config).arg("power").output().unwrap();
    assert!(text(&output.stderr).contains("power = \"when_needed\""));
}

/// Takes the second GPU of a daemon's only guest away, or brings it back.
fn operate(daemon: &Daemon, what: &str) {
    run(&mut daemon.operate(&["ctl", "gpu", what, "gpu0.sock", "1"]));
}

/// Waits until the second GPU has power, or none.
fn await_power(adapter: &Adapter, state: DevicePowerState) {
    await_that("the GPU's state", || adapter.gpu_power(1).unwrap().state == state);
}

#[test]
fn the_monitor_of_a_gpu_leaves_and_comes_back_with_it() {
    let daemon = Daemon::start_with(1, &format!("{}{DISPLAYS}{LINK}", quick("", "")));
    let guest = guest(&daemon, 0);
    let adapter = adapter_of(&guest);
    let display = adapter.display().unwrap();
    // The last connector, and the source with its number.
    let child = display.children().iter().position(|child| child.gpu() == 1).unwrap() as u32;
    let both = Topology::new().path(Path::new(0, 0)).path(Path::new(child, child));
    let both = display.complete(&both).unwrap();
    let show = || {
        display.commit(&both).unwrap();
        display.set_visible(child, true).unwrap();
        await_power(&adapter, DevicePowerState::D0);
    };
    let hot_plug = || {
        let event = display.next_hot_plug(TIMEOUT).unwrap().unwrap();
        assert_eq!(event.child, child);
        assert_eq!(u32::from(event.is_connected), display.child_status(child).unwrap().connected);
        event.is_connected
    };
    show();
    operate(&daemon, "unplug");
    assert!(!hot_plug());
    // Its source is dark, so nothing needs the GPU any more.
    await_power(&adapter, DevicePowerState::D3);
    assert!(display.edid(child).is_err() && display.monitor_modes(child).is_err());
    assert_eq!(display.child_status(0).unwrap().connected, 1);
    let constraint = Constraint::NOT_CONNECTED;
    match display.check(&both) {
        Err(DisplayError::Topology(refused)) => {
            assert_eq!(refused, Refusal { constraint, path: 1, limit: 0 });
        }
        other => panic!("{other:?}"),
    }
    let error = display.commit(&both).unwrap_err().to_string();
    assert!(error.contains(&Status::DEVICE_REMOVED.to_string()), "{error}");
    let first = display.complete(&Topology::new().path(Path::new(0, 0))).unwrap();
    display.commit(&first).unwrap();

    operate(&daemon, "plug");
    assert!(hot_plug());
    assert!(!display.edid(child).unwrap().is_empty());
    show();
}

#[test]
fn a_gpu_without_power_leaves_and_comes_back_and_then_has_power_when_needed() {
    let daemon = Daemon::start_with(1, &format!("{}{LINK}", quick("", "")));
    let guest = guest(&daemon, 0);
    let adapter = adapter_of(&guest);
    let device = adapter.open_process().unwrap().create_device().unwrap();
    let node = adapter.least_used_node_of(1, EngineType::COPY).unwrap();
    await_power(&adapter, DevicePowerState::D3);
    operate(&daemon, "unplug");
    assert_eq!(refusal(device.create_context(node)), Status::DEVICE_REMOVED);
    // A refused request gives it no power.
    assert_eq!(adapter.gpu_power(1).unwrap().state, DevicePowerState::D3);
    operate(&daemon, "plug");
    let context = device.create_context(node).unwrap();
    let queue = context.create_user_mode_queue(4096).unwrap();
    await_power(&adapter, DevicePowerState::D0);
    drop((queue, context));
    await_power(&adapter, DevicePowerState::D3);
}
