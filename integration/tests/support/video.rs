// SPDX-License-Identifier: MIT OR Apache-2.0

//! Videos, and guests that decode and encode them.

use super::{assert_every_behaviour_is_seen, bellhop, conformance, outcomes, run, skip};
use bellhop_vm::{Dav1d, Sources, fetch_dav1d};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::{NamedTempFile, TempDir};

/// An adapter that decodes and encodes.
pub const VIDEO: &str = "[adapter]\nvideo_decode_nodes = 1\nvideo_encode_nodes = 1\n";

/// Sees every behaviour of video in a guest that this command starts.
#[track_caller]
pub fn see_every_behaviour(command: &mut Command) {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(VIDEO.as_bytes()).unwrap();
    command.arg("--config").arg(file.path()).args(["--", "selftest", "video.", "--json"]);
    let seen = conformance(command);
    assert_every_behaviour_is_seen(&seen, &[]);
    assert_eq!(outcomes(&seen, "passed").count(), seen["checks"].as_array().unwrap().len());
}

/// Has a guest that this command starts decode a video to stills, which equal those of a guest here.
#[track_caller]
pub fn see_stills(command: &mut Command) {
    let pictures = Pictures::new([64, 48], 3, 8);
    pictures.encode(&mut bellhop(), &[]);
    let stills = |command: &mut Command, folder: &str| {
        let folder = pictures.path(folder);
        run(command
            .args(["video", "decode"])
            .arg(pictures.path("video.ivf"))
            .arg("--png")
            .arg(&folder));
        let mut stills: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        stills.sort();
        stills.iter().map(|still| fs::read(still).unwrap()).collect::<Vec<_>>()
    };
    let mut config = NamedTempFile::new().unwrap();
    config.write_all(VIDEO.as_bytes()).unwrap();
    let inside = stills(command.arg("--config").arg(config.path()).arg("--"), "inside");
    assert_eq!(inside.len(), 3);
    assert!(inside == stills(&mut bellhop(), "here"));
}

/// The reference decoder, or `None` if it cannot be had.
pub fn reference() -> Option<Dav1d> {
    let fetched = fetch_dav1d(&Sources::default());
    fetched
        .map_err(|error| {
            let how = "let it fetch Debian's dav1d once, which needs a network";
            skip(&format!("there is no dav1d: {error:#}"), "no picture is compared with it", how);
        })
        .ok()
}

/// The AV1 streams in an AVIF file, each as IVF: the OBUs of its media data, cut at temporal delimiters, and a stream for each
/// sequence header.
pub fn streams_of_avif(file: &[u8], size: u16) -> Vec<Vec<u8>> {
    let mut rest = file;
    let data = loop {
        let length = u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
        let (found, after) = rest.split_at(length);
        if &found[4..8] == b"mdat" {
            break &found[8..];
        }
        rest = after;
    };
    let (mut streams, mut at): (Vec<Vec<Vec<u8>>>, usize) = (Vec::new(), 0);
    let mut delimiter = Vec::new();
    while at < data.len() {
        // The header, and the size in LEB128.
        let (kind, start, mut length, mut shift) = (data[at] >> 3 & 15, at, 0, 0);
        at += 1 + usize::from(data[at] >> 2 & 1);
        loop {
            length |= usize::from(data[at] & 0x7F) << shift;
            shift += 7;
            at += 1;
            if data[at - 1] < 0x80 {
                break;
            }
        }
        at += length;
        let unit = &data[start..at];
        match kind {
            2 => delimiter = unit.to_vec(),
            1 => streams.push(vec![[&std::mem::take(&mut delimiter), unit].concat()]),
            _ => {
                let stream = streams.last_mut().unwrap();
                if !delimiter.is_empty() {
                    stream.push(std::mem::take(&mut delimiter));
                }
                stream.last_mut().unwrap().extend(unit);
            }
        }
    }
    let ivf = |units: Vec<Vec<u8>>| {
        let mut file = b"DKIF\0\0\x20\0AV01".to_vec();
        file.extend([size, size].into_iter().flat_map(u16::to_le_bytes));
        file.extend([25, 1, units.len() as u32, 0].into_iter().flat_map(u32::to_le_bytes));
        for (unit, time) in units.iter().zip(0_u64..) {
            file.extend((unit.len() as u32).to_le_bytes());
            file.extend(time.to_le_bytes());
            file.extend(unit);
        }
        file
    };
    streams.into_iter().map(ivf).collect()
}

/// A file of moving pictures.
pub struct Pictures {
    folder: TempDir,
}

impl Pictures {
    /// So many pictures of this size, with 8 or 10 bits.
    pub fn new([width, height]: [usize; 2], count: usize, bit_depth: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let chroma = if bit_depth == 10 { "420p10" } else { "420jpeg" };
        let mut file = format!("YUV4MPEG2 W{width} H{height} F25:1 Ip C{chroma}\n").into_bytes();
        for number in 0..count {
            file.extend(b"FRAME\n");
            let mut put = |[width, height]: [usize; 2], value: &dyn Fn(usize, usize) -> usize| {
                for (x, y) in (0..height).flat_map(|y| (0..width).map(move |x| (x, y))) {
                    let sample = 20 + value(x, y) % 200;
                    if bit_depth == 10 {
                        file.extend((4 * sample as u16 + (sample % 4) as u16).to_le_bytes());
                    } else {
                        file.push(sample as u8);
                    }
                }
            };
            let half = [width.div_ceil(2), height.div_ceil(2)];
            let ball = |x: usize, y: usize| {
                let far = x.abs_diff(10 + 3 * number).pow(2) + y.abs_diff(20).pow(2);
                if far < 100 { 60 } else { 0 }
            };
            put([width, height], &|x, y| 2 * x + y + 5 * number + ball(x, y));
            put(half, &|x, _| x + 2 * number);
            put(half, &|_, y| 2 * y + number);
        }
        fs::write(folder.path().join("in.y4m"), file).unwrap();
        Self { folder }
    }

    /// A file beside the pictures.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Has the guest that this command starts encode the pictures to `video.ivf`.
    pub fn encode(&self, command: &mut Command, options: &[&str]) {
        let command = command.args(["video", "encode"]).args(options);
        run(command.arg(self.path("in.y4m")).arg(self.path("video.ivf")));
    }

    /// Has the guest that this command starts decode a video to `out.y4m`, and returns the bytes of all pictures.
    pub fn decode(&self, command: &mut Command, video: &str) -> Vec<u8> {
        let out = self.path("out.y4m");
        run(command.args(["video", "decode", "--y4m"]).arg(&out).arg(self.path(video)));
        pictures_of(&out)
    }

    /// What the reference decoder makes of a video.
    pub fn decode_by(&self, reference: &Dav1d, video: &str) -> Vec<u8> {
        let out = self.path("reference.y4m");
        run(reference.command().args(["-q", "-i"]).arg(self.path(video)).arg("-o").arg(&out));
        pictures_of(&out)
    }
}

/// The pictures of a file, behind its first line.
pub fn pictures_of(file: &Path) -> Vec<u8> {
    let mut bytes = fs::read(file).unwrap();
    let line = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    bytes.split_off(line + 1)
}
