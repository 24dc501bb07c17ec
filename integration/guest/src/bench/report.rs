// SPDX-License-Identifier: MIT OR Apache-2.0

//! The results: figures and ratios by name.

use super::headlines::{Aim, HEADLINES, Headline};
use crate::machine::{Disturbances, Machine};
use crate::output::wrapped;
use crate::units::{byte_rate, rate, time};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// Figures and their ratios, of several repetitions.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    figures: Series,
    ratios: Series,
    absent: BTreeMap<String, String>,
}

/// Values by name, in the order in which the first of each was measured.
type Series = Vec<(String, Vec<f64>)>;

/// What the command line asked for.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Configuration {
    /// The suites that were measured.
    pub suites: Vec<String>,
    /// Submissions of each kind, in all repetitions together.
    pub samples: u64,
    /// The number of repetitions.
    pub repetitions: u64,
    /// Where shared memory is.
    pub placement: String,
    /// How the guest reaches the device, and the processors of both.
    pub place: String,
    /// The daemon's configuration by suite, TOML, beyond its defaults. Null if this program did not start
    /// the daemon.
    pub daemon: Option<BTreeMap<String, String>>,
}

/// The medians, and the spread of the repetitions.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// What the command line asked for.
    pub configuration: Configuration,
    /// What disturbed the measurement.
    pub disturbances: Disturbances,
    /// Figures by name, which ends in the unit. Null if a figure could not be measured.
    pub figures: BTreeMap<String, Option<f64>>,
    /// Ratios by name: one figure over another of one repetition. Null if a figure could not be measured.
    pub ratios: BTreeMap<String, Option<f64>>,
    /// Why each null is null.
    pub absent: BTreeMap<String, String>,
    /// The least and the greatest value of each that was measured more than once.
    pub spread: BTreeMap<String, [f64; 2]>,
    /// The names, in the order in which they are printed.
    #[serde(skip)]
    order: Vec<String>,
}

fn push(series: &mut Series, name: String, value: f64) {
    match series.iter_mut().find(|(known, _)| *known == name) {
        Some((_, values)) => values.push(value),
        None => series.push((name, vec![value])),
    }
}

impl Measured {
    /// Adds a value of a figure.
    pub fn figure(&mut self, name: impl Into<String>, value: f64) {
        push(&mut self.figures, name.into(), value);
    }

    /// Adds a value of a ratio.
    pub fn ratio(&mut self, name: impl Into<String>, over: f64, under: f64) {
        push(&mut self.ratios, name.into(), over / under);
    }

    /// Notes that a figure or ratio could not be measured.
    pub fn absent(&mut self, name: impl Into<String>, why: impl Into<String>) {
        self.absent.insert(name.into(), why.into());
    }

    /// The medians.
    #[must_use]
    pub fn report(self, configuration: Configuration, disturbances: Disturbances) -> Report {
        let Self { figures, ratios, mut absent } = self;
        let measured = |name: &str| figures.iter().chain(&ratios).any(|(known, _)| known == name);
        for Headline { name, suite, .. } in HEADLINES.iter().filter(|it| !measured(it.name)) {
            let suite = suite.name();
            let why = if configuration.suites.contains(&suite) {
                "only the host can measure it: run bellhop bench"
            } else {
                "its suite was not measured"
            };
            absent.entry((*name).to_owned()).or_insert_with(|| format!("{why} ({suite})"));
        }
        absent.retain(|name, _| !measured(name));
        let order = figures.iter().chain(&ratios).map(|(name, _)| name.clone()).collect();
        let mut spread = BTreeMap::new();
        let mut medians = |all: Series| -> BTreeMap<String, Option<f64>> {
            let median = |(name, mut values): (String, Vec<f64>)| {
                values.sort_by(f64::total_cmp);
                if let [least, .., greatest] = values[..] {
                    spread.insert(name.clone(), [least, greatest]);
                }
                (name, Some(values[values.len() / 2]))
            };
            all.into_iter().map(median).collect()
        };
        let (mut figures, mut ratios) = (medians(figures), medians(ratios));
        for name in absent.keys() {
            let of_its_kind = if is_ratio(name) { &mut ratios } else { &mut figures };
            of_its_kind.insert(name.clone(), None);
        }
        let machine = Machine::find();
        Report { machine, configuration, disturbances, figures, ratios, absent, spread, order }
    }
}

