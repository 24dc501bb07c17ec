// SPDX-License-Identifier: MIT OR Apache-2.0

//! The report of a run, for people and for machines.

pub(in crate::harness) mod expect;
pub(in crate::harness) mod junit;
pub(in crate::harness) mod measure;

use crate::harness::events::Happened;
use crate::harness::guest::Results;
use crate::harness::report::expect::{Check, Outcomes};
use crate::harness::report::measure::{Measure, Times, Waits};
use crate::harness::scenario::layout::{Layout, Row};
use crate::harness::scenario::{Mode, Status};
use bellhop_guest::output::wrapped;
use bellhop_guest::units;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Most events that the text shows.
const SHOWN_EVENTS: usize = 12;
/// Most lost queues that the report names.
const MAX_NAMED: usize = 16;

/// The report of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The scenario's title.
    pub title: String,
    /// The seed of all random choices.
    pub seed: u64,
    /// Whether every expectation held.
    pub passed: bool,
    /// The duration of the run, in milliseconds.
    pub elapsed_ms: u64,
    /// The queues, those of one table together.
    pub queues: Vec<QueueReport>,
    /// Doorbells that were taken from a queue for another.
    pub victims: u64,
    /// The control events in the order in which they happened.
    pub events: Vec<Happened>,
    /// The expectations, and whether each held.
    pub checks: Vec<Check>,
    /// Errors that are not about a queue.
    pub problems: Vec<String>,
}

/// The results of the queues that one table of one guest describes.
#[derive(Debug, Clone, Default, Serialize)]
pub struct QueueReport {
    /// Their name.
    pub queue: String,
    /// The number of queues.
    pub count: u32,
    /// Their submission mode.
    pub mode: Mode,
    /// Submissions.
    pub submitted: u64,
    /// Submissions that were completed.
    pub completed: u64,
    /// Submissions that went with a lost queue, or with their guest.
    pub dropped: u64,
    /// Whether the GPU executed each submission once and in order, by what it wrote.
    pub in_order: bool,
    /// Wrong results.
    pub problems: Vec<String>,
    /// The number of times that a queue was lost.
    pub losses: u64,
    /// The first lost queues, each with the device's reason.
    pub lost: Vec<String>,
    /// Stores to doorbells.
    pub rings: u64,
    /// Requests that woke an engine.
    pub notifies: u64,
    /// Requests that connected a doorbell.
    pub connects: u64,
    /// Counts of the statuses that rings read.
    pub seen: BTreeMap<Status, u64>,
    /// From a submission to its completion, as its thread saw it.
    pub latency: Waits,
    /// The duration of rings that had to connect their doorbell.
    pub connect: Waits,
}

impl Report {
    pub(in crate::harness) fn new(outcomes: Outcomes<'_>, seed: u64, elapsed: Duration) -> Self {
        let mut checks = expect::check(&outcomes);
        let Outcomes { scenario, layout, results, events } = outcomes;
        if events.is_given_up {
            checks.push(Check {
                what: "the run's time".into(),
                expected: format!("at most {:?} beyond its duration", scenario.limit),
                seen: "the run was abandoned".into(),
                passed: false,
            });
        }
        Self {
            title: scenario.title.clone(),
            seed,
            passed: checks.iter().all(|check| check.passed),
            elapsed_ms: elapsed.as_millis() as u64,
            queues: rows(layout, &results),
            victims: results.victims,
            events: events.happened,
            checks,
            problems: results.problems,
        }
    }

    /// The report as JSON.
    ///
    /// # Errors
    /// No report causes one.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }
}

fn rows(layout: &Layout, results: &Results) -> Vec<QueueReport> {
    let mut reports: Vec<_> = (0..)
        .zip(&layout.rows)
        .map(|(place, row)| QueueReport::new(row, results.measures.get(&place)))
        .collect();
    for (lane, tally) in layout.lanes.iter().zip(&results.tallies) {
        let report = &mut reports[lane.row];
        report.mode = lane.spec.mode;
        report.submitted += tally.submitted;
        report.completed += tally.completed;
        report.dropped += tally.dropped;
        report.losses += tally.losses;
        report.rings += tally.counters.rings;
        report.notifies += tally.counters.notifies;
        report.connects += tally.counters.connects;
        report.in_order &= tally.problems.is_empty();
        if report.problems.len() < MAX_NAMED {
            report.problems.extend(tally.problems.iter().map(|what| format!("{lane}: {what}")));
        }
        if tally.losses > 0 && report.lost.len() < MAX_NAMED {
            report.lost.push(format!("{lane}: {}", tally.last_loss));
        }
        for status in [
            Status::Connected,
            Status::ConnectedNotify,
            Status::DisconnectedRetry,
            Status::DisconnectedAbort,
        ] {
            *report.seen.entry(status).or_default() += expect::seen(tally, status);
        }
    }
    reports
}

