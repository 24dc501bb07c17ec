// SPDX-License-Identifier: MIT OR Apache-2.0

//! Jobs for several GPUs that a guest sees as one adapter.

use super::{LINK, text};
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;
use std::process::Command;
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
