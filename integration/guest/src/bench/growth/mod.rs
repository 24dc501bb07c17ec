// SPDX-License-Identifier: MIT OR Apache-2.0

//! What many of something cost, as tables with the exponent of growth of each cost.
//!
//! A cost that grows faster than its work is a defect.

mod fit;
mod subject;

pub(super) use subject::{figure, is_in_a_table};

use super::names::shown;
use crate::timing::median;
use fit::Growth;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use subject::{Cost, SUBJECTS, Subject};

/// A cost grows faster than its work if the interval of its exponent is above the work's by more than this: counts that
/// are far apart have other caches.
const TOLERANCE: f64 = 0.05;
/// Or if it grows by so much more from the last count but one to the last.
const STEP: f64 = 0.5;
/// The name of the number of costs that do.
pub(super) const ABOVE: &str = "scale_costs_above_their_work";

/// Columns of a cost's name, and of a value.
const NAME: usize = 19;
const CELL: usize = 8;

/// The costs of many of something.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// What the counts are of.
    pub subject: String,
    /// How many there were.
    pub counts: Vec<u64>,
    /// What they cost.
    pub costs: Vec<Row>,
    /// The subject, for people.
    title: String,
}

/// A cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The name, which ends in the unit. The figure of a count is `scale_SUBJECT_COUNT_NAME`.
    pub name: String,
    /// The median of each count; null where it was not measured.
    pub values: Vec<Option<f64>>,
    /// The cost grows as the count to the power of this. Of a rate, the cost is the inverse.
    pub exponent: Option<f64>,
    /// The interval that contains the exponent, at a confidence of 95 %.
    pub interval: Option<[f64; 2]>,
    /// The exponent from the last count but one to the last.
    pub last_step: Option<f64>,
    /// The exponent of the work that the cost is of.
    pub work: f64,
    /// What this says.
    pub verdict: Verdict,
    /// The cost, for people.
    title: String,
}

/// How a cost grows beside its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It grows faster: a defect.
    Faster,
    /// It does not grow faster, as far as the values show.
    AsItsWork,
    /// Too few counts were measured.
    Unknown,
}

impl Verdict {
    fn of(growth: Growth, work: f64) -> Self {
        match growth.interval {
            _ if growth.last_step >= work + STEP => Self::Faster,
            Some([from, _]) if from > work + TOLERANCE => Self::Faster,
            Some(_) => Self::AsItsWork,
            None => Self::Unknown,
        }
    }
}

impl Row {
    /// The row of a cost, by the values of each count.
    fn of(cost: &Cost, counts: &BTreeMap<u64, &Vec<f64>>, all: &[u64]) -> Self {
        let values = |count| counts.get(count).copied();
        let costs = |values: &Vec<f64>| values.iter().map(|value| cost.of(*value)).collect();
        let points = counts.iter().map(|(count, values)| (*count as f64, costs(values)));
        let growth = Growth::of(&points.collect::<Vec<_>>());
        Self {
            name: cost.name.to_owned(),
            values: all.iter().map(|count| median(values(count)?)).collect(),
            exponent: growth.map(|growth| growth.exponent),
            interval: growth.and_then(|growth| growth.interval),
            last_step: growth.map(|growth| growth.last_step),
            work: cost.work,
            verdict: growth.map_or(Verdict::Unknown, |growth| Verdict::of(growth, cost.work)),
            title: cost.title.to_owned(),
        }
    }

    /// The cost at each count over that at the first: 1 if it does not grow.
    pub(super) fn over_first<'a>(
        &'a self,
        counts: &'a [u64],
    ) -> impl Iterator<Item = (f64, f64)> + 'a {
        let invert = self.name.ends_with("_per_second");
        let first = self.values.iter().flatten().next().copied();
        counts.iter().zip(&self.values).filter_map(move |(count, value)| {
            let ratio = (*value)? / first?;
            Some((*count as f64, if invert { ratio.recip() } else { ratio }))
        })
    }

    /// The cost, for people.
    pub(super) fn title(&self) -> &str {
        &self.title
    }
}

impl Table {
    /// The tables of all subjects that were measured, by the values of each figure.
    pub(super) fn all(values: &BTreeMap<String, Vec<f64>>) -> Vec<Self> {
        SUBJECTS.iter().filter_map(|subject| Self::of(subject, values)).collect()
    }

    fn of(subject: &Subject, values: &BTreeMap<String, Vec<f64>>) -> Option<Self> {
        let mut costs: BTreeMap<&str, BTreeMap<u64, &Vec<f64>>> = BTreeMap::new();
        for (name, values) in values {
            if let Some((count, cost)) = subject.parse(name) {
                costs.entry(cost).or_default().insert(count, values);
            }
        }
        let mut counts: Vec<_> = costs.values().flat_map(|counts| counts.keys().copied()).collect();
        counts.sort_unstable();
        counts.dedup();
        let row = |cost: &Cost| Some(Row::of(cost, costs.get(cost.name)?, &counts));
        let rows: Vec<_> = subject.costs.iter().filter_map(row).collect();
        let (name, title) = (subject.name.to_owned(), subject.title.to_owned());
        (!rows.is_empty()).then_some(Self { subject: name, counts, costs: rows, title })
    }