fn is_ratio(name: &str) -> bool {
    name.contains("_over_") || name == "neighbour_share_beside_hostile_guest"
}

/// Whether the name is that of a share of processor time.
fn is_fraction(name: &str) -> bool {
    name.contains("fraction")
}

/// A value with its unit, by which its name ends, and with significant digits only.
fn shown(name: &str, value: f64) -> String {
    match name {
        _ if is_ratio(name) => number(value),
        _ if name.contains("_ns_p") || name.ends_with("_ns") => time(value),
        _ if name.ends_with("bytes_per_second") => byte_rate(value),
        _ if name.contains("per_second") => rate(value),
        _ if is_fraction(name) => format!("{:.2} %", 100.0 * value),
        _ => number(value),
    }
}

fn number(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => 0,
        small if small < 0.1 => 4,
        small if small < 100.0 => 2,
        _ => 0,
    };
    format!("{value:.digits$}")
}

/// A name without its unit, which the value shows.
fn label(name: &str) -> String {
    let units = ["_bytes_per_second", "_submissions_per_second", "_per_second", "_ns"];
    let name = units.iter().find_map(|unit| name.strip_suffix(unit)).unwrap_or(name);
    name.replace("_ns_", "_").replace('_', " ")
}

/// Columns of a name; a longer one has a line of its own.
const NAME: usize = 38;
/// Columns of the longest bar.
const BAR: f64 = 26.0;
/// Columns of a bar's name.
const BAR_NAME: usize = 38;
/// Where the scale of round trips begins, in nanoseconds.
const SHORTEST: f64 = 10.0;

impl Report {
    fn value(&self, name: &str) -> Option<f64> {
        *self.figures.get(name).or_else(|| self.ratios.get(name))?
    }

    /// A row with a median and the spread of the repetitions.
    fn row(&self, mark: char, name: &str, aim: &str) -> String {
        let label = label(name);
        let mut row = format!("{mark} {label:<NAME$}");
        if label.chars().count() > NAME {
            row += &format!("\n  {:NAME$}", "");
        }
        let value = self.value(name).map_or_else(|| "-".to_owned(), |value| shown(name, value));
        row += &format!("{value:>10}");
        let spread = self.spread.get(name);
        let spread =
            spread.map_or([String::new(), String::new()], |ends| ends.map(|end| shown(name, end)));
        row += &format!("{:>10}{:>10}{aim:>10}", spread[0], spread[1]);
        row.trim_end().to_owned()
    }

