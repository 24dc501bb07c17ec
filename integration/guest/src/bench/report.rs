//! What was measured: figures and ratios by name.

use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// Figures, and what they are to each other, of some repetitions.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    figures: BTreeMap<String, Vec<f64>>,
    ratios: BTreeMap<String, Vec<f64>>,
}

/// The medians, and how far repetitions were apart.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// How the guest reaches the device.
    pub place: String,
    /// By name, which ends in the unit.
    pub figures: BTreeMap<String, f64>,
    /// By name: one figure over another of the same repetition.
    pub ratios: BTreeMap<String, f64>,
    /// The least and the greatest of each that was measured more than once.
    pub spread: BTreeMap<String, [f64; 2]>,
}

impl Measured {
    /// One more value of a figure.
    pub fn figure(&mut self, name: impl Into<String>, value: f64) {
        self.figures.entry(name.into()).or_default().push(value);
    }

    /// One more value of a ratio.
    pub fn ratio(&mut self, name: impl Into<String>, over: f64, under: f64) {
        self.ratios.entry(name.into()).or_default().push(over / under);
    }

    /// The medians, measured at `place`.
    #[must_use]
    pub fn report(self, place: String) -> Report {
        let mut spread = BTreeMap::new();
        let mut medians = |all: BTreeMap<String, Vec<f64>>| {
            let median = |(name, mut values): (String, Vec<f64>)| {
                values.sort_by(f64::total_cmp);
                if let [least, .., greatest] = values[..] {
                    spread.insert(name.clone(), [least, greatest]);
                }
                (name, values[values.len() / 2])
            };
            all.into_iter().map(median).collect()
        };
        let (figures, ratios) = (medians(self.figures), medians(self.ratios));
        Report { place, figures, ratios, spread }
    }
}

/// A number with as many digits as say something.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        small if small < 1.0 => 4,
        small if small < 100.0 => 2,
        _ => 0,
    };
    format!("{value:.digits$}")
}

/// Columns of the longest bar.
const WIDTH: f64 = 32.0;
/// Round trips are drawn from this on, in nanoseconds.
const SHORTEST: f64 = 10.0;

impl Report {
    /// Medians of round trips as bars, each column as many times longer as the one before.
    fn plot(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let medians = || self.figures.iter().filter(|(name, _)| name.ends_with("_ns_p50"));
        let longest = medians().map(|(_, time)| *time).fold(SHORTEST * 10.0, f64::max);
        for (index, (name, time)) in medians().enumerate() {
            if index == 0 {
                writeln!(f, "\nmedians in nanoseconds, logarithmic")?;
            }
            let share = (time / SHORTEST).max(1.0).ln() / (longest / SHORTEST).ln();
            let bar = "█".repeat((share * WIDTH).ceil() as usize);
            writeln!(f, "  {:<44} {bar} {}", name.trim_end_matches("_ns_p50"), number(*time))?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.place)?;
        writeln!(f, "  {:<52} {:>14} {:>14} {:>14}", "", "median", "least", "greatest")?;
        for (name, value) in self.figures.iter().chain(&self.ratios) {
            write!(f, "  {name:<52} {:>14}", number(*value))?;
            match self.spread.get(name) {
                Some([least, greatest]) => {
                    writeln!(f, " {:>14} {:>14}", number(*least), number(*greatest))?;
                }
                None => writeln!(f)?,
            }
        }
        self.plot(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_the_median_of_all_repetitions_and_how_far_they_are_apart() {
        let mut measured = Measured::default();
        for time in [30.0, 10.0, 20.0] {
            measured.figure("rtt_ns_p50", time);
            measured.ratio("rtt_over_floor", time, 10.0);
        }
        measured.figure("once", 7.0);
        let report = measured.report("here".to_owned());
        assert_eq!(report.figures["rtt_ns_p50"], 20.0);
        assert_eq!(report.ratios["rtt_over_floor"], 2.0);
        assert_eq!(report.spread["rtt_ns_p50"], [10.0, 30.0]);
        assert_eq!((report.figures["once"], report.spread.get("once")), (7.0, None));
        assert!(report.to_string().contains("█"));
    }
}