    /// The exponents, each with the name of its figure.
    pub(super) fn exponents(&self) -> impl Iterator<Item = (String, f64)> + '_ {
        let name = |row: &Row| format!("scale_{}_exponent_of_{}", self.subject, row.name);
        self.costs.iter().filter_map(move |row| Some((name(row), row.exponent?)))
    }

    /// The number of costs that grow faster than their work.
    pub(super) fn above(&self) -> usize {
        self.costs.iter().filter(|row| row.verdict == Verdict::Faster).count()
    }

    /// What the counts are of, for people.
    pub(super) fn title(&self) -> &str {
        &self.title
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  {:<NAME$}", self.title)?;
        self.counts.iter().try_for_each(|count| write!(f, "{count:>CELL$}"))?;
        writeln!(f, " growth")?;
        for row in &self.costs {
            let mark = if row.verdict == Verdict::Faster { '!' } else { ' ' };
            write!(f, "{mark} {:<NAME$}", row.title)?;
            for value in &row.values {
                // Without the space before the unit, values of all columns fit.
                let value = value
                    .map_or_else(|| "-".to_owned(), |it| shown(&row.name, it).replace(' ', ""));
                write!(f, "{value:>CELL$}")?;
            }
            let doubt = |[from, to]: [f64; 2]| format!("±{:.2}", (to - from) / 2.0);
            let doubt = row.interval.map(doubt).unwrap_or_default();
            // No negative zero.
            let exponent = row.exponent.map(|exponent| exponent + 0.0);
            let exponent = exponent.map_or_else(|| "-".to_owned(), |it| format!("{it:.2}"));
            writeln!(f, " {exponent:>5}{doubt}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cost's name, and what it is by the number.
    type Cost<'a> = (&'a str, fn(f64) -> f64);

    fn tables(costs: &[Cost<'_>]) -> Vec<Table> {
        let mut values = BTreeMap::new();
        for count in [1, 4, 16, 64, 256, 1024] {
            for (cost, of) in costs {
                values.insert(figure("doorbells", count, cost), vec![of(count as f64)]);
            }
        }
        Table::all(&values)
    }

    #[test]
    fn a_cost_that_grows_faster_than_its_work_is_marked() {
        let tables = tables(&[
            ("submission_ns_p50", |_| 200.0),
            ("submission_ns_p99", |count| 100.0 + count),
            ("submissions_per_second", |count| 1e7 / count),
            ("silent_ns_p50", |count| 50.0 * count),
        ]);
        let [table] = tables.as_slice() else { panic!("{tables:?}") };
        let verdicts = table.costs.iter().map(|row| (row.name.as_str(), row.verdict));
        let expected = [
            ("submission_ns_p50", Verdict::AsItsWork),
            ("submission_ns_p99", Verdict::Faster),
            ("submissions_per_second", Verdict::Faster),
            ("silent_ns_p50", Verdict::AsItsWork),
        ];
        assert_eq!(verdicts.collect::<Vec<_>>(), expected);
        assert_eq!(table.above(), 2);
        let exponents: BTreeMap<_, _> = table.exponents().collect();
        let exponent = |cost: &str| exponents[&format!("scale_doorbells_exponent_of_{cost}")];
        assert!((exponent("silent_ns_p50") - 1.0).abs() < 1e-9);
        assert!((exponent("submissions_per_second") - 1.0).abs() < 1e-9);
        assert!(exponent("submission_ns_p50").abs() < 1e-9);
    }

    #[test]
    fn a_table_has_a_line_for_each_cost_and_none_is_wider_than_a_terminal() {
        let tables = tables(&[
            ("submission_ns_p99", |count| 123.4 * count * count),
            ("silent_ns_p99", |count| 1e9 / count),
            ("memory_bytes", |_| 123_456.0),
        ]);
        let text = tables[0].to_string();
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].starts_with("  connected doorbells"), "{text}");
        assert!(lines[0].ends_with("16      64     256    1024 growth"), "{text}");
        assert!(lines[1].starts_with("  memory of each") && lines[1].contains("123kB"), "{text}");
        assert!(lines[2].starts_with("! one rings: 99 %") && lines[2].contains("2.00±0.00"));
        assert!(lines[3].starts_with("  silent: 99 %"), "{text}");
        assert_eq!(lines.len(), 4);
        for line in lines {
            assert!(line.chars().count() <= crate::output::WIDTH, "{line:?}");
        }
    }

    #[test]
    fn what_was_not_measured_at_a_count_is_a_gap_and_a_subject_without_values_has_no_table() {
        let values = BTreeMap::from([
            (figure("queues", 1, "create_ns"), vec![4.0, 2.0, 3.0]),
            (figure("queues", 10, "connect_ns_p50"), vec![7.0]),
        ]);
        let tables = Table::all(&values);
        let [table] = tables.as_slice() else { panic!("{tables:?}") };
        assert_eq!(
            (table.subject.as_str(), table.counts.as_slice()),
            ("queues", [1, 10].as_slice())
        );
        assert_eq!(table.costs[0].values, [Some(3.0), None]);
        assert_eq!(table.costs[1].values, [None, Some(7.0)]);
        assert_eq!(table.costs[0].verdict, Verdict::Unknown);
        assert!(table.to_string().contains("3ns       -"), "{table}");
    }
}
