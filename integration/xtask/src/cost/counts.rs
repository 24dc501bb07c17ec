// SPDX-License-Identifier: MIT OR Apache-2.0

//! Instructions a submission, computed from the counts of sections of batches.

use std::collections::{BTreeMap, BTreeSet};

/// The subject of a count.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Figure {
    /// `engine` or `driver`.
    pub side: String,
    /// The way of submitting.
    pub load: String,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    /// The part.
    pub part: String,
    /// The function.
    pub function: String,
}

/// A section of the counted program: batches of one kind.
#[derive(Debug)]
pub struct Section {
    /// The subject.
    pub figure: Figure,
    /// The number of batches.
    pub batches: u32,
    /// Submissions in each batch. With none, the section counts the cost of a batch without submissions: the round
    /// in which an engine finds no more work.
    pub depth: u32,
    /// The instructions of all batches.
    pub costs: BTreeMap<Row, u64>,
}

/// Instructions a submission.
#[derive(Debug)]
pub struct Counts(pub BTreeMap<Figure, BTreeMap<Row, f64>>);

impl Counts {
    /// The sections' costs, each without those of the batches without submissions that came last before it on its side.
    pub fn of(sections: &[Section]) -> Self {
        let (mut counts, mut empty) = (BTreeMap::new(), BTreeMap::new());
        for section in sections {
            let side = section.figure.side.as_str();
            if section.depth == 0 {
                empty.insert(side, section);
            } else {
                counts.insert(section.figure.clone(), section.without(empty.get(side).copied()));
            }
        }
        Self(counts)
    }

    /// The sum of each figure.
    pub fn totals(&self) -> BTreeMap<Figure, f64> {
        let sum = |rows: &BTreeMap<Row, f64>| rows.values().sum();
        self.0.iter().map(|(figure, rows)| (figure.clone(), sum(rows))).collect()
    }

    /// The sum of each part of a figure.
    pub fn parts(&self, figure: &Figure) -> BTreeMap<&str, f64> {
        let mut parts = BTreeMap::new();
        for (row, count) in self.0.get(figure).into_iter().flatten() {
            *parts.entry(row.part.as_str()).or_default() += count;
        }
        parts
    }
}

impl Section {
    fn without(&self, empty: Option<&Self>) -> BTreeMap<Row, f64> {
        let none = BTreeMap::new();
        let (nothing, batches) = empty.map_or((&none, 1), |empty| (&empty.costs, empty.batches));
        let rows: BTreeSet<&Row> = self.costs.keys().chain(nothing.keys()).collect();
        let a_batch = |costs: &BTreeMap<Row, u64>, row, batches: u32| {
            costs.get(row).copied().unwrap_or_default() as f64 / f64::from(batches)
        };
        let cost = |row| a_batch(&self.costs, row, self.batches) - a_batch(nothing, row, batches);
        rows.into_iter().map(|row| (row.clone(), cost(row) / f64::from(self.depth))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(side: &str, load: &str, (batches, depth): (u32, u32), costs: &[u64]) -> Section {
        let figure = Figure { side: side.into(), load: load.into() };
        let row = |function: usize| Row { part: "p".into(), function: function.to_string() };
        let costs = costs.iter().enumerate().map(|(function, cost)| (row(function), *cost));
        Section { figure, batches, depth, costs: costs.collect() }
    }

    #[test]
    fn counts_are_of_a_submission_and_without_what_a_batch_costs_that_has_none() {
        let counts = Counts::of(&[
            section("engine", "nothing", (2, 0), &[20]),
            section("engine", "deep", (10, 4), &[140, 40]),
            section("driver", "deep", (10, 4), &[40]),
            section("engine", "another-nothing", (2, 0), &[60]),
            section("engine", "later", (10, 4), &[380]),
        ]);
        let totals: Vec<_> = counts.totals().into_values().collect();
        assert_eq!(totals, [1.0, 2.0, 2.0], "of the driver's, the engine's, and the later one");
        let figure = Figure { side: "engine".into(), load: "deep".into() };
        assert_eq!(counts.parts(&figure), BTreeMap::from([("p", 2.0)]));
    }
}
