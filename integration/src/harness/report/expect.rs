// SPDX-License-Identifier: MIT OR Apache-2.0

//! Checks the expectations of a scenario.

use crate::harness::events::Events;
use crate::harness::guest::Results;
use crate::harness::guest::tally::{Ended, Tally};
use crate::harness::report::measure::{Measure, Times, Waits};
use crate::harness::scenario::layout::Layout;
use crate::harness::scenario::{Bounds, QueueExpect, Scenario, Status, Time, WaitBounds};
use serde::Serialize;
use std::collections::BTreeSet;
use std::time::Duration;

/// One expectation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The subject.
    pub what: String,
    /// The expected value.
    pub expected: String,
    /// The value in this run.
    pub seen: String,
    /// Whether the value is as expected.
    pub passed: bool,
}

impl Check {
    fn new(
        what: impl Into<String>,
        expected: impl Into<String>,
        seen: impl Into<String>,
        passed: bool,
    ) -> Self {
        Self { what: what.into(), expected: expected.into(), seen: seen.into(), passed }
    }
}

/// The outcomes to check.
pub(in crate::harness) struct Outcomes<'a> {
    pub(in crate::harness) scenario: &'a Scenario,
    pub(in crate::harness) layout: &'a Layout,
    pub(in crate::harness) results: Results,
    pub(in crate::harness) events: Events,
}

/// Checks everything that the scenario expects.
pub(in crate::harness) fn check(outcomes: &Outcomes<'_>) -> Vec<Check> {
    let expect = &outcomes.scenario.expect;
    let mut checks = vec![outcomes.order(), outcomes.guests()];
    if expect.complete {
        checks.push(outcomes.complete());
    }
    if expect.events {
        checks.push(outcomes.events());
    }
    checks.push(outcomes.lost());
    let violations = outcomes.results.violations.len() as u64;
    checks.push(Check::new(
        "violations of VMM rules",
        Bounds { min: None, max: Some(expect.violations) }.to_string(),
        match outcomes.results.violations.first() {
            Some(first) => format!("{violations}, the first: {first}"),
            None => "none".into(),
        },
        violations <= expect.violations,
    ));
    if expect.victims.are_set() {
        checks.push(number(
            "doorbells taken for another queue",
            expect.victims,
            outcomes.results.victims,
        ));
    }
    checks.extend(expect.queue.iter().flat_map(|queue| outcomes.queues(queue)));
    checks
}

fn number(what: impl Into<String>, bounds: Bounds, seen: u64) -> Check {
    Check::new(what, bounds.to_string(), seen.to_string(), bounds.contain(seen))
}

/// The number of rings that read a status.
pub(in crate::harness) fn seen(tally: &Tally, status: Status) -> u64 {
    let counters = tally.counters;
    match status {
        Status::Connected => {
            counters.rings.saturating_sub(counters.notifies + counters.connects + tally.losses)
        }
        Status::ConnectedNotify => counters.notifies,
        Status::DisconnectedRetry => counters.connects,
        Status::DisconnectedAbort => tally.losses,
    }
}