impl QueueReport {
    fn new(row: &Row, measure: Option<&Measure>) -> Self {
        let waits = |of: fn(&Measure) -> &Times| measure.map(|measure| of(measure).summary());
        Self {
            queue: row.name.clone(),
            count: row.count,
            in_order: true,
            latency: waits(|measure| &measure.latency).unwrap_or_default(),
            connect: waits(|measure| &measure.connect).unwrap_or_default(),
            ..Self::default()
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connected => "CONNECTED",
            Self::ConnectedNotify => "CONNECTED_NOTIFY",
            Self::DisconnectedRetry => "DISCONNECTED_RETRY",
            Self::DisconnectedAbort => "DISCONNECTED_ABORT",
        })
    }
}

/// A time with a suitable unit, if there is one.
fn time(nanoseconds: u64) -> String {
    match nanoseconds {
        0 => "-".into(),
        time => units::time(time as f64),
    }
}

/// Columns of a row's name; a longer one has a line of its own.
const NAME: usize = 22;

/// A row of a table: a name, and numbers in columns of 9 or more.
fn row(name: &str, numbers: &[String]) -> String {
    let mut row = format!("  {name:<NAME$}");
    if name.chars().count() > NAME {
        row += &format!("\n  {:NAME$}", "");
    }
    for number in numbers {
        row += &format!("{number:>9}");
    }
    row + "\n"
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { title, seed, elapsed_ms, victims, .. } = self;
        f.write_str(&wrapped("", title))?;
        let elapsed = *elapsed_ms as f64 / 1e3;
        writeln!(f, "  seed {seed}, {elapsed:.1} s, {victims} doorbells taken for another queue")?;
        self.write_queues(f)?;
        self.write_waits(f)?;
        self.write_events(f)?;
        for check in &self.checks {
            let Check { what, expected, seen, passed } = check;
            f.write_str(&if *passed {
                wrapped("  passed  ", &format!("{what}: {seen}"))
            } else {
                wrapped("  FAILED  ", &format!("{what}: {seen}, not {expected}"))
            })?;
        }
        let failed = self.checks.iter().filter(|check| !check.passed).count();
        match failed {
            0 => writeln!(f, "passed: all {} expectations hold", self.checks.len()),
            count => {
                writeln!(f, "FAILED: {count} of {} expectations do not hold", self.checks.len())
            }
        }
    }
}

impl Report {
    fn write_queues(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let titles = ["submitted", "done", "dropped", "lost", "order"].map(str::to_owned);
        f.write_str(&row("queue", &titles))?;
        for queue in &self.queues {
            let QueueReport { submitted, completed, dropped, losses, in_order, .. } = queue;
            let order = if *in_order { "right" } else { "WRONG" };
            let counts = [submitted, completed, dropped, losses].map(u64::to_string);
            let numbers = [&counts[..], &[order.to_owned()]].concat();
            f.write_str(&row(&queue.shown(), &numbers))?;
        }
        let rung = self.queues.iter().filter(|queue| queue.rings > 0);
        for (place, queue) in rung.enumerate() {
            if place == 0 {
                let titles = ["rings", "notifies", "connects"].map(str::to_owned);
                f.write_str(&row("doorbell", &titles))?;
            }
            let counts = [queue.rings, queue.notifies, queue.connects];
            f.write_str(&row(&queue.shown(), &counts.map(|count| count.to_string())))?;
        }
        Ok(())
    }

    fn write_waits(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let titles = ["samples", "p50", "p90", "p99", "p99.9", "max"].map(str::to_owned);
        f.write_str(&row("wait", &titles))?;
        for queue in &self.queues {
            let kinds = [("", &queue.latency), (" connect", &queue.connect)];
            for (kind, waits) in kinds.into_iter().filter(|(_, waits)| waits.samples > 0) {
                let Waits { samples, p50_ns, p90_ns, p99_ns, p99_9_ns, max_ns } = *waits;
                let times = [p50_ns, p90_ns, p99_ns, p99_9_ns, max_ns].map(time);
                let numbers = [&[samples.to_string()], &times[..]].concat();
                f.write_str(&row(&format!("{}{kind}", queue.shown()), &numbers))?;
            }
        }
        Ok(())
    }

    fn write_events(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for happened in self.events.iter().take(SHOWN_EVENTS) {
            let Happened { what, done_ms, refused, .. } = happened;
            let first = format!("  at {done_ms} ms: ");
            f.write_str(&match refused {
                None => wrapped(&first, what),
                Some(why) => wrapped(&first, &format!("{what}: not done, {why}")),
            })?;
        }
        match self.events.len().saturating_sub(SHOWN_EVENTS) {
            0 => Ok(()),
            more => writeln!(f, "  and {more} more events, which --json tells"),
        }
    }
}

impl QueueReport {
    fn shown(&self) -> String {
        match self.count {
            1 => self.queue.clone(),
            count => format!("{} x{count}", self.queue),
        }
    }
}
