// SPDX-License-Identifier: MIT OR Apache-2.0

//! The results: figures and ratios by name.

mod csv;
mod read;
mod text;

use super::growth::{self, Table};
use super::headlines::{HEADLINES, Headline};
use super::names::{Better, better, is_ratio};
use crate::machine::{Disturbances, Machine};
use crate::timing::{Curve, Latency, median};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Figures and their ratios, of several repetitions.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    figures: Series,
    ratios: Series,
    shapes: BTreeMap<String, Series>,
    distributions: BTreeMap<String, Vec<Curve>>,
    absent: BTreeMap<String, String>,
}

/// Values by name, in the order in which the first of each was measured.
type Series = Vec<(String, Vec<f64>)>;

/// What the command line asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// The medians, and the values of the repetitions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// [`Report::KIND`].
    kind: String,
    /// [`Report::SCHEMA`].
    schema: u32,
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
    /// The value of each repetition, of each figure and ratio that was measured.
    pub values: BTreeMap<String, Vec<f64>>,
    /// Distributions of times, each by the name of its figures: points of a share of all calls and the
    /// nanoseconds that this share took longer than, the median over repetitions.
    #[serde(default)]
    pub distributions: BTreeMap<String, Curve>,
    /// What many of something cost, and how that grows.
    #[serde(default)]
    pub scale: Vec<Table>,
    /// The shapes of each figure that is the best of several.
    pub shapes: BTreeMap<String, Shapes>,
    /// Why each null is null.
    pub absent: BTreeMap<String, String>,
    /// The least and the greatest value of each that was measured more than once.
    pub spread: BTreeMap<String, [f64; 2]>,
    /// The names of all figures and ratios, in the order of measuring.
    pub order: Vec<String>,
}

/// The shapes of which a figure is the best.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shapes {
    /// The shape that was the best in most repetitions.
    pub best: String,
    /// The median of each.
    pub medians: BTreeMap<String, f64>,
}

impl Shapes {
    fn of(shapes: &Series, better: Better) -> Option<Self> {
        let repetitions = shapes.iter().map(|(_, values)| values.len()).min()?;
        let mut wins = vec![0; shapes.len()];
        for repetition in 0..repetitions {
            let values = || shapes.iter().map(|(_, values)| values[repetition]);
            let best = values().reduce(|one, other| better.of(one, other));
            let winner = values().position(|value| Some(value) == best)?;
            wins[winner] += 1;
        }
        let most = wins.iter().max()?;
        // Among shapes with equally many wins, the one that was measured first.
        let best = wins.iter().position(|of_one| of_one == most)?;
        let medians =
            shapes.iter().filter_map(|(name, values)| Some((name.clone(), median(values)?)));
        Some(Self { best: shapes[best].0.clone(), medians: medians.collect() })
    }
}