impl Outcomes<'_> {
    fn of(&self, pattern: &str) -> impl Iterator<Item = &Tally> {
        self.layout.lanes(pattern).into_iter().filter_map(|lane| self.results.tallies.get(lane))
    }

    /// Checks that the GPU executed everything once and in order, by what it wrote.
    fn order(&self) -> Check {
        let wrong: Vec<_> = self
            .layout
            .lanes
            .iter()
            .zip(&self.results.tallies)
            .flat_map(|(lane, tally)| tally.problems.iter().map(move |what| (lane, what)))
            .collect();
        let seen = match wrong.first() {
            Some((lane, what)) => format!("{} problems, the first in {lane}: {what}", wrong.len()),
            None => "yes".into(),
        };
        let what = "the GPU executed each submission once, in the order of its queue";
        Check::new(what, "yes", seen, wrong.is_empty())
    }

    /// Checks that events explain all errors.
    fn guests(&self) -> Check {
        let seen = match self.results.problems.first() {
            Some(first) => format!("{} problems, the first: {first}", self.results.problems.len()),
            None => "yes".into(),
        };
        Check::new(
            "no guest had an unexpected error",
            "yes",
            seen,
            self.results.problems.is_empty(),
        )
    }

    fn complete(&self) -> Check {
        let mut short = Vec::new();
        for (lane, tally) in self.layout.lanes.iter().zip(&self.results.tallies) {
            let wanted = lane.spec.submissions.unwrap_or_default();
            let is_excused = tally.ended == Some(Ended::Lost);
            let has_ended = matches!(tally.ended, Some(Ended::Done)) || is_excused;
            let is_whole = is_excused || tally.completed >= wanted;
            let adds_up = tally.submitted == tally.completed + tally.dropped;
            if !(has_ended && is_whole && adds_up) {
                let completed = tally.completed;
                short.push(format!("{lane} completed {completed} and ended {:?}", tally.ended));
            }
        }
        let seen = match short.first() {
            Some(first) => format!("not {}, the first: {first}", short.len()),
            None => "all".into(),
        };
        Check::new("queues that completed their work", "all", seen, short.is_empty())
    }

    fn events(&self) -> Check {
        let mut wrong = Vec::new();
        for (place, spec) in self.scenario.event.iter().enumerate() {
            let (count, refusals) = (self.events.counts[place], self.events.refusals[place]);
            if spec.optional {
                continue;
            }
            if count == 0 {
                wrong.push(format!("event {place} did not happen before the end"));
            } else if refusals > 0 {
                let refused =
                    self.events.happened.iter().filter(|happened| happened.event == place);
                let why = refused.filter_map(|happened| happened.refused.as_ref()).next();
                let why = why.map_or("it was refused", String::as_str);
                wrong.push(format!("event {place} failed {refusals} times: {why}"));
            }
        }
        let seen = wrong.first().map_or("all", String::as_str);
        Check::new("events that happened", "all", seen, wrong.is_empty())
    }

    fn lost(&self) -> Check {
        let named = |patterns: &[String]| -> BTreeSet<_> {
            patterns.iter().flat_map(|pattern| self.layout.lanes(pattern)).collect()
        };
        let expect = &self.scenario.expect;
        let (expected, excused) = (named(&expect.lost), named(&expect.may_lose));
        let seen: BTreeSet<_> = (0..self.results.tallies.len())
            .filter(|lane| self.results.tallies[*lane].losses > 0)
            .filter(|lane| expected.contains(lane) || !excused.contains(lane))
            .collect();
        let names = |lanes: &BTreeSet<usize>| match lanes.len() {
            0 => "none".to_string(),
            count => {
                let first = lanes.iter().take(4).map(|lane| self.layout.lanes[*lane].to_string());
                let rest = if count > 4 { ", ..." } else { "" };
                format!("{}{rest}", first.collect::<Vec<_>>().join(", "))
            }
        };
        Check::new(
            "queues that were lost and had to be, or were not to be",
            names(&expected),
            match seen.difference(&expected).next() {
                Some(lane) => {
                    format!("{} ({})", names(&seen), self.results.tallies[*lane].last_loss)
                }
                None => names(&seen),
            },
            expected == seen,
        )
    }

    fn queues(&self, expect: &QueueExpect) -> Vec<Check> {
        let pattern = &expect.queue;
        let sum = |of: fn(&Tally) -> u64| self.of(pattern).map(of).sum::<u64>();
        let counts: [(&str, Bounds, u64); 6] = [
            ("submissions completed", expect.completed, sum(|tally| tally.completed)),
            ("submissions dropped", expect.dropped, sum(|tally| tally.dropped)),
            ("rings", expect.rings, sum(|tally| tally.counters.rings)),
            ("connects", expect.connects, sum(|tally| tally.counters.connects)),
            ("notifies", expect.notifies, sum(|tally| tally.counters.notifies)),
            ("losses", expect.losses, sum(|tally| tally.losses)),
        ];
        let mut checks: Vec<_> = counts
            .into_iter()
            .filter(|(_, bounds, _)| bounds.are_set())
            .map(|(what, bounds, count)| number(format!("{pattern}: {what}"), bounds, count))
            .collect();
        for (status, bounds) in &expect.seen {
            let count = self.of(pattern).map(|tally| seen(tally, *status)).sum();
            checks.push(number(format!("{pattern}: rings that read {status}"), *bounds, count));
        }
        let latency = self.waits(pattern, |measure| &measure.latency);
        let connect = self.waits(pattern, |measure| &measure.connect);
        checks.extend(waits(&format!("{pattern}: latency"), &expect.latency, latency));
        checks.extend(waits(&format!("{pattern}: connect"), &expect.connect, connect));
        checks
    }

    /// The times of all rows that have a queue of this name.
    fn waits(&self, pattern: &str, of: fn(&Measure) -> &Times) -> Waits {
        let rows: BTreeSet<_> = self
            .layout
            .lanes(pattern)
            .into_iter()
            .map(|lane| self.layout.lanes[lane].row)
            .collect();
        let mut all = Times::default();
        let measures = rows.iter().filter_map(|row| self.results.measures.get(row));
        measures.for_each(|measure| all.add(of(measure)));
        all.summary()
    }
}

fn waits(what: &str, bounds: &WaitBounds, seen: Waits) -> Vec<Check> {
    let quantiles = [
        ("p50", bounds.p50, seen.p50_ns),
        ("p99", bounds.p99, seen.p99_ns),
        ("max", bounds.max, seen.max_ns),
    ];
    let check = |(quantile, bound, seen): (&str, Option<Time>, u64)| {
        let bound = bound?;
        let shown = format!("{:.3} ms", seen as f64 / 1e6);
        let passed = Duration::from_nanos(seen) <= bound.get();
        Some(Check::new(format!("{what}, {quantile}"), format!("at most {bound:?}"), shown, passed))
    };
    quantiles.into_iter().filter_map(check).collect()
}
