// SPDX-License-Identifier: MIT OR Apache-2.0

//! The arguments of `link`, and what its jobs do.

use super::arguments::in_one_word;
use super::ending::Ending;
use crate::files::NewFile;
use crate::guest::Guest;
use crate::link::{self, Bursts, Cue, Detach, Film, Frames, LargeSurface};
use crate::output::{note, put, put_line};
use bellhop_guest_umd::PlacementPolicy;
use clap::{Args, Subcommand};
use serde::Serialize;
use std::ffi::OsString;
use std::fmt::{self, Display};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// What to do with a chain of GPUs.
#[derive(Debug, Clone, Args)]
#[group(skip)]
#[command(after_help = LINK_HELP)]
pub struct LinkArguments {
    #[command(subcommand)]
    pub(super) job: LinkJob,
}

const LINK_HELP: &str = "\
Several GPUs of a host are one adapter for a guest: a chain, of a master and slaves. The host makes one by its
configuration:

  [adapter]                        the master
  [adapters.second]                another GPU
  [link.pair]
  adapters = [\"\", \"second\"]        the master first

Examples:
  bellhop link frames                      two GPUs draw frames in turns: about half the time of one
  bellhop link frames --apng tunnel.apng   the frames, each with the mark of the GPU that drew it
  bellhop link surface --bezel 40          a surface on the monitors of both, drawn by one
  bellhop link power                       one has power only while it draws, the other shows
  bellhop link detach                      a GPU is taken away under work, and brought back";

/// A job for a chain of GPUs.
#[derive(Debug, Clone, Subcommand)]
pub(super) enum LinkJob {
    /// Draw frames on all GPUs in turns, beside one GPU alone
    ///
    /// Frame n is drawn by GPU n modulo the number of GPUs. A native fence, which all GPUs signal and wait for, keeps the
    /// order in which frames are shown; the guest's program sleeps meanwhile. Prints a table with the times and their
    /// ratio, and compares all frames with the processor's, pixel by pixel. Exits with 1 if one differs, or came out of
    /// order.
    Frames(FramesArguments),
    /// Draw in bursts on a GPU that has power only meanwhile, and show the frames on another
    ///
    /// The second GPU draws bursts of frames and copies them to where the first shows them. Between bursts nothing needs it,
    /// so it has no power, and the picture stays. Prints a table of when it had power. Exits with 1 if it had power without
    /// need or none with it, or if the picture differs from the processor's.
    Power(PowerArguments),
    /// Show one surface on the monitors of all GPUs, drawn by one of them
    ///
    /// GPU 0 draws a surface that is as wide as the first monitor of each GPU, side by side, and what is behind the bezels
    /// between them. The copy engine of each GPU copies its part into its own memory, and its display shows that. Native
    /// fences alone keep the order. The last frame is compared with the processor's, pixel by pixel: as it is in each
    /// GPU's memory, and, where bellhop started the daemon, as it is captured from the monitors and put together. Exits
    /// with 1 if it differs, or a frame was not shown.
    Surface(SurfaceArguments),
    /// Work on a GPU that is taken away, and work on when it is brought back
    ///
    /// Both GPUs draw frames. One is taken away under work: its queue is lost, with the reason; a queue of the other that
    /// waited for its fence is let go; the other draws what was lost, and goes on. When the GPU is brought back, both draw
    /// again. Prints a table of this. Exits with 1 if a frame differs from the processor's, or something else was lost.
    ///
    /// On a host, bellhop is the operator of the bellhopd that it starts. Elsewhere, you are: standard error says when to
    /// take the GPU away (bellhop ctl gpu unplug GUEST 1), and when to bring it back.
    Detach(DetachArguments),
}

/// Width and height, such as 480x270.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    width: u32,
    height: u32,
}

/// The most pixels of a side.
const MOST: u32 = 4096;

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let side = |text: &str| text.parse().ok().filter(|side| (1..=MOST).contains(side));
        let size = text.split_once('x');
        let size = size.and_then(|(width, height)| Some((side(width)?, side(height)?)));
        let (width, height) =
            size.ok_or_else(|| format!("write a size as 480x270, at most {MOST}x{MOST}"))?;
        Ok(Self { width, height })
    }
}

impl Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

#[derive(Debug, Clone, Args)]
pub(super) struct FramesArguments {
    /// Frames to draw
    #[arg(long, value_name = "COUNT", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    frames: u32,
    /// Their width and height in pixels
    #[arg(long, value_name = "WxH", default_value = "480x270")]
    size: Size,
    /// How often they are drawn by one GPU and by all; the table has the medians
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: u32,
    #[command(flatten)]
    pictures: FilmArguments,
    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Args)]
pub(super) struct DetachArguments {
    /// The ordinal of the GPU that is taken away
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    gpu: u8,
    /// Frames that each GPU draws before, meanwhile and afterwards
    #[arg(long, value_name = "COUNT", default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    frames: u32,
    /// How long to wait for the operator, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    patience: u64,
    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
    /// Tell a program on standard output what is to be done
    #[arg(long, hide = true)]
    cues: bool,
}

