// SPDX-License-Identifier: MIT OR Apache-2.0

//! A report beside an earlier one.

mod change;
mod text;

pub use change::{CONFIDENCE, Change};

use super::headlines::{Aim, HEADLINES};
use super::names::{Better, better, is_of_the_machine, is_ratio};
use super::report::{Configuration, Report};
use crate::machine::Machine;
use serde::Serialize;
use std::collections::BTreeSet;

/// The least relative change that counts as a move, however sure a smaller one is: two runs of one program on one
/// machine differ by as much.
pub const MARGIN: f64 = 0.05;

/// How a figure changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is worse by more than `MARGIN`, beyond noise.
    Worse,
    /// It is better by more than `MARGIN`, beyond noise.
    Better,
    /// It moved by more than `MARGIN`, beyond noise, and no direction is the better one.
    Moved,
    /// No move by more than `MARGIN` shows beyond noise.
    Same,
    /// A side measured it once, or it is 0, so that its noise is not known.
    Unknown,
}

/// A figure or ratio of both reports.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// The median before.
    pub before: f64,
    /// The median now.
    pub now: f64,
    /// The change. Null where a value is 0.
    pub change: Option<Change>,
    /// How it changed.
    pub verdict: Verdict,
    /// Whether it counts as a regression if it is worse: ratios and key figures do. A time alone changes with
    /// the machine.
    pub decides: bool,
}

/// Where and when an earlier report was made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Origin {
    /// The file.
    pub file: String,
    /// The machine, the version and the time.
    pub machine: Machine,
}

/// A report beside an earlier one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The earlier report.
    pub before: Origin,
    /// The confidence of intervals.
    pub confidence: f64,
    /// `MARGIN`.
    pub margin: f64,
    /// Whether something that decides is worse.
    pub regressed: bool,
    /// Differences of machine or configuration, which change figures although the program is unchanged.
    pub differences: Vec<String>,
    /// Names that only the earlier report has.
    pub only_before: Vec<String>,
    /// Names that only this report has.
    pub only_now: Vec<String>,
    /// Figures and ratios of both reports, in the order of measuring.
    pub rows: Vec<Row>,
}

impl Row {
    fn of(name: &str, before: &[f64], now: &[f64], medians: [f64; 2]) -> Self {
        let change = Change::of(before, now);
        let aim = HEADLINES.iter().find(|headline| headline.name == name).map(|it| it.aim);
        let [was, is] = medians;
        let verdict = match (change, aim) {
            _ if before.iter().chain(now).all(|value| *value == 0.0) => Verdict::Same,
            // A count of events that must not happen has no noise: it is not timed.
            (None, Some(Aim::AtMost(0.0))) if is > was => Verdict::Worse,
            (None, Some(Aim::AtMost(0.0))) if is < was => Verdict::Better,
            (change, _) => verdict(change.and_then(|change| change.interval), better(name)),
        };
        let decides = !is_of_the_machine(name) && (is_ratio(name) || aim.is_some());
        Self { name: name.to_owned(), before: was, now: is, change, verdict, decides }
    }

    /// Whether it makes the comparison a regression.
    #[must_use]
    pub fn is_regression(&self) -> bool {
        self.decides && self.verdict == Verdict::Worse
    }
}

fn verdict(interval: Option<[f64; 2]>, better: Option<Better>) -> Verdict {
    let Some([low, high]) = interval else { return Verdict::Unknown };
    let (rose, fell) = (low > 1.0 + MARGIN, high < 1.0 / (1.0 + MARGIN));
    match better {
        _ if !rose && !fell => Verdict::Same,
        Some(Better::Less) if rose => Verdict::Worse,
        Some(Better::More) if fell => Verdict::Worse,
        Some(_) => Verdict::Better,
        None => Verdict::Moved,
    }
}

/// The differences between two machines and configurations.
fn differences(before: &Report, now: &Report) -> Vec<String> {
    let mut found = Vec::new();
    let mut compare = |what: &str, before: String, now: String| {
        if before != now {
            found.push(format!("{what}: {before} before, {now} now"));
        }
    };
    let known = |fact: &Option<String>| fact.clone().unwrap_or_else(|| "unknown".into());
    let (a, b) = (&before.machine, &now.machine);
    compare("processor", known(&a.processor), known(&b.processor));
    compare("processors", a.processors.to_string(), b.processors.to_string());
    compare("kernel", known(&a.kernel), known(&b.kernel));
    compare("governor", known(&a.governor), known(&b.governor));
    let is_virtual = |it: &Machine| it.is_virtual.map_or("unknown".into(), |it| it.to_string());
    compare("virtual machine", is_virtual(a), is_virtual(b));
    let (a, b) = (&before.configuration, &now.configuration);
    compare("place", a.place.clone(), b.place.clone());
    compare("placement", a.placement.clone(), b.placement.clone());
    compare("samples", a.samples.to_string(), b.samples.to_string());
    compare("repetitions", a.repetitions.to_string(), b.repetitions.to_string());
    for suite in a.suites.iter().filter(|suite| b.suites.contains(suite)) {
        let of = |configuration: &Configuration| {
            let daemon = configuration.daemon.as_ref();
            let text = daemon.and_then(|daemon| daemon.get(suite)).map(|it| format!("{it:?}"));
            text.unwrap_or_else(|| "not known".into())
        };
        compare(&format!("the daemon's configuration for {suite}"), of(a), of(b));
    }
    found
}

