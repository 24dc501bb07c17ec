// SPDX-License-Identifier: MIT OR Apache-2.0

//! A recording as one file: an animated PNG, without loss.
//!
//! Source: Portable Network Graphics (PNG) Specification, third edition, section 11.3.4, animation information.

use anyhow::Context;
use bellhop_guest::pictures;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Parts of a second. Frames at the usual rates, those of television too, last a whole number of them.
const TICKS: u64 = 60_000;
const SECOND: u128 = 1_000_000_000;

/// A frame of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Still {
    /// Its PNG.
    pub file: PathBuf,
    /// Width and height.
    pub size: (u32, u32),
    /// When it was shown, in nanoseconds of any clock.
    pub time: u64,
}

/// How long frames are shown, as fractions of a second. No error adds up: each frame begins at the tick that is nearest
/// to its time, after one of more than a second at most a millisecond earlier. The last lasts as long as the one before.
fn delays(times: &[u64]) -> Vec<(u16, u16)> {
    let first = times.first().copied().unwrap_or(0);
    let tick = |time: u64| {
        let since = u128::from(time.saturating_sub(first)) * u128::from(TICKS);
        u64::try_from((since + SECOND / 2) / SECOND).unwrap_or(u64::MAX)
    };
    let mut delays = Vec::new();
    let mut written = 0;
    for next in times.iter().skip(1) {
        let left = tick(*next).saturating_sub(written);
        // The fraction is of two 16-bit numbers.
        let parts = [TICKS, 1000, 1].into_iter();
        let mut fractions = parts.map(|parts| (left / (TICKS / parts), parts));
        let fits = fractions.find(|(count, _)| *count <= u16::MAX.into());
        let (count, parts) = fits.unwrap_or((u16::MAX.into(), 1));
        written += count * (TICKS / parts);
        // Both fit.
        delays.push((count as u16, parts as u16));
    }
    if !times.is_empty() {
        delays.push(delays.last().copied().unwrap_or((1, 1)));
    }
    delays
}

/// The files of an animation: the second screen size goes to `NAME-2.EXTENSION`, and so on.
fn name(path: &Path, part: usize) -> PathBuf {
    if part == 0 {
        return path.to_owned();
    }
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{}", part + 1));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// Writes frames as an animated PNG; as another one from each on that has another size. Returns the files.
///
/// # Errors
/// If a frame cannot be read, or the file cannot be written.
pub fn write_apng(stills: &[Still], path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let parts = stills.chunk_by(|before, after| before.size == after.size).enumerate();
    let write = |(part, stills): (usize, &[Still])| {
        let file = name(path, part);
        write_part(stills, &file).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(file)
    };
    parts.map(write).collect()
}

fn write_part(stills: &[Still], path: &Path) -> anyhow::Result<()> {
    let Some(Still { size: (width, height), .. }) = stills.first() else { return Ok(()) };
    let mut file = BufWriter::new(File::create(path)?);
    let mut encoder = pictures::encoder(&mut file, [*width, *height]);
    // Played once.
    encoder.set_animated(u32::try_from(stills.len())?, 1)?;
    let mut writer = encoder.write_header()?;
    let times: Vec<_> = stills.iter().map(|still| still.time).collect();
    for (still, (count, parts)) in stills.iter().zip(delays(&times)) {
        writer.set_frame_delay(count, parts)?;
        writer.write_image_data(&read(&still.file)?)?;
    }
    writer.finish()?;
    Ok(file.flush()?)
}

/// The bytes of a frame that was written.
fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    let mut reader = png::Decoder::new(BufReader::new(File::open(file)?)).read_info()?;
    let mut bytes = vec![0; reader.output_buffer_size().context("the frame is too large")?];
    reader.next_frame(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_begin_at_their_times_and_no_error_adds_up() {
        // 60000/1001 Hz, in nanoseconds that are cut off.
        let television: Vec<u64> =
            (0..100_000).map(|frame| frame * 1_001_000_000_000 / 60_000).collect();
        assert!(delays(&television).iter().all(|delay| *delay == (1001, 60_000)));
        // Seven times 1/144 s are 2916 2/3 ticks.
        let fast: Vec<u64> = (0..8).map(|frame| frame * 1_000_000_000 / 144).collect();
        let sum: u32 = delays(&fast)[..7].iter().map(|delay| u32::from(delay.0)).sum();
        assert_eq!(sum, 2917);
        let slow = [5, 3_000_000_005, 3_000_500_005, 103_000_500_005];
        assert_eq!(delays(&slow), [(3000, 1000), (30, 60_000), (100, 1), (100, 1)]);
        assert_eq!(delays(&[7]), [(1, 1)]);
        assert_eq!(delays(&[]), []);
    }

    #[test]
    fn another_size_is_another_file() {
        let names = [0, 1, 2].map(|part| name(Path::new("/tmp/screen.apng"), part));
        let expected = ["/tmp/screen.apng", "/tmp/screen-2.apng", "/tmp/screen-3.apng"];
        assert_eq!(names, expected.map(PathBuf::from));
    }
}