impl DetachArguments {
    fn work(&self, guest: Arc<dyn Guest>, placement: PlacementPolicy) -> anyhow::Result<Ending> {
        let Self { gpu, frames, patience, json, cues } = *self;
        let job = Detach { gpu, frames, patience: Duration::from_secs(patience) };
        let tell = |cue: Cue| -> anyhow::Result<()> {
            if cues {
                return Ok(put_line(cue)?);
            }
            note(match cue {
                Cue::Unplug => format!("GPU {gpu} works: bellhop ctl gpu unplug GUEST {gpu}"),
                Cue::Plug => format!("GPU {gpu} is away: bellhop ctl gpu plug GUEST {gpu}"),
                Cue::Look => return Ok(()),
            });
            Ok(())
        };
        let report = link::detach(guest, placement, &job, tell)?;
        Output::Nowhere.deliver(&report, json, |_| Ok(()))?;
        Ok(Ending::of(report.is_right()))
    }
}

#[derive(Debug, Clone, Args)]
pub(super) struct PowerArguments {
    /// Bursts of frames
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    bursts: u32,
    /// Frames of each
    #[arg(long, value_name = "COUNT", default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    frames: u32,
    /// Write the picture that is shown at the end into this file, as PNG; - for standard output
    #[arg(long, value_name = "FILE.png")]
    png: Option<PathBuf>,
    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
}

impl PowerArguments {
    fn work(&self, guest: Arc<dyn Guest>, placement: PlacementPolicy) -> anyhow::Result<Ending> {
        let Self { bursts, frames, ref png, json } = *self;
        let output = Output::begin(png.as_deref())?;
        let (report, shown) = link::power(guest, placement, &Bursts { bursts, frames })?;
        output.deliver(&report, json, |to| shown.write_png(to))?;
        Ok(Ending::of(report.is_right()))
    }
}

#[derive(Debug, Clone, Args)]
pub(super) struct SurfaceArguments {
    /// Pixels behind the bezels between two monitors
    #[arg(long, value_name = "PIXELS", default_value_t = 40, value_parser = clap::value_parser!(u32).range(0..=1000))]
    bezel: u32,
    /// Frames to show, one each VSYNC if they are drawn in time
    #[arg(long, value_name = "COUNT", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    frames: u32,
    /// Write the last frame with the bezels into this file, as PNG; - for standard output
    #[arg(long, value_name = "FILE.png")]
    png: Option<PathBuf>,
    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
    /// Tell a program on standard output what is to be done
    #[arg(long, hide = true)]
    cues: bool,
}

impl SurfaceArguments {
    fn work(&self, guest: Arc<dyn Guest>, placement: PlacementPolicy) -> anyhow::Result<Ending> {
        let Self { bezel, frames, ref png, json, cues } = *self;
        let output = Output::begin(png.as_deref())?;
        let look = || -> anyhow::Result<()> {
            if cues {
                put_line(Cue::Look)?;
                let mut answer = String::new();
                std::io::stdin().read_line(&mut answer)?;
            }
            Ok(())
        };
        let job = LargeSurface { bezel, frames };
        let (report, parts) = link::span(guest, placement, &job, look)?;
        output.deliver(&report, json, |to| report.wall().write_png(&parts, to))?;
        Ok(Ending::of(report.is_right()))
    }
}

/// What a job wants of its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostsPart {
    /// No more than a chain.
    Nothing,
    /// To take this GPU away, and to bring it back.
    Operator(u8),
    /// To look at the monitors, write what they show, put together, into a file, and report in JSON or as text.
    Monitors {
        /// The file; `-` for standard output.
        png: Option<PathBuf>,
        /// Whether other programs read the report.
        json: bool,
    },
}

/// Where frames go.
#[derive(Debug, Clone, Args)]
struct FilmArguments {
    /// Write the frames into this file, as an animated PNG; - for standard output
    #[arg(long, value_name = "FILE.apng", conflicts_with = "png")]
    apng: Option<PathBuf>,
    /// Write some of the frames beside each other into this file, as PNG; - for standard output
    #[arg(long, value_name = "FILE.png")]
    png: Option<PathBuf>,
}

impl FilmArguments {
    fn file(&mut self) -> Option<&mut PathBuf> {
        self.apng.as_mut().or(self.png.as_mut())
    }

    fn to_command_line(&self) -> impl Iterator<Item = OsString> {
        let files = [("--apng", &self.apng), ("--png", &self.png)];
        files.into_iter().filter_map(|(option, file)| Some(in_one_word(option, file.as_deref()?)))
    }

    fn write(&self, film: &Film, to: impl Write) -> anyhow::Result<()> {
        if self.apng.is_some() { film.write_apng(to) } else { film.write_sheet(to) }
    }
}

impl FramesArguments {
    fn job(&self) -> Frames {
        let Self { frames, size: Size { width, height }, repetitions, .. } = *self;
        Frames { width, height, frames, repetitions }
    }