/// The median time of each share that all curves have.
fn median_curve(curves: &[Curve]) -> Curve {
    let points = curves.iter().map(Vec::len).min().unwrap_or(0);
    let point = |at: usize| {
        let times: Vec<_> = curves.iter().map(|curve| curve[at].1).collect();
        Some((curves.first()?[at].0, median(&times)?))
    };
    (0..points).filter_map(point).collect()
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

    /// Records the shapes that were measured for a figure, each with its name and value. Returns the best value,
    /// which becomes the figure's; `None` if there is no shape.
    pub fn best_shape(
        &mut self,
        name: &str,
        shapes: impl IntoIterator<Item = (String, f64)>,
    ) -> Option<f64> {
        let direction = better(name)?;
        let series = self.shapes.entry(name.to_owned()).or_default();
        let mut best = None;
        for (shape, value) in shapes {
            push(series, shape, value);
            best = Some(best.map_or(value, |best| direction.of(best, value)));
        }
        best
    }

    /// Adds a value of a figure of `count` of something.
    pub fn at_scale(&mut self, subject: &str, count: usize, cost: &str, value: f64) {
        self.figure(growth::figure(subject, count, cost), value);
    }

    /// Adds the median and the 99th percentile of times at `count` of something. The cost's name ends in `_ns`.
    pub fn times_at_scale(&mut self, subject: &str, count: usize, cost: &str, times: &Latency) {
        self.at_scale(subject, count, &format!("{cost}_p50"), times.p50 as f64);
        self.at_scale(subject, count, &format!("{cost}_p99"), times.p99 as f64);
    }

    /// Adds the distribution of one repetition's times.
    pub(super) fn distribution(&mut self, name: &str, times: &Latency) {
        self.distributions.entry(name.to_owned()).or_default().push(times.curve.clone());
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
        let Self { mut figures, ratios, shapes, distributions, mut absent } = self;
        let scale = Table::all(&figures.iter().cloned().collect());
        if !scale.is_empty() {
            let exponents = scale.iter().flat_map(Table::exponents);
            figures.extend(exponents.map(|(name, exponent)| (name, vec![exponent])));
            let above = scale.iter().map(Table::above).sum::<usize>();
            figures.push((growth::ABOVE.to_owned(), vec![above as f64]));
        }
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
        let best = |(name, shapes): (String, Series)| {
            let of_name = Shapes::of(&shapes, better(&name)?)?;
            Some((name, of_name))
        };
        let shapes = shapes.into_iter().filter_map(best).collect();
        let of_curves = |(name, curves): (String, Vec<Curve>)| (name, median_curve(&curves));
        let distributions = distributions.into_iter().map(of_curves).collect();
        let values: BTreeMap<_, _> = figures.iter().chain(&ratios).cloned().collect();
        let mut spread = BTreeMap::new();
        for (name, values) in &values {
            let ends = |fold: fn(f64, f64) -> f64| values.iter().copied().reduce(fold);
            if let (Some(least), Some(greatest), 2..) =
                (ends(f64::min), ends(f64::max), values.len())
            {
                spread.insert(name.clone(), [least, greatest]);
            }
        }
        let medians = |all: Series| -> BTreeMap<String, Option<f64>> {
            all.into_iter().map(|(name, values)| (name, median(&values))).collect()
        };
        let (mut figures, mut ratios) = (medians(figures), medians(ratios));
        for name in absent.keys() {
            let of_its_kind = if is_ratio(name) { &mut ratios } else { &mut figures };
            of_its_kind.insert(name.clone(), None);
        }
        let (kind, schema) = (Report::KIND.to_owned(), Report::SCHEMA);
        let machine = Machine::find();
        Report {
            kind,
            schema,
            machine,
            configuration,
            disturbances,
            figures,
            ratios,
            values,
            distributions,
            scale,
            shapes,
            absent,
            spread,
            order,
        }
    }
}

impl Report {
    /// The kind that a report states.
    pub const KIND: &str = "bellhop bench";
    /// The version of the format. It rises when a reader of the previous version would misunderstand a report.
    pub const SCHEMA: u32 = 2;

    /// A figure's or ratio's median.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<f64> {
        *self.figures.get(name).or_else(|| self.ratios.get(name))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::names::is_fraction;
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
    fn the_best_shape_is_the_one_that_was_best_most_often() {
        let mut measured = Measured::default();
        let shapes = |a: f64, b: f64| [("a".to_owned(), a), ("b".to_owned(), b)];
        for (a, b) in [(30.0, 10.0), (20.0, 40.0), (31.0, 11.0)] {
            let best = measured.best_shape("minimal_path_rtt_ns_p50", shapes(a, b));
            assert_eq!(best, Some(a.min(b)));
            measured.figure("minimal_path_rtt_ns_p50", a.min(b));
            let best = measured.best_shape("minimal_path_per_second", shapes(a, b));
            assert_eq!(best, Some(a.max(b)));
        }
        assert_eq!(measured.best_shape("another_per_second", []), None);
        let report = measured.report(configuration(&[]), Disturbances::default());
        assert_eq!(report.values["minimal_path_rtt_ns_p50"], [10.0, 20.0, 11.0]);
        assert_eq!(report.figures["minimal_path_rtt_ns_p50"], Some(11.0));
        let [time, rate] =
            ["minimal_path_rtt_ns_p50", "minimal_path_per_second"].map(|name| &report.shapes[name]);
        assert_eq!((time.best.as_str(), rate.best.as_str()), ("b", "a"));
        assert_eq!((time.medians["a"], time.medians["b"]), (30.0, 11.0));
        assert!(report.to_string().contains("minimal path rtt p50: b (of 2)"), "{report}");
    }

