// SPDX-License-Identifier: MIT OR Apache-2.0

//! AV1 that a guest has decoded and encoded, on one thread and on two, beside dav1d on the same stream with as many.

use super::setting::Setting;
use anyhow::{Context, ensure};
use bellhop_guest::bench::{Measured, Suite};
use bellhop_guest::video::{self, Decode, Encode};
use bellhop_guest_umd::video::EncoderRate;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// The configuration: sessions of both kinds, and time for pictures that an encoder without assembly takes.
pub(super) const ONE_THREAD: &str =
    "[adapter]\nvideo_decode_nodes = 1\nvideo_encode_nodes = 1\ntimeout = \"60s\"\n";
/// The same, with two threads for a session.
pub(super) const TWO_THREADS: &str = "[adapter]\nvideo_decode_nodes = 1\n\
     video_encode_nodes = 1\nvideo_threads = 2\ntimeout = \"60s\"\n";
/// The stream's pictures: their size, and their number. Larger ones take an encoder minutes.
const SIZE: [usize; 2] = if bellhop_worker::HAS_ASSEMBLY { [640, 360] } else { [320, 180] };
const PICTURES: usize = 30;
/// Times that each decoder decodes the stream in a repetition; the fastest counts.
const TIMES: usize = 2;

/// The names of figures for a number of threads.
struct Names {
    encode: &'static str,
    decode: &'static str,
    dav1d: &'static str,
    ratio: &'static str,
}

pub(super) fn on_one_thread(
    setting: &Setting,
    suites: &[Suite],
    measured: &mut Measured,
) -> anyhow::Result<()> {
    measured
        .figure("video_codecs_with_assembly", f64::from(u8::from(bellhop_worker::HAS_ASSEMBLY)));
    measured.figure("video_rows_of_a_picture", SIZE[1] as f64);
    let names = Names {
        encode: "video_encode_pictures_per_second",
        decode: "video_decode_pictures_per_second",
        dav1d: "dav1d_pictures_per_second",
        ratio: "video_decode_over_dav1d",
    };
    run(setting, suites, (1, &names), measured)
}

pub(super) fn on_two_threads(
    setting: &Setting,
    suites: &[Suite],
    measured: &mut Measured,
) -> anyhow::Result<()> {
    let names = Names {
        encode: "video_encode_2_threads_pictures_per_second",
        decode: "video_decode_2_threads_pictures_per_second",
        dav1d: "dav1d_2_threads_pictures_per_second",
        ratio: "video_decode_2_threads_over_dav1d",
    };
    run(setting, suites, (2, &names), measured)
}

fn run(
    setting: &Setting,
    suites: &[Suite],
    (threads, names): (u32, &Names),
    measured: &mut Measured,
) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("cannot make a folder for a video")?;
    let [pictures, stream] = ["pictures.y4m", "video.ivf"].map(|name| folder.path().join(name));
    draw(&pictures).context("cannot write the pictures of a video")?;
    let (guest, placement) = (setting.guest(0)?, setting.place.policy());
    let rate = EncoderRate::Quantizer(100);
    let job = Encode { file: pictures, rate, key_frame_interval: 0, speed: 10 };
    let (report, bytes) = video::encode(guest, placement, &job)?;
    let encoded = report.nanoseconds_of_each();
    std::fs::write(&stream, bytes).context("cannot write a video")?;
    measured.figure(names.encode, per_second(&encoded[1..]));
    for _ in 0..setting.options(suites).repetitions {
        let mut decoded = 0.0_f64;
        for _ in 0..TIMES {
            let job = Decode { file: stream.clone(), png: None };
            let report = video::decode(setting.guest(0)?, placement, &job, None)?;
            let times = report.nanoseconds_of_each();
            ensure!(times.len() == PICTURES, "{} pictures came out of {PICTURES}", times.len());
            // A session's process starts with its first picture.
            decoded = decoded.max(per_second(&times[1..]));
        }
        measured.figure(names.decode, decoded);
        match dav1d(&stream, threads)? {
            Some(beside) => {
                measured.figure(names.dav1d, beside);
                measured.ratio(names.ratio, decoded, beside);
            }
            None => {
                measured.absent(names.ratio, "there is no program dav1d; install Debian's dav1d");
            }
        }
    }
    Ok(())
}

/// The rate of pictures that took so many nanoseconds each.
fn per_second(nanoseconds: &[u64]) -> f64 {
    nanoseconds.len() as f64 * 1e9 / nanoseconds.iter().sum::<u64>().max(1) as f64
}

/// The rate at which dav1d decodes the stream on so many threads, without its first picture and what comes before that.
/// `None` if this machine has no dav1d.
fn dav1d(stream: &Path, threads: u32) -> anyhow::Result<Option<f64>> {
    let mut fastest = 0.0_f64;
    for _ in 0..TIMES {
        let seconds = |pictures| seconds(stream, threads, pictures);
        let (Some(all), Some(first)) = (seconds(PICTURES)?, seconds(1)?) else {
            return Ok(None);
        };
        fastest = fastest.max((PICTURES - 1) as f64 / (all - first).max(f64::EPSILON));
    }
    Ok(Some(fastest))
}

/// How long dav1d takes for the first pictures of the stream. As a session, it has given a picture out before it takes the data
/// of the next.
fn seconds(stream: &Path, threads: u32, pictures: usize) -> anyhow::Result<Option<f64>> {
    let start = Instant::now();
    let status = Command::new("dav1d")
        .args(["--quiet", "--threads", &threads.to_string(), "--framedelay", "1"])
        .args(["--muxer", "null", "--output", "/dev/null"])
        .args(["--limit", &pictures.to_string(), "--input"])
        .arg(stream)
        .stdin(Stdio::null())
        .status();
    match status {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        status => {
            let status = status.context("cannot run dav1d")?;
            ensure!(status.success(), "dav1d cannot decode what was encoded ({status})");
            Ok(Some(start.elapsed().as_secs_f64()))
        }
    }
}

/// Writes pictures of a pattern that moves, with some noise that moves along.
fn draw(path: &Path) -> anyhow::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let [width, height] = SIZE;
    writeln!(file, "YUV4MPEG2 W{width} H{height} F25:1 C420")?;
    for number in 0..PICTURES {
        file.write_all(b"FRAME\n")?;
        for (index, [width, height]) in
            [SIZE, [width / 2, height / 2], [width / 2, height / 2]].into_iter().enumerate()
        {
            let rows = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
            let plane: Vec<u8> =
                rows.map(|(x, y)| sample(x + 3 * number, y + number, index)).collect();
            file.write_all(&plane)?;
        }
    }
    file.flush().map_err(Into::into)
}

/// A sample of the pattern: tiles with gradients in different directions, and noise.
fn sample(x: usize, y: usize, plane: usize) -> u8 {
    let tile = x / 64 * 7 + y / 48 * 5 + plane * 3;
    let gradient = (x % 64) * (tile % 3) + (y % 48) * (tile % 2 + 1) + tile % 16 * 8;
    let noise = (x.wrapping_mul(0x9E37_79B1) ^ y.wrapping_mul(0x85EB_CA77)) >> 13 & 7;
    (gradient % 220 + noise + 16) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_all_pictures_together() {
        assert_eq!(per_second(&[1_000_000, 3_000_000]), 500.0);
        assert_eq!(per_second(&[]), 0.0);
    }
}