    /// The headlines, and whether each meets its goal.
    fn headlines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let measured = HEADLINES.iter().filter(|headline| self.value(headline.name).is_some());
        for (place, Headline { name, aim, .. }) in measured.enumerate() {
            if place == 0 {
                writeln!(
                    f,
                    "  {:<NAME$}{:>10}{:>10}{:>10}{:>10}",
                    "key figures", "median", "least", "most", "aim"
                )?;
            }
            let text = match aim {
                Aim::AtMost(most) => format!("≤ {}", shown(name, *most)),
                Aim::AtLeast(least) => format!("≥ {}", shown(name, *least)),
                Aim::None => String::new(),
            };
            let is_missed = self.value(name).and_then(|value| aim.is_met(value)) == Some(false);
            writeln!(f, "{}", self.row(if is_missed { '!' } else { ' ' }, name, &text))?;
        }
        Ok(())
    }

    /// The medians of round trips as bars on a logarithmic scale.
    fn plot(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let medians = || {
            let of_round_trips = self.order.iter().filter(|name| name.ends_with("_ns_p50"));
            of_round_trips.filter_map(|name| Some((name, self.value(name)?)))
        };
        let longest = medians().map(|(_, time)| time).fold(SHORTEST * 10.0, f64::max);
        for (index, (name, median)) in medians().enumerate() {
            if index == 0 {
                writeln!(f, "\nmedians of times, logarithmic")?;
            }
            let share = (median / SHORTEST).max(1.0).ln() / (longest / SHORTEST).ln();
            let bar = "█".repeat((share * BAR).ceil() as usize);
            let name = label(name.trim_end_matches("_p50"));
            writeln!(f, "  {name:<BAR_NAME$} {bar} {}", time(median))?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { version, processor, kernel, governor, .. } = &self.machine;
        let known = |fact: &Option<String>| fact.clone().unwrap_or_else(|| "unknown".into());
        f.write_str(&wrapped("", &format!("bellhop {version}, {}", self.configuration.place)))?;
        let machine =
            format!("{}, kernel {}, governor {}", known(processor), known(kernel), known(governor));
        f.write_str(&wrapped("", &machine))?;
        f.write_str(&wrapped("disturbed by: ", &self.disturbances.to_string()))?;
        writeln!(f)?;
        self.headlines(f)?;
        let is_headline = |name: &str| HEADLINES.iter().any(|headline| headline.name == name);
        for (place, name) in self.order.iter().filter(|name| !is_headline(name)).enumerate() {
            if place == 0 {
                let title = "all figures";
                writeln!(f, "\n  {title:<NAME$}{:>10}{:>10}{:>10}", "median", "least", "most")?;
            }
            writeln!(f, "{}", self.row(' ', name, ""))?;
        }
        let missing = self.absent.iter().filter(|(_, why)| !why.starts_with("its suite"));
        for (name, why) in missing {
            f.write_str(&wrapped("  not measured: ", &format!("{}: {why}", label(name))))?;
        }
        self.plot(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn configuration(suites: &[&str]) -> Configuration {
        let place = "guests on processor 0, engines on processor 1".to_owned();
        let suites = suites.iter().map(|suite| (*suite).to_owned()).collect();
        Configuration { suites, place, samples: 1, repetitions: 3, ..Configuration::default() }
    }

    #[test]
    fn a_report_has_the_median_of_all_repetitions_and_how_far_they_are_apart() {
        let mut measured = Measured::default();
        for time in [30.0, 10.0, 20.0] {
            measured.figure("rtt_ns_p50", time);
            measured.ratio("rtt_over_floor", time, 10.0);
        }
        measured.figure("once", 7.0);
        let report = measured.report(configuration(&[]), Disturbances::default());
        assert_eq!(report.figures["rtt_ns_p50"], Some(20.0));
        assert_eq!(report.ratios["rtt_over_floor"], Some(2.0));
        assert_eq!(report.spread["rtt_ns_p50"], [10.0, 30.0]);
        assert_eq!((report.figures["once"], report.spread.get("once")), (Some(7.0), None));
        assert!(report.to_string().contains("█"));
    }

    #[test]
    fn what_cannot_be_had_is_null_and_has_a_reason() {
        let mut measured = Measured::default();
        measured.figure("doorbell_rtt_ns_p50", 310.0);
        measured.absent("io_uring_sqpoll_nop_ns_p50", "the kernel has no io_uring");
        measured.absent("doorbell_rtt_over_io_uring_sqpoll_nop", "the kernel has no io_uring");
        // Another repetition could not measure it.
        measured.absent("doorbell_rtt_ns_p50", "no");
        let report = measured.report(configuration(&["round-trip"]), Disturbances::default());
        let json: Value = serde_json::to_value(&report).unwrap();
        assert_eq!(json["figures"]["doorbell_rtt_ns_p50"], 310.0);
        assert_eq!(json["figures"]["io_uring_sqpoll_nop_ns_p50"], Value::Null);
        assert_eq!(json["absent"]["io_uring_sqpoll_nop_ns_p50"], "the kernel has no io_uring");
        let ratio = "doorbell_rtt_over_io_uring_sqpoll_nop";
        assert!(json["ratios"].get(ratio).is_some_and(Value::is_null), "{json}");
        // Headlines of suites that did not run, too.
        assert_eq!(json["figures"]["idle_wakeups_per_second"], Value::Null);
        let why = json["absent"]["idle_wakeups_per_second"].as_str().unwrap();
        assert_eq!(why, "its suite was not measured (idle)");
        let nulls = |kind: &str| -> Vec<String> {
            let all = json[kind].as_object().unwrap().iter();
            all.filter(|(_, value)| value.is_null()).map(|(name, _)| name.clone()).collect()
        };
        for name in [nulls("figures"), nulls("ratios")].concat() {
            assert!(json["absent"][&name].is_string(), "{name} is null without a reason");
        }
        for key in ["version", "commit", "processor", "kernel", "governor", "time"] {
            assert!(json["machine"].get(key).is_some(), "{key}");
        }
        assert_eq!(json["configuration"]["repetitions"], 3);
        assert!(report.to_string().contains("the kernel has no io_uring"), "{report}");
    }

    #[test]
    fn what_says_most_comes_first_with_its_aim_and_whether_it_is_missed() {
        let mut measured = Measured::default();
        measured.figure("minimal_path_rtt_ns_p50", 191.0);
        measured.ratio("doorbell_rtt_over_minimal_path", 310.0, 191.0);
        measured.figure("submissions_per_second_one_engine", 6.6e6);
        measured.ratio("doorbell_rtt_over_kernel_mode_path", 310.0, 90_000.0);
        let report = measured.report(configuration(&["round-trip"]), Disturbances::default());
        let text = report.to_string();
        let line = |words: &str| {
            let found = text.lines().enumerate().find(|(_, line)| line.contains(words));
            found.unwrap_or_else(|| panic!("no {words:?} in\n{text}"))
        };
        let (first, kernel_mode) = line("doorbell rtt over kernel mode path");
        let (second, minimal) = line("doorbell rtt over minimal path");
        let (third, one_engine) = line("submissions per second one engine");
        let (figure, _) = line("  minimal path rtt p50");
        assert!(first < second && second < third && third < figure, "{text}");
        assert!(kernel_mode.starts_with("  ") && kernel_mode.ends_with("≤ 0.0200"), "{text}");
        assert!(minimal.starts_with("! ") && minimal.contains("1.62"), "{text}");
        assert!(one_engine.contains("6.60 M/s") && one_engine.ends_with("20.0 M/s"), "{text}");
    }

    #[test]
    fn no_line_is_wider_than_a_terminal() {
        let mut measured = Measured::default();
        for repetition in [1.0, 1e3] {
            // No process uses more than all of these processors.
            let value =
                |name: &str, value: f64| if is_fraction(name) { 256.0 } else { value * repetition };
            for Headline { name, .. } in HEADLINES {
                measured.figure(name, value(name, 12.345_678));
            }
            for name in [
                "neighbour_beside_hostile_guest_blocked_waits_submissions_per_second",
                "victimise_connect_and_submit_ns_p50",
                "eventfd_wake_after_16700_us_ns_p50",
                "copy_scattered_bytes_per_second",
                "daemon_cpu_fraction_gap_16700_us",
            ] {
                measured.figure(name, value(name, 87_654_321.0));
            }
        }
        measured.absent("io_uring_sqpoll_nop_ns_p50", "word ".repeat(30));
        let report = measured.report(configuration(&[]), Disturbances::default());
        for line in report.to_string().lines() {
            assert!(line.chars().count() <= crate::output::WIDTH, "{line:?}");
        }
    }
}
