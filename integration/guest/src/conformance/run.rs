// SPDX-License-Identifier: MIT OR Apache-2.0

//! Selecting behaviours, listing them and trying them.

use super::behaviour::{Behaviour, Mismatch, Place};
use super::catalog::behaviours;
use super::programs::{self, Stage, Start};
use super::report::{Check, Outcome, Report};
use super::scene::Scene;
use crate::guest::Guest;
use crate::onlooker::Onlooker;
use crate::output::{put, put_line, wrapped};
use anyhow::Context;
use bellhop_guest_umd::PlacementPolicy;
use serde::Serialize;
use std::fmt::Write as _;
use std::sync::Arc;

/// Selects behaviours.
#[derive(Debug, Clone, Copy, Default)]
pub struct Selection<'a> {
    /// Only behaviours with this in their names.
    pub filter: Option<&'a str>,
    /// No behaviour with one of these in its name.
    pub skip: &'a [String],
}

impl Selection<'_> {
    fn has(&self, id: &str) -> bool {
        self.filter.is_none_or(|text| id.contains(text))
            && !self.skip.iter().any(|text| id.contains(text.as_str()))
    }

    /// Those of `all` that are selected.
    fn of<S>(&self, all: &[&'static Behaviour<S>]) -> anyhow::Result<Vec<&'static Behaviour<S>>> {
        let advice = "`bellhop selftest --list` shows the names";
        for text in self.filter.into_iter().chain(self.skip.iter().map(String::as_str)) {
            let is_known = all.iter().any(|behaviour| behaviour.id.contains(text));
            anyhow::ensure!(is_known, "no behaviour's name contains {text:?}; {advice}");
        }
        let selected: Vec<_> =
            all.iter().copied().filter(|behaviour| self.has(behaviour.id)).collect();
        anyhow::ensure!(!selected.is_empty(), "--skip leaves no behaviour; {advice}");
        Ok(selected)
    }

    fn of_guests(&self) -> anyhow::Result<Vec<&'static Behaviour>> {
        self.of(&behaviours().collect::<Vec<_>>())
    }

    fn of_programs(&self) -> anyhow::Result<Vec<&'static Behaviour<Stage>>> {
        self.of(&programs::behaviours().collect::<Vec<_>>())
    }
}

/// The behaviours, for people or as JSON: of guests, or of programs that share a guest's device.
///
/// # Errors
/// When the selection is empty.
pub fn list(selection: Selection<'_>, of_programs: bool, json: bool) -> anyhow::Result<String> {
    if of_programs {
        listed(&selection.of_programs()?, json)
    } else {
        listed(&selection.of_guests()?, json)
    }
}