impl Comparison {
    /// Compares what both reports have.
    #[must_use]
    pub fn of(file: &str, before: &Report, now: &Report) -> Self {
        let names = |report: &Report| report.values.keys().cloned().collect::<BTreeSet<_>>();
        let only = |one: &Report, other: &Report| -> Vec<String> {
            names(one).difference(&names(other)).cloned().collect()
        };
        let row = |name: &String| {
            let values = [before.values.get(name)?, now.values.get(name)?];
            let medians = [before.value(name)?, now.value(name)?];
            Some(Row::of(name, values[0], values[1], medians))
        };
        let rows: Vec<_> = now.order.iter().filter_map(row).collect();
        Self {
            before: Origin { file: file.to_owned(), machine: before.machine.clone() },
            confidence: CONFIDENCE,
            margin: MARGIN,
            regressed: rows.iter().any(Row::is_regression),
            differences: differences(before, now),
            only_before: only(before, now),
            only_now: only(now, before),
            rows,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::Measured;
    use crate::machine::Disturbances;

    /// A report with these values of figures and ratios.
    fn report(values: &[(&str, &[f64])]) -> Report {
        let mut measured = Measured::default();
        for (name, values) in values {
            for value in *values {
                if is_ratio(name) {
                    measured.ratio(*name, *value, 1.0);
                } else {
                    measured.figure(*name, *value);
                }
            }
        }
        let configuration = Configuration { samples: 7, ..Configuration::default() };
        measured.report(configuration, Disturbances::default())
    }

    fn verdict_of(name: &str, before: &[f64], now: &[f64]) -> (Verdict, bool) {
        let comparison = Comparison::of("f", &report(&[(name, before)]), &report(&[(name, now)]));
        (comparison.rows[0].verdict, comparison.regressed)
    }

    const STEADY: [f64; 3] = [2.0, 2.02, 1.98];
    const TWICE: [f64; 3] = [4.0, 4.04, 3.96];

    #[test]
    fn a_ratio_that_moved_the_wrong_way_beyond_noise_is_a_regression() {
        let time = "doorbell_rtt_over_minimal_path";
        assert_eq!(verdict_of(time, &STEADY, &TWICE), (Verdict::Worse, true));
        assert_eq!(verdict_of(time, &TWICE, &STEADY), (Verdict::Better, false));
        let rate = "submissions_per_cacheline_rtt";
        assert_eq!(verdict_of(rate, &STEADY, &TWICE), (Verdict::Better, false));
        assert_eq!(verdict_of(rate, &TWICE, &STEADY), (Verdict::Worse, true));
    }

    #[test]
    fn what_noise_can_explain_and_what_is_small_did_not_move() {
        let name = "doorbell_rtt_over_minimal_path";
        assert_eq!(verdict_of(name, &STEADY, &STEADY), (Verdict::Same, false));
        assert_eq!(verdict_of(name, &[1.0, 2.0, 4.0], &TWICE), (Verdict::Same, false));
        // This change is certain, but below the margin.
        assert_eq!(verdict_of(name, &[2.0, 2.0], &[2.08, 2.08]), (Verdict::Same, false));
        assert_eq!(verdict_of(name, &[2.0, 2.0], &[2.12, 2.12]), (Verdict::Worse, true));
        assert_eq!(verdict_of(name, &[2.0], &[4.0]), (Verdict::Unknown, false));
    }

    #[test]
    fn a_time_and_a_floor_are_told_and_decide_nothing() {
        assert_eq!(verdict_of("doorbell_rtt_ns_p50", &STEADY, &TWICE), (Verdict::Worse, false));
        assert_eq!(verdict_of("cacheline_rtt_ns_p50", &STEADY, &TWICE), (Verdict::Worse, false));
        let doorbells = "victimised_doorbells_10000_queues";
        assert_eq!(verdict_of(doorbells, &STEADY, &TWICE), (Verdict::Moved, false));
    }

    #[test]
    fn what_must_not_happen_is_a_regression_with_the_first_one() {
        let lost = "lost_submissions_10000_queues";
        assert_eq!(verdict_of(lost, &[0.0], &[0.0]), (Verdict::Same, false));
        assert_eq!(verdict_of(lost, &[0.0], &[1.0]), (Verdict::Worse, true));
        assert_eq!(verdict_of(lost, &[1.0], &[0.0]), (Verdict::Better, false));
        let interrupts = "interrupts_of_1000_signals_unwaited";
        assert_eq!(verdict_of(interrupts, &[0.0], &[1.0]), (Verdict::Unknown, false));
    }

    #[test]
    fn another_machine_and_another_configuration_are_named() {
        let before = report(&[("a_ns", &STEADY), ("b_ns", &STEADY)]);
        let mut now = report(&[("b_ns", &STEADY), ("c_ns", &STEADY)]);
        let comparison = Comparison::of("f", &before, &now);
        assert!(comparison.differences.is_empty(), "{:?}", comparison.differences);
        assert_eq!(
            (comparison.only_before, comparison.only_now),
            (vec!["a_ns".into()], vec!["c_ns".into()])
        );
        now.machine.processor = Some("another".into());
        now.configuration.samples = 8;
        let differences = Comparison::of("f", &before, &now).differences;
        assert_eq!(differences.len(), 2, "{differences:?}");
        assert!(differences[0].ends_with("another now"), "{differences:?}");
        assert_eq!(differences[1], "samples: 7 before, 8 now");
    }
}
