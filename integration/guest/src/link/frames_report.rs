// SPDX-License-Identifier: MIT OR Apache-2.0

//! What alternate-frame rendering took, beside one GPU.

use super::frames::Frames;
use crate::machine::load;
use crate::output::wrapped;
use crate::processors;
use crate::timing::median;
use crate::units;
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// All frames, drawn once.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) elapsed: Duration,
    /// How long each GPU drew.
    pub(super) busy: Vec<Duration>,
    /// Frames that found the one before them shown.
    pub(super) in_order: u32,
    /// Frames that are what the processor computes.
    pub(super) right: u32,
}

/// What all runs with as many GPUs took.
#[derive(Debug, Clone, Serialize)]
pub struct Taken {
    /// How many GPUs drew.
    pub gpus: usize,
    /// Seconds of each repetition.
    pub seconds: Vec<f64>,
    /// Their median.
    pub median_seconds: f64,
    /// Frames a second at the median.
    pub frames_per_second: f64,
    /// Of the time of all repetitions, the share for which each GPU drew.
    pub busy: Vec<f64>,
}

/// What alternate-frame rendering took, beside one GPU.
#[derive(Debug, Clone, Serialize)]
pub struct FramesReport {
    /// Pixels of a line.
    pub width: u32,
    /// Lines.
    pub height: u32,
    /// Frames of a run.
    pub frames: u32,
    /// One GPU.
    pub alone: Taken,
    /// All GPUs of the chain, in turns.
    pub in_turns: Taken,
    /// The time of all GPUs beside that of one: the ratio of the medians.
    pub ratio: f64,
    /// Frames of all runs.
    pub drawn: u32,
    /// Of these, those that found the one before them shown.
    pub in_order: u32,
    /// Of these, those whose pixels all equal the processor's.
    pub right: u32,
    /// Processors that this guest may use.
    pub processors: usize,
    /// How many programs wanted a processor in the last minute, on average, where the system says it.
    pub load: Option<f64>,
}

impl Taken {
    fn by(gpus: usize, frames: u32, runs: &[Run]) -> Self {
        let seconds: Vec<f64> = runs.iter().map(|run| run.elapsed.as_secs_f64()).collect();
        let total: f64 = seconds.iter().sum();
        let busy = |gpu: usize| {
            let busy: Duration = runs.iter().filter_map(|run| run.busy.get(gpu)).sum();
            busy.as_secs_f64() / total
        };
        let median_seconds = median(&seconds).unwrap_or(0.0);
        Self {
            gpus,
            median_seconds,
            frames_per_second: f64::from(frames) / median_seconds,
            busy: (0..gpus).map(busy).collect(),
            seconds,
        }
    }
}

impl FramesReport {
    pub(super) fn new(job: &Frames, gpus: usize, alone: Vec<Run>, in_turns: Vec<Run>) -> Self {
        let Frames { width, height, frames, .. } = *job;
        let all = || alone.iter().chain(&in_turns);
        let (drawn, in_order) =
            (all().count() as u32 * frames, all().map(|run| run.in_order).sum());
        let right = all().map(|run| run.right).sum();
        let [alone, in_turns] =
            [(1, &alone), (gpus, &in_turns)].map(|(gpus, runs)| Taken::by(gpus, frames, runs));
        Self {
            width,
            height,
            frames,
            ratio: in_turns.median_seconds / alone.median_seconds,
            alone,
            in_turns,
            drawn,
            in_order,
            right,
            processors: processors::allowed().len(),
            load: load(),
        }
    }

    /// Whether each frame came after the one before it, and is what the processor computes.
    #[must_use]
    pub fn is_right(&self) -> bool {
        (self.in_order, self.right) == (self.drawn, self.drawn)
    }
}

impl fmt::Display for FramesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { width, height, frames, alone, in_turns, ratio, drawn, in_order, right, .. } =
            self;
        let gpus = in_turns.gpus;
        writeln!(
            f,
            "{frames} frames of {width} x {height} pixels, by {gpus} GPUs in turns and by one"
        )?;
        write!(f, "  {:<12}{:>10}{:>12}", "", "time", "frames/s")?;
        for gpu in 0..gpus {
            write!(f, "{:>13}", format!("GPU {gpu} draws"))?;
        }
        writeln!(f)?;
        for (name, taken) in [("GPU 0 alone", alone), ("in turns", in_turns)] {
            let time = units::time(taken.median_seconds * 1e9);
            write!(f, "  {name:<12}{time:>10}{:>12.1}", taken.frames_per_second)?;
            for share in &taken.busy {
                write!(f, "{:>13}", format!("{:.0} %", share * 100.0))?;
            }
            writeln!(f)?;
        }
        let times = alone.seconds.len();
        writeln!(f, "  ratio {ratio:.2}: in turns beside alone, the medians of {times} runs each")?;
        if ratio * gpus as f64 > 1.2 {
            let load =
                self.load.map_or_else(String::new, |load| format!(", and a load of {load:.1}"));
            let why = format!(
                "each GPU needs a processor of the host for itself; this guest has {}{load}",
                units::counted(self.processors as u64, "processor")
            );
            f.write_str(&wrapped("  ", &why))?;
        }
        let order = match drawn - in_order {
            0 => format!("each of {drawn} found the frame before it shown: native fences kept it"),
            wrong => format!("WRONG: {wrong} of {drawn} did not find the frame before them shown"),
        };
        f.write_str(&wrapped("  order   ", &order))?;
        let pixels = match drawn - right {
            0 => format!("all {drawn} frames equal the processor's, pixel by pixel"),
            wrong => format!("{wrong} of {drawn} frames DIFFER from the processor's"),
        };
        f.write_str(&wrapped("  pixels  ", &pixels))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: Frames = Frames { width: 480, height: 270, frames: 60, repetitions: 3 };

    fn runs(gpus: u64, milliseconds: [u64; 3], right: u32) -> Vec<Run> {
        let run = |elapsed| Run {
            elapsed: Duration::from_millis(elapsed),
            busy: vec![Duration::from_millis(elapsed / 2); gpus as usize],
            in_order: 60,
            right,
        };
        milliseconds.map(run).to_vec()
    }

    #[test]
    fn the_ratio_is_that_of_the_medians() {
        let report = FramesReport::new(
            &JOB,
            2,
            runs(1, [1000, 5000, 1200], 60),
            runs(2, [600, 500, 660], 60),
        );
        assert_eq!(report.ratio, 0.5);
        assert!(report.is_right());
        let text = report.to_string();
        assert!(
            text.contains("in turns        600 ms       100.0         50 %         50 %"),
            "{text}"
        );
        assert!(text.contains("ratio 0.50") && !text.contains("a processor of the host"), "{text}");
        assert!(text.contains("all 360 frames equal the processor's"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn a_frame_that_differs_and_gpus_that_gain_nothing_are_told() {
        let report = FramesReport::new(&JOB, 2, runs(1, [1000; 3], 60), runs(2, [900; 3], 59));
        assert!(!report.is_right());
        let text = report.to_string();
        assert!(text.contains("3 of 360 frames DIFFER"), "{text}");
        assert!(text.contains("each GPU needs a processor of the host for itself"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