    #[test]
    fn a_distribution_has_the_median_of_each_share_that_all_repetitions_have() {
        let curves = [
            vec![(1.0, 10.0), (0.5, 20.0), (0.1, 30.0)],
            vec![(1.0, 12.0), (0.5, 60.0)],
            vec![(1.0, 11.0), (0.5, 40.0), (0.1, 90.0)],
        ];
        assert_eq!(median_curve(&curves), [(1.0, 11.0), (0.5, 40.0)]);
        assert!(median_curve(&[]).is_empty());
    }

    #[test]
    fn what_cannot_be_had_is_null_and_has_a_reason() {
        let mut measured = Measured::default();
        measured.figure("doorbell_rtt_ns_p50", 310.0);
        measured.absent("io_uring_sqpoll_nop_ns_p50", "the kernel has no io_uring");
        measured.absent("doorbell_rtt_over_io_uring_sqpoll_nop", "the kernel has no io_uring");
        // As if another repetition could not measure it.
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
    fn what_many_cost_is_told_with_its_growth_in_each_form() {
        let mut measured = Measured::default();
        for count in [1, 10, 100, 1000] {
            for noise in [0.99, 1.0, 1.01] {
                let count_or_time = count as f64;
                measured.at_scale("queues", count, "create_ns", 1e4 * noise);
                measured.at_scale("queues", count, "destroy_ns", count_or_time * noise);
            }
        }
        measured.absent("scale_workers_1_replace_ns", "no Vulkan");
        let report = measured.report(configuration(&["scale"]), Disturbances::default());
        let json: Value = serde_json::to_value(&report).unwrap();
        let table = &json["scale"][0];
        assert_eq!(table["subject"], "queues");
        assert_eq!(table["counts"], serde_json::json!([1, 10, 100, 1000]));
        let [create, destroy] = [&table["costs"][0], &table["costs"][1]];
        assert_eq!(
            (&create["name"], &create["verdict"]),
            (&"create_ns".into(), &"as_its_work".into())
        );
        assert_eq!(destroy["verdict"], "faster");
        assert_eq!(destroy["values"], serde_json::json!([1.0, 10.0, 100.0, 1000.0]));
        let [from, to] = [0, 1].map(|end| destroy["interval"][end].as_f64().unwrap());
        assert!(from < 1.0 && 1.0 < to && to - from < 0.05, "{destroy}");
        assert_eq!(json["figures"]["scale_costs_above_their_work"], 1.0);
        let exponent = json["figures"]["scale_queues_exponent_of_destroy_ns"].as_f64().unwrap();
        assert!((exponent - 1.0).abs() < 0.01, "{exponent}");
        let text = report.to_string();
        assert!(text.contains("  create one") && text.contains("! destroy one"), "{text}");
        assert!(text.contains("scale workers 1 replace: no Vulkan"), "{text}");
        assert!(text.contains("! scale costs above their work"), "{text}");
        // Only the tables have their values.
        assert_eq!(text.matches("destroy").count(), 1, "{text}");
        let csv = report.to_csv().unwrap();
        for row in [
            "figure,scale_queues_10_destroy_ns,2,10,",
            "figure,scale_queues_exponent_of_destroy_ns,1,",
        ] {
            assert!(csv.contains(row), "{csv}");
        }
        let again: Report = serde_json::from_value(json).unwrap();
        assert_eq!(again.scale, report.scale);
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
