// SPDX-License-Identifier: MIT OR Apache-2.0

//! Jobs for several GPUs that a guest sees as one adapter.

use super::screens::read_png;
use super::{Daemon, LINK, report, run, text};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::NamedTempFile;

/// A chain of two GPUs, whose guests have no kernels.
pub fn chain() -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    let second = "[adapters.second]\n";
    let link = LINK.replace(second, &format!("{second}kernels = \"off\"\n"));
    write!(file, "[adapter]\nkernels = \"off\"\n{link}").unwrap();
    file
}

/// All pictures of an animated PNG: red, green and blue of each pixel, which are in all `size` of them.
fn pictures(path: &Path, size: (u32, u32)) -> Vec<Vec<u8>> {
    let decoder = png::Decoder::new(BufReader::new(File::open(path).unwrap()));
    let mut reader = decoder.read_info().unwrap();
    let frames = reader.info().animation_control().unwrap().num_frames;
    let picture = |_| {
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut bytes).unwrap();
        assert_eq!((info.width, info.height), size);
        bytes
    };
    (0..frames).map(picture).collect()
}

/// Has two GPUs draw frames in turns, in a guest that this command starts, which carries the file out.
#[track_caller]
pub fn see_frames(command: &mut Command) {
    let (config, folder) = (chain(), tempfile::tempdir().unwrap());
    let path = folder.path().join("frames.apng");
    command.arg("--config").arg(config.path()).args(["--", "link", "frames", "--frames=4"]);
    command.args(["--size=64x36", "--repetitions=1", "--apng"]).arg(&path);
    let output = command.output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    // The file is the guest's standard output.
    assert!(said.contains("all 8 frames equal the processor's, pixel by pixel"), "{said}");
    assert_frames(&path, 4);
}

/// Two monitors of different sizes, each of a GPU of a chain.
pub const MONITORS: &str = "[[adapter.displays]]\nmodes = [\"640x480@60\"]\n\
    [[adapters.second.displays]]\nmodes = [\"800x600@60\"]\n\
    [link.pair]\nadapters = [\"\", \"second\"]\n";

/// A chain whose slave has power only while something needs it.
pub const WHEN_NEEDED: &str = "[[adapter.displays]]\nmodes = [\"640x480@60\"]\n[adapters.second]\n\
    [link.pair]\nadapters = [\"\", \"second\"]\npower = \"when_needed\"\n";

/// Has a GPU draw what another shows, in a guest that this command starts, which carries the last picture out.
#[track_caller]
pub fn see_power(command: &mut Command) {
    let folder = tempfile::tempdir().unwrap();
    let (config, path) = (folder.path().join("c.toml"), folder.path().join("shown.png"));
    std::fs::write(&config, WHEN_NEEDED).unwrap();
    command.arg("--config").arg(&config).args(["--", "link", "power", "--bursts=2", "--frames=2"]);
    let output = command.arg("--png").arg(&path).output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    // In the table, with and without power by turns.
    let states: Vec<_> =
        said.split_whitespace().filter(|word| ["D0", "D3"].contains(word)).collect();
    assert!(states.contains(&"D0") && states.contains(&"D3"), "{said}");
    assert_eq!(read_png(&path).0, (640, 480));
}

/// Has a GPU draw a surface that lies on the monitors of two, in a guest that this command starts.
#[track_caller]
pub fn see_surface(command: &mut Command) {
    let mut config = NamedTempFile::new().unwrap();
    config.write_all(MONITORS.as_bytes()).unwrap();
    command.arg("--config").arg(config.path()).args(["--", "link", "surface", "--frames=2"]);
    let report = report(command.args(["--bezel=30", "--json"]));
    assert_eq!((&report["width"], &report["height"]), (&1470.into(), &600.into()), "{report}");
    for part in report["parts"].as_array().unwrap() {
        assert_eq!((&part["shown"], &part["lost"]), (&2.into(), &0.into()), "{report}");
        assert_eq!(part["wrong_pixels"], 0, "{report}");
    }
}

/// Takes a GPU away and brings it back, as an operator does who is told when, from a guest of this daemon that this command
/// starts.
#[track_caller]
pub fn see_detach(daemon: &Daemon, command: &mut Command) {
    let mut job = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(job.stderr.take().unwrap()).lines().map(|line| {
        let line = line.unwrap();
        eprintln!("guest: {line}");
        line
    });
    for what in ["unplug", "plug"] {
        let wanted = format!("bellhop ctl gpu {what} GUEST 1");
        assert!(told.any(|line| line.trim_end().ends_with(&wanted)), "never: {wanted}");
        let guest = daemon.snapshot().guests[0].id.to_string();
        run(&mut daemon.operate(&["ctl", "gpu", what, &guest, "1"]));
    }
    told.for_each(drop);
    let output = job.wait_with_output().unwrap();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("GPU 1 was taken away under work, and brought back"), "{said}");
    assert!(said.contains("2 of 2           -"), "{said}");
}

/// Asserts that a file has this many frames of 64 by 36, drawn by two GPUs in turns.
#[track_caller]
pub fn assert_frames(path: &Path, count: usize) {
    let pictures = pictures(path, (64, 36));
    assert_eq!(pictures.len(), count);
    let mark = |picture: &Vec<u8>| [picture[0], picture[1], picture[2]];
    let marks: Vec<_> = pictures.iter().map(mark).collect();
    // The master's is red, the slave's blue.
    for (number, [red, _, blue]) in marks.into_iter().enumerate() {
        assert_eq!(red > blue, number % 2 == 0, "frame {number}");
    }
    // What is not the mark moves.
    let rest = |picture: &Vec<u8>| picture[64 * 3 * 18..].to_vec();
    for two in pictures.windows(2) {
        assert!(rest(&two[0]) != rest(&two[1]));
    }
}
