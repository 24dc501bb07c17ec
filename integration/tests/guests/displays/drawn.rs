// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a guest's own kernels draw on a display.

use super::ONE;
use crate::support::screens::read_png;
use crate::support::{Daemon, report, run};
use std::fs;
use std::process::{Child, Stdio};

/// A program that runs until the test is over.
struct Runs(Child);

impl Drop for Runs {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A frame of the animation of `bellhop present`, as the processor draws it: see `animation.wgsl`.
fn drawn(number: u32, (width, height): (u32, u32)) -> impl Iterator<Item = u32> {
    let pixel = move |at: u32| {
        let (column, row) = (at % width, at / width);
        let (x, y) = (column.abs_diff(width / 2), row.abs_diff(height / 2));
        let ring = ((x * x + y * y) / 256).wrapping_sub(number * 3) & 63;
        (column * 255 / width) << 16 | (row * 255 / height) << 8 | (64 + ring * 3)
    };
    (0..width * height).map(pixel)
}

#[test]
fn a_recording_has_the_frames_that_kernels_drew_and_none_before_it_is_done() {
    let Some(daemon) = Daemon::start_with_kernels(1, ONE) else { return };
    let short = report(&mut daemon.work(&["present", "--frames=30", "--json"]));
    assert!(short["drawn_by"].as_str().unwrap().starts_with("a kernel on "), "{short}");
    assert_eq!((&short["shown"], &short["lost"]), (&30.into(), &0.into()), "{short}");

    let mut long = daemon.work(&["present", "--frames=1000000"]);
    let _runs = Runs(long.stdout(Stdio::null()).spawn().unwrap());
    daemon.await_log("guest=2");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("recording");
    // The guest may not have committed yet, and its kernel is being compiled: the first frames are waited for.
    let record = ["screen", "record", "--frames", "8", "--out", out.to_str().unwrap()];
    run(&mut daemon.tool(&record));
    let times = fs::read_to_string(out.join("frames.csv")).unwrap();
    let mut last = None;
    for line in times.lines().skip(1) {
        let fields: Vec<_> = line.split(',').collect();
        let (size, pixels) = read_png(&out.join(fields[0]));
        // A source is black until its first flip.
        if fields[1] == "0" {
            assert!(pixels.iter().all(|pixel| *pixel == 0));
            continue;
        }
        // A frame that takes longer to compose than the next flip is torn: from this row on it is of that flip.
        let above = fields[4].parse::<usize>().unwrap() * size.0 as usize;
        let pixels = pixels.get(above..).unwrap();
        assert!(!pixels.is_empty(), "{line}");
        // Rings repeat after 64 frames.
        let first = last.map_or(0, |last| last + 1);
        let is_of = |number: &u32| drawn(*number, size).skip(above).eq(pixels.iter().copied());
        let number = (first..first + 64).find(is_of);
        assert!(number.is_some(), "{line} is no frame of the animation");
        last = number;
    }
    assert!(last.is_some(), "{times}");
}
