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

/// A row of a frame of the animation of `bellhop present`, as the processor draws it: see `animation.wgsl`.
fn drawn(number: u32, row: u32, (width, height): (u32, u32)) -> impl Iterator<Item = u32> {
    let pixel = move |column: u32| {
        let (x, y) = (column.abs_diff(width / 2), row.abs_diff(height / 2));
        let ring = ((x * x + y * y) / 256).wrapping_sub(number * 3) & 63;
        (column * 255 / width) << 16 | (row * 255 / height) << 8 | (64 + ring * 3)
    };
    (0..width).map(pixel)
}

/// The first frame from this one on that has this row, of those before rings repeat.
fn frame_of(from: u32, row: u32, pixels: &[u32], size: (u32, u32)) -> Option<u32> {
    (from..from + 64).find(|number| drawn(*number, row, size).eq(pixels.iter().copied()))
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
        // A frame that takes longer to compose than the next flip is torn: from a row on, it is of a later one.
        let torn_at: u32 = fields[4].parse().unwrap();
        let mut number = None;
        for (row, pixels) in (0..).zip(pixels.chunks_exact(size.0 as usize)) {
            if row < torn_at && last.is_none() && pixels.iter().all(|pixel| *pixel == 0) {
                continue;
            }
            let from = match (number, last) {
                (Some(number), _) => number,
                // Above where it is torn, it may be of the frame that was recorded before.
                (None, Some(last)) => last + u32::from(row >= torn_at),
                (None, None) => 0,
            };
            let found = frame_of(from, row, pixels, size);
            assert!(found.is_some(), "{line}: row {row} is of no frame of the animation");
            assert!(row <= torn_at || found == number, "{line}: it is torn at row {row}");
            number = found;
        }
        assert!(number > last, "{line} is the frame before it");
        last = number;
    }
    assert!(last.is_some(), "{times}");
}
