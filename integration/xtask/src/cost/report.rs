// SPDX-License-Identifier: MIT OR Apache-2.0

//! Counts as tables for people and as JSON for programs.

use super::counts::{Counts, Figure};
use super::limits::Limits;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Instructions a submission from which a function gets a line.
const WORTH_A_LINE: f64 = 0.5;

/// A table for each side: a line for each part, or for each function.
pub fn table(counts: &Counts, limits: &Limits, by_function: bool) -> String {
    let sides: BTreeSet<_> = counts.0.keys().map(|figure| figure.side.as_str()).collect();
    let mut text = String::new();
    for side in sides {
        let figures: Vec<_> = counts.0.keys().filter(|figure| figure.side == side).collect();
        let mut lines: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for (column, figure) in figures.iter().enumerate() {
            for (name, count) in names(counts, figure, by_function) {
                lines.entry(name).or_insert_with(|| vec![0.0; figures.len()])[column] += count;
            }
        }
        let mut lines: Vec<_> = lines.into_iter().collect();
        lines.retain(|(_, counts)| !by_function || counts.iter().any(|c| *c >= WORTH_A_LINE));
        lines
            .sort_by(|(_, one), (_, other)| other.iter().sum::<f64>().total_cmp(&one.iter().sum()));
        let loads = figures.iter().map(|figure| figure.load.clone());
        let _ = writeln!(text, "{}", line(side, loads));
        for (name, counts) in lines {
            let _ =
                writeln!(text, "{}", line(&name, counts.iter().map(|count| format!("{count:.1}"))));
        }
        let totals = counts.totals();
        let total =
            |figure: &&Figure| format!("{:.1}", totals.get(*figure).copied().unwrap_or_default());
        let _ = writeln!(text, "{}", line("total", figures.iter().map(total)));
        for (name, value) in [("budget", true), ("target", false)] {
            let cells = figures.iter().map(|figure| match limits.budget(figure) {
                Some(budget) if value => budget.budget.to_string(),
                Some(budget) => budget.target.to_string(),
                None => "-".to_owned(),
            });
            let _ = writeln!(text, "{}", line(name, cells));
        }
        text.push('\n');
    }
    text
}

/// Parts and functions with their counts.
fn names(counts: &Counts, figure: &Figure, by_function: bool) -> Vec<(String, f64)> {
    if !by_function {
        let parts = counts.parts(figure).into_iter();
        return parts.map(|(part, count)| (part.to_owned(), count)).collect();
    }
    let rows = counts.0.get(figure).into_iter().flatten();
    rows.map(|(row, count)| (format!("{}: {}", row.part, row.function), *count)).collect()
}

fn line(name: &str, cells: impl Iterator<Item = String>) -> String {
    let cells: String = cells.map(|cell| format!(" {cell:>18}")).collect();
    format!("{name:<28}{cells}")
}

/// The counts by side, load and part, with the budgets.
pub fn json(counts: &Counts, limits: &Limits) -> Value {
    let totals = counts.totals();
    let mut sides = Map::new();
    for figure in counts.0.keys() {
        let budget = limits.budget(figure);
        let side = sides.entry(figure.side.clone()).or_insert_with(|| json!({}));
        side[&figure.load] = json!({
            "parts": counts.parts(figure),
            "total": totals.get(figure),
            "budget": budget.map(|budget| budget.budget),
            "target": budget.map(|budget| budget.target),
        });
    }
    Value::Object(sides)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::counts::Row;

    fn counts() -> (Counts, Limits) {
        let row = |part: &str, function: &str| Row { part: part.into(), function: function.into() };
        let figure = Figure { side: "engine".into(), load: "one".into() };
        let rows = [(row("loop", "f"), 20.0), (row("loop", "g"), 0.25), (row("fetch", "h"), 3.0)];
        let limits = "[engine]\nbudgets = { one = { budget = 24, target = 10 } }\nparts = {}";
        (Counts([(figure, rows.into())].into()), Limits::parse(limits).unwrap())
    }

    fn words(table: &str) -> Vec<Vec<&str>> {
        table.lines().map(|line| line.split_whitespace().collect()).collect()
    }

    #[test]
    fn a_table_has_the_dearest_first_and_the_budgets_last() {
        let (counts, limits) = counts();
        let table = table(&counts, &limits, false);
        let expected: [&[&str]; 7] = [
            &["engine", "one"],
            &["loop", "20.2"],
            &["fetch", "3.0"],
            &["total", "23.2"],
            &["budget", "24"],
            &["target", "10"],
            &[],
        ];
        assert_eq!(words(&table), expected);
    }

    #[test]
    fn a_table_by_function_leaves_out_what_costs_next_to_nothing() {
        let (counts, limits) = counts();
        let table = table(&counts, &limits, true);
        assert_eq!(
            words(&table)[1..4],
            [vec!["loop:", "f", "20.0"], vec!["fetch:", "h", "3.0"], vec!["total", "23.2"]]
        );
    }

    #[test]
    fn json_has_all_of_it() {
        let (counts, limits) = counts();
        let parts = json!({ "fetch": 3.0, "loop": 20.25 });
        let one = json!({ "parts": parts, "total": 23.25, "budget": 24.0, "target": 10.0 });
        assert_eq!(json(&counts, &limits), json!({ "engine": { "one": one } }));
    }
}