fn listed<S>(selected: &[&'static Behaviour<S>], json: bool) -> anyhow::Result<String> {
    #[derive(Serialize)]
    struct Entry {
        id: &'static str,
        section: &'static str,
        shows: &'static str,
    }
    if json {
        let entry = |b: &&Behaviour<S>| Entry { id: b.id, section: b.section, shows: b.shows };
        let entries: Vec<_> = selected.iter().map(entry).collect();
        return Ok(format!("{}\n", serde_json::to_string(&entries)?));
    }
    let mut text = String::new();
    for behaviour in selected {
        let shows = wrapped("    ", behaviour.shows);
        let section = wrapped("    from ", behaviour.section);
        write!(text, "{}\n{shows}{section}", behaviour.id)?;
    }
    Ok(text)
}

/// Tries these behaviours, and prints each for people when `verbose`. Where somebody looks at the guest's monitors, what
/// they show is part of it.
///
/// # Errors
/// When the selection is empty, the device goes, or standard output cannot be written. The report has the
/// behaviours that failed.
pub fn run(
    guest: Arc<dyn Guest>,
    placement: PlacementPolicy,
    onlooker: Option<Arc<dyn Onlooker>>,
    selection: Selection<'_>,
    verbose: bool,
) -> anyhow::Result<Report> {
    let selected = selection.of_guests()?;
    let scene = Scene::new(guest, placement, onlooker).context("cannot open the adapter")?;
    try_all(&selected, &scene, verbose)
}

/// As [`run`], for the behaviours of programs that share a guest's device through its broker. Starts the programs.
///
/// # Errors
/// As [`run`], and when the broker cannot be reached.
pub fn run_programs(
    start: Start,
    selection: Selection<'_>,
    verbose: bool,
) -> anyhow::Result<Report> {
    let selected = selection.of_programs()?;
    let stage = Stage::new(start).context("cannot open the adapter through the broker")?;
    try_all(&selected, &stage, verbose)
}

fn try_all<S: Place>(
    selected: &[&'static Behaviour<S>],
    place: &S,
    verbose: bool,
) -> anyhow::Result<Report> {
    let mut checks = Vec::new();
    for behaviour in selected {
        let result = (behaviour.check)(place);
        let (outcome, verdict) = match &result {
            Ok(()) => (Outcome::Passed, "passed"),
            Err(Mismatch::NotOffered(_)) => (Outcome::NotOffered, "not here"),
            Err(Mismatch::NotSupported(_)) if place.is_part() => (Outcome::NotOffered, "not here"),
            Err(Mismatch::Seen(_) | Mismatch::NotSupported(_)) => (Outcome::Failed, "FAILED"),
        };
        let detail = match (result, place.take_shown()) {
            (Err(seen), _) => seen.to_string(),
            (Ok(()), Some(counted)) => format!("{} ({counted})", behaviour.shows),
            (Ok(()), None) => behaviour.shows.into(),
        };
        if verbose {
            put_line(format_args!("{verdict:<8}  {}", behaviour.id))?;
            put(wrapped("            ", &detail))?;
        }
        checks.push(Check { id: behaviour.id, section: behaviour.section, outcome, detail });
        // Once the device is gone, results would not be about it.
        place.check().with_context(|| {
            let (tried, all) = (checks.len(), selected.len());
            format!("{tried} of {all} behaviours were tried, the last of them {}", behaviour.id)
        })?;
    }
    let report = Report { checks };
    if verbose {
        let [passed, failed, not_offered] =
            [Outcome::Passed, Outcome::Failed, Outcome::NotOffered].map(|o| report.count(o));
        put_line(format_args!("{passed} passed, {failed} failed, {not_offered} not offered here"))?;
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_behaviour_has_a_name_of_its_own_and_says_where_it_is_from() {
        let mut ids = HashSet::new();
        let of_guests = behaviours().map(|b| (b.id, b.section, b.shows));
        let of_programs = programs::behaviours().map(|b| (b.id, b.section, b.shows));
        for (id, section, shows) in of_guests.chain(of_programs) {
            assert!(ids.insert(id), "{id} twice");
            assert!(id.split('.').count() >= 2);
            assert!(!shows.is_empty() && !section.is_empty());
        }
    }

    #[test]
    fn a_filter_that_selects_nothing_is_an_error() {
        let only = |filter| Selection { filter: Some(filter), skip: &[] };
        assert!(list(only("no such behaviour"), false, false).is_err());
        assert!(list(only("doorbell."), false, true).unwrap().starts_with('['));
    }

    #[test]
    fn what_is_skipped_is_left_out_and_must_be_there_to_leave_out() {
        let skip = ["doorbell.victim".to_owned()];
        let all = list(Selection { filter: Some("doorbell."), skip: &[] }, false, false).unwrap();
        let rest =
            list(Selection { filter: Some("doorbell."), skip: &skip }, false, false).unwrap();
        assert!(all.contains("doorbell.victim\n") && !rest.contains("doorbell.victim\n"));
        let misspelt = ["doorbel.victim".to_owned()];
        let error = list(Selection { filter: None, skip: &misspelt }, false, false).unwrap_err();
        assert!(error.to_string().contains("doorbel.victim"), "{error}");
        let everything = ["doorbell.".to_owned()];
        let error = list(Selection { filter: Some("doorbell."), skip: &everything }, false, false);
        assert!(error.unwrap_err().to_string().contains("--skip leaves no behaviour"));
    }

    #[test]
    fn no_line_of_the_list_is_wider_than_a_terminal() {
        for of_programs in [false, true] {
            for line in list(Selection::default(), of_programs, false).unwrap().lines() {
                assert!(line.chars().count() <= crate::output::WIDTH, "{line:?}");
            }
        }
    }
}
