// SPDX-License-Identifier: MIT OR Apache-2.0

//! The budgets of submitting (`cost.toml`), and the comparison of counts with them.

use super::counts::{Counts, Figure};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// The list of budgets, from the workspace's root.
pub const LIST: &str = "integration/xtask/cost.toml";

/// The share of a budget that must be used, or the budget can come down.
const USED: f64 = 0.95;

/// The list of budgets.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct Limits {
    /// The budgets of each side: the engine and the driver.
    sides: BTreeMap<String, Side>,
}

/// The budgets of one side.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Side {
    /// Budgets by load.
    pub budgets: BTreeMap<String, Budget>,
    /// The files and folders of each part.
    pub parts: BTreeMap<String, Vec<String>>,
}

/// Instructions a submission.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// The limit: more fail the check.
    pub budget: f64,
    /// The goal.
    pub target: f64,
}

/// The result of comparing counts with budgets.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Budgets that can come down.
    pub slack: Vec<String>,
    /// Failures.
    pub wrong: Vec<String>,
}

impl Limits {
    /// Reads the list.
    ///
    /// # Errors
    /// When the text is no such list.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| format!("{LIST}: {error}"))
    }

    /// Wants nothing of a side that is not counted.
    pub fn forget(&mut self, side: &str) {
        self.sides.remove(side);
    }

    /// The budget of a figure.
    pub fn budget(&self, figure: &Figure) -> Option<&Budget> {
        self.sides.get(&figure.side)?.budgets.get(&figure.load)
    }

    /// The part of a file of the workspace: the one with the longest matching path.
    pub fn part(&self, side: &str, file: &str) -> Option<&str> {
        let parts = self.sides.get(side)?.parts.iter();
        let listed = parts.flat_map(|(part, paths)| paths.iter().map(move |path| (path, part)));
        let holds = |path: &str| {
            file.strip_prefix(path).is_some_and(|rest| rest.is_empty() || path.ends_with('/'))
        };
        let around = listed.filter(|(path, _)| holds(path));
        around.max_by_key(|(path, _)| path.len()).map(|(_, part)| part.as_str())
    }

    /// Compares counts with the budgets.
    pub fn compare(&self, counts: &Counts) -> Findings {
        let mut findings = Findings::default();
        let counted = counts.totals();
        let listed = self.sides.iter().flat_map(|(side, Side { budgets, .. })| {
            budgets.keys().map(|load| Figure { side: side.clone(), load: load.clone() })
        });
        let figures: BTreeSet<_> = counted.keys().cloned().chain(listed).collect();
        for figure in figures {
            let Figure { side, load } = &figure;
            match (counted.get(&figure), self.budget(&figure)) {
                (Some(count), Some(Budget { budget, .. })) if count > budget => {
                    let more = count - budget;
                    findings.wrong.push(format!(
                        "{side}, {load}: {count:.1} instructions a submission, {more:.1} above the budget of {budget}"
                    ));
                }
                (Some(count), Some(Budget { budget, .. })) if *count < USED * budget => {
                    findings.slack.push(format!(
                        "{side}, {load}: {count:.1} instructions a submission; the budget of {budget} can come down"
                    ));
                }
                (Some(_), Some(_)) | (None, None) => {}
                (Some(_), None) => {
                    findings.wrong.push(format!("{side}, {load}: there is no budget"));
                }
                (None, Some(_)) => findings.wrong.push(format!("{side}, {load}: nothing counted")),
            }
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::counts::Row;

    const TEXT: &str = r#"
[engine.budgets]
one = { budget = 100, target = 50 }
two = { budget = 100, target = 50 }
[engine.parts]
loop = ["a/", "a.rs"]
inner = ["a/b.rs", "a/c/"]
"#;

    fn compared(text: &str, counts: &[(&str, f64)]) -> Findings {
        let row = |function: &str| Row { part: "loop".into(), function: function.into() };
        let figures = counts.iter().map(|(load, count)| {
            let figure = Figure { side: "engine".into(), load: (*load).into() };
            (figure, BTreeMap::from([(row("f"), count / 2.0), (row("g"), count / 2.0)]))
        });
        Limits::parse(text).unwrap().compare(&Counts(figures.collect()))
    }

    #[test]
    fn a_count_at_its_budget_passes_and_one_above_it_fails() {
        assert_eq!(compared(TEXT, &[("one", 100.0), ("two", 95.0)]), Findings::default());
        let Findings { slack, wrong } = compared(TEXT, &[("one", 100.5), ("two", 95.0)]);
        let expected = "engine, one: 100.5 instructions a submission, 0.5 above the budget of 100";
        assert_eq!((slack, wrong), (vec![], vec![expected.to_owned()]));
    }

    #[test]
    fn a_budget_far_above_its_count_can_come_down() {
        let Findings { slack, wrong } = compared(TEXT, &[("one", 94.0), ("two", 95.0)]);
        let expected =
            "engine, one: 94.0 instructions a submission; the budget of 100 can come down";
        assert_eq!((slack, wrong), (vec![expected.to_owned()], vec![]));
    }

    #[test]
    fn a_count_without_a_budget_fails_and_so_does_a_budget_without_a_count() {
        let Findings { wrong, .. } = compared(TEXT, &[("one", 100.0), ("three", 1.0)]);
        assert_eq!(wrong, ["engine, three: there is no budget", "engine, two: nothing counted"]);
    }

    #[test]
    fn a_misspelt_key_is_refused() {
        let error = Limits::parse(&TEXT.replacen("budget =", "bugdet =", 1)).unwrap_err();
        assert!(error.contains("bugdet"), "{error}");
    }

    #[test]
    fn a_file_is_in_the_part_that_names_most_of_its_path() {
        let limits = Limits::parse(TEXT).unwrap();
        let part = |file| limits.part("engine", file);
        assert_eq!(part("a/x.rs"), Some("loop"));
        assert_eq!(part("a.rs"), Some("loop"));
        assert_eq!(part("a/b.rs"), Some("inner"));
        assert_eq!(part("a/c/d.rs"), Some("inner"));
        assert_eq!(part("a.rs.old"), None);
        assert_eq!(limits.part("driver", "a.rs"), None);
    }

    #[test]
    fn every_file_of_the_shipped_list_exists() {
        let root = crate::workspace::root();
        let limits = Limits::parse(&std::fs::read_to_string(root.join(LIST)).unwrap()).unwrap();
        let listed = limits.sides.values().flat_map(|side| side.parts.values().flatten());
        let gone: Vec<_> = listed.filter(|path| !root.join(path).exists()).collect();
        assert_eq!(gone, [""; 0]);
    }
}
