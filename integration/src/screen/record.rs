// SPDX-License-Identifier: MIT OR Apache-2.0

//! A recording: a folder with a PNG for each frame, and a table of their times.

use super::{Event, Still, View, write_png};
use anyhow::{Context, bail};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The file with the times.
const TIMES: &str = "frames.csv";

/// A recording.
#[derive(Debug)]
pub struct Recording {
    folder: PathBuf,
    times: File,
    stills: Vec<Still>,
}

impl Recording {
    /// A recording in a folder, which is made if it is not there.
    ///
    /// # Errors
    /// If the folder has a recording already, or cannot be written.
    pub fn create(folder: &Path) -> anyhow::Result<Self> {
        let shown = folder.display();
        fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {shown}"))?;
        let times = File::create_new(folder.join(TIMES));
        let mut times = times
            .with_context(|| format!("{shown} has a recording already, or cannot be written"))?;
        writeln!(times, "file,flip,vsync,time_ns,torn_at")?;
        Ok(Self { folder: folder.to_owned(), times, stills: Vec::new() })
    }

    /// Records each frame until there are `frames`, or for some time. Frames that come faster than they can be written
    /// are missed; their numbers of VSYNCs tell. Returns all of them.
    ///
    /// # Errors
    /// If the daemon ends, or a file cannot be written.
    pub fn record(
        &mut self,
        view: &mut View,
        frames: Option<u64>,
        time: Option<Duration>,
    ) -> anyhow::Result<&[Still]> {
        let end = time.map(|time| Instant::now() + time);
        while frames.is_none_or(|frames| (self.stills.len() as u64) < frames) {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                break;
            }
            let Some(Event::Frame(frame)) = view.next(left)? else { continue };
            let picture = view.picture(frame.buffer)?;
            view.give_back(frame.buffer)?;
            let name = format!("frame-{:06}.png", self.stills.len() + 1);
            let file = self.folder.join(&name);
            write_png(&picture, &file)?;
            let size = (picture.width, picture.height);
            self.stills.push(Still { file, size, time: frame.time });
            let (flip, vsync, time, torn) = (frame.flip, frame.vsync, frame.time, frame.torn_at);
            writeln!(self.times, "{name},{flip},{vsync},{time},{torn}")
                .context("cannot write the times of frames")?;
        }
        if self.stills.is_empty() {
            bail!("nothing was shown; `bellhop screen list` tells where something is");
        }
        Ok(&self.stills)
    }
}