    fn work(&self, guest: Arc<dyn Guest>, placement: PlacementPolicy) -> anyhow::Result<Ending> {
        let mut pictures = self.pictures.clone();
        let output = Output::begin(pictures.file().map(|path| &**path))?;
        let (report, film) = link::render(guest, placement, &self.job())?;
        output.deliver(&report, self.json, |to| self.pictures.write(&film, to))?;
        Ok(Ending::of(report.is_right()))
    }
}

/// Where a job's picture and its report go: the report to standard error if the picture takes standard output.
enum Output {
    Nowhere,
    Standard,
    File(NewFile),
}

impl Output {
    /// Begins the file, so that an unwritable one fails before there is work.
    fn begin(path: Option<&Path>) -> anyhow::Result<Self> {
        Ok(match path {
            None => Self::Nowhere,
            Some(path) if path == Path::new("-") => Self::Standard,
            Some(path) => Self::File(NewFile::create(path)?),
        })
    }

    fn deliver(
        self,
        report: &(impl Serialize + Display),
        json: bool,
        write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let text = if json { serde_json::to_string(report)? + "\n" } else { report.to_string() };
        match self {
            Self::Nowhere => put(text)?,
            Self::File(mut file) => {
                write(&mut file)?;
                file.finish()?;
                put(text)?;
            }
            Self::Standard => {
                write(&mut std::io::stdout().lock())?;
                note(text.trim_end());
            }
        }
        Ok(())
    }
}

impl LinkArguments {
    /// The file that the job makes, if it makes one.
    pub(super) fn file(&mut self) -> Option<&mut PathBuf> {
        match &mut self.job {
            LinkJob::Frames(frames) => frames.pictures.file(),
            LinkJob::Power(power) => power.png.as_mut(),
            LinkJob::Surface(surface) => surface.png.as_mut(),
            LinkJob::Detach(_) => None,
        }
    }

    /// Does the job.
    pub(super) fn work(
        &self,
        guest: Arc<dyn Guest>,
        placement: PlacementPolicy,
    ) -> anyhow::Result<Ending> {
        match &self.job {
            LinkJob::Frames(frames) => frames.work(guest, placement),
            LinkJob::Power(power) => power.work(guest, placement),
            LinkJob::Surface(surface) => surface.work(guest, placement),
            LinkJob::Detach(detach) => detach.work(guest, placement),
        }
    }

    /// What the job wants of its host, which it is to tell by cues from now on.
    pub fn with_cues(&mut self) -> HostsPart {
        match &mut self.job {
            LinkJob::Frames(_) | LinkJob::Power(_) => HostsPart::Nothing,
            LinkJob::Surface(surface) => {
                surface.cues = true;
                let json = std::mem::replace(&mut surface.json, true);
                HostsPart::Monitors { png: surface.png.take(), json }
            }
            LinkJob::Detach(detach) => {
                detach.cues = true;
                HostsPart::Operator(detach.gpu)
            }
        }
    }

    /// These arguments as a command line of `bellhop-guest`.
    #[must_use]
    pub fn to_command_line(&self) -> Vec<OsString> {
        let mut line: Vec<OsString> = vec!["link".into()];
        match &self.job {
            LinkJob::Frames(FramesArguments { frames, size, repetitions, pictures, json }) => {
                line.push("frames".into());
                line.push(format!("--frames={frames}").into());
                line.push(format!("--size={size}").into());
                line.push(format!("--repetitions={repetitions}").into());
                line.extend(pictures.to_command_line());
                line.extend(json.then(|| "--json".into()));
            }
            LinkJob::Power(PowerArguments { bursts, frames, png, json }) => {
                line.push("power".into());
                line.push(format!("--bursts={bursts}").into());
                line.push(format!("--frames={frames}").into());
                line.extend(png.as_deref().map(|file| in_one_word("--png", file)));
                line.extend(json.then(|| "--json".into()));
            }
            LinkJob::Surface(SurfaceArguments { bezel, frames, png, json, cues }) => {
                line.push("surface".into());
                line.push(format!("--bezel={bezel}").into());
                line.push(format!("--frames={frames}").into());
                line.extend(png.as_deref().map(|file| in_one_word("--png", file)));
                line.extend(json.then(|| "--json".into()));
                line.extend(cues.then(|| "--cues".into()));
            }
            LinkJob::Detach(DetachArguments { gpu, frames, patience, json, cues }) => {
                line.push("detach".into());
                line.push(format!("--gpu={gpu}").into());
                line.push(format!("--frames={frames}").into());
                line.push(format!("--patience={patience}").into());
                line.extend(json.then(|| "--json".into()));
                line.extend(cues.then(|| "--cues".into()));
            }
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_written_as_people_write_it() {
        assert_eq!("480x270".parse::<Size>().unwrap().to_string(), "480x270");
        for wrong in ["480", "480x", "0x1", "4097x1", "-1x1", "axb"] {
            assert!(wrong.parse::<Size>().unwrap_err().contains("480x270"), "{wrong}");
        }
    }
}
