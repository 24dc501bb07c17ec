//! The conformance suite: named behaviours that every guest may rely on.
//!
//! Each is a function that runs inside the guest, over the guest's own transport, and knows
//! nothing of the host. Ids are `area.object.behaviour`; a file holds those of one area.

mod adapter;
mod context;
mod doorbell;
mod fault;
mod fence;
mod fence_cpu;
mod fence_cross;
mod fence_log;
mod fence_monitored;
mod fence_rewind;
mod fence_sharing;
mod fence_types;
mod handle;
mod km;
mod memory;
mod memory_sharing;
mod packet;
mod paging;
mod power;
mod process;
mod raw;
mod scene;
mod sched;
mod taken_away;
mod tdr;
mod um;
mod virtqueue;

use crate::guest::Guest;
use crate::output::{put, put_line, wrapped};
use anyhow::Context;
use bellhop_guest_umd::PlacementPolicy;
use quick_junit::{NonSuccessKind, SerializeError, TestCase, TestCaseStatus, TestSuite};
use scene::Scene;
use serde::Serialize;
use std::fmt::Write as _;
use std::sync::Arc;

/// One behaviour.
struct Behaviour {
    /// Its name.
    id: &'static str,
    /// What it shows, in one line.
    shows: &'static str,
    /// Where the behaviour comes from.
    section: &'static str,
    /// Tries it; the error says what was seen instead.
    check: fn(&Scene) -> Result<(), Mismatch>,
}

/// Why a behaviour was not seen.
#[derive(Debug, thiserror::Error)]
enum Mismatch {
    /// What was seen instead.
    #[error("{0}")]
    Seen(String),
    /// This place does not offer what the behaviour is about.
    #[error("{0}")]
    NotOffered(String),
}

impl From<bellhop_guest_umd::Error> for Mismatch {
    fn from(error: bellhop_guest_umd::Error) -> Self {
        match error {
            bellhop_guest_umd::Error::NotAvailable(_) => Self::NotOffered(error.to_string()),
            error => Self::Seen(error.to_string()),
        }
    }
}

/// Fails a behaviour unless a condition holds.
macro_rules! require {
    ($condition:expr, $($seen:tt)+) => {
        if !$condition {
            return Err($crate::conformance::Mismatch::Seen(format!($($seen)+)));
        }
    };
}
use require;

/// The sections that behaviours come from.
mod source {
    pub(super) const UM_INTRODUCTION: &str = "User-mode work submission (introduction)";
    pub(super) const UM_DOORBELLS: &str = "User-mode work submission: Doorbells";
    pub(super) const UM_DISCOVERY: &str =
        "User-mode work submission: Discovering user-mode work submission support";
    pub(super) const UM_HW_QUEUE: &str =
        "User-mode work submission: D3DDDI_CREATEHWQUEUEFLAGS::UserModeSubmission";
    pub(super) const UM_APIS: &str = "User-mode work submission: User-mode work submission APIs";
    pub(super) const UM_RESIDENCY: &str =
        "User-mode work submission: Residency model of doorbell memory and ring buffer allocations";
    pub(super) const UM_PROGRESS: &str =
        "User-mode work submission: HW queue progress fence changes";
    pub(super) const UM_PSEUDOCODE: &str =
        "User-mode work submission: Work submission pseudocode in UMD";
    pub(super) const UM_VICTIM: &str =
        "User-mode work submission: Victimizing doorbell pseudocode in KMD";
    pub(super) const UM_SUSPENSION: &str = "User-mode work submission: Hardware context suspension";
    pub(super) const UM_F_STATES: &str = "User-mode work submission: Engine F-state transitions";
    pub(super) const UM_D_STATES: &str = "User-mode work submission: Engine D-state transitions";
    pub(super) const UM_TERMINATION: &str =
        "User-mode work submission: Normal and abnormal process termination";
    pub(super) const FENCE_NATIVE: &str =
        "Native GPU fence object: GPU native fence synchronization object";
    pub(super) const FENCE_DESIGN: &str =
        "Native GPU fence object: GPU native fence sync object design";
    pub(super) const FENCE_EXISTING: &str =
        "Native GPU fence object: Existing monitored fence synchronization object";
    pub(super) const FENCE_STORAGE: &str =
        "Native GPU fence object: Physical memory storage for current and monitored fence values";
    pub(super) const FENCE_CAPS: &str = "Native GPU fence object: Native fence caps";
    pub(super) const FENCE_TYPES: &str = "Native GPU fence object: D3DDDI_NATIVEFENCE_TYPE";
    pub(super) const FENCE_OPEN: &str =
        "Native GPU fence object: D3DKMTOpenNativeFenceFromNTHandle";
    pub(super) const FENCE_CROSS_ADAPTER: &str =
        "Native GPU fence object: Cross-adapter native fences";
    pub(super) const FENCE_CPU_SIGNAL: &str =
        "Native GPU fence object: DdiUpdateCurrentValuesFromCpu";
    pub(super) const FENCE_SYNC: &str = "Native GPU fence object: Synchronization issues";
    pub(super) const FENCE_LOG: &str = "Native GPU fence object: Native fence log buffer design";
    pub(super) const FENCE_LOG_ORDER: &str =
        "Native GPU fence object: Order of Operations on GPU when signaling or unblocking a fence";
    pub(super) const FENCE_LOG_OVERRUN: &str =
        "Native GPU fence object: Log buffer overrun is permitted";
    pub(super) const FENCE_ALWAYS_SIGNALED: &str = "Native GPU fence object: AlwaysSignaled";
    pub(super) const FENCE_PROGRESS: &str = "Native GPU fence object: Native HWQueueProgressFence";
    pub(super) const FENCE_HANDLES: &str =
        "Native GPU fence object: Global and local handles for shared fences";
    pub(super) const KMD_DMA: &str = "Windows KMD overview: DMA buffers";
    pub(super) const KMD_INTERRUPT: &str = "Windows KMD overview: Interrupt";
    pub(super) const KMD_ENGINES: &str = "Windows KMD overview: Engines, nodes, contexts, etc.";
    pub(super) const KMD_TDR: &str = "Windows KMD overview: TDR";
    pub(super) const KMD_RINGS: &str = "Windows KMD overview: Ring buffers and the CP";
    pub(super) const KMD_ALLOCATIONS: &str = "Windows KMD overview: Allocations";
    pub(super) const KMD_PAGING: &str = "Windows KMD overview: Build paging buffer";
    pub(super) const KMD_MIGRATION: &str = "Windows KMD overview: Page migration";
    pub(super) const KMD_VIRTUAL: &str = "Windows KMD overview: Physical vs virtual submission";
    pub(super) const KMD_ESCAPE: &str = "Windows KMD overview: The External Events Utility";
    pub(super) const NOTIFICATION: &str =
        "Allocation notification: How to request allocation notifications";
    pub(super) const PROTOCOL_DEVICE: &str = "docs/protocol.md: 1. The virtio device";
    pub(super) const PROTOCOL_PACKETS: &str = "docs/protocol.md: 5. Packets";
    pub(super) const PROTOCOL_REQUESTS: &str = "docs/protocol.md: 6. Requests";
    pub(super) const VIRTIO: &str = "VIRTIO 1.3: 2.7 Split Virtqueues";
}

/// All behaviours, in the order in which they run.
fn behaviours() -> impl Iterator<Item = &'static Behaviour> {
    [
        adapter::BEHAVIOURS,
        handle::BEHAVIOURS,
        memory::BEHAVIOURS,
        memory_sharing::BEHAVIOURS,
        paging::BEHAVIOURS,
        taken_away::BEHAVIOURS,
        packet::BEHAVIOURS,
        um::BEHAVIOURS,
        doorbell::BEHAVIOURS,
        context::BEHAVIOURS,
        sched::BEHAVIOURS,
        power::BEHAVIOURS,
        process::BEHAVIOURS,
        fence::BEHAVIOURS,
        fence_cpu::BEHAVIOURS,
        fence_log::BEHAVIOURS,
        fence_sharing::BEHAVIOURS,
        fence_types::BEHAVIOURS,
        fence_cross::BEHAVIOURS,
        fence_monitored::BEHAVIOURS,
        fence_rewind::BEHAVIOURS,
        km::BEHAVIOURS,
        fault::BEHAVIOURS,
        tdr::BEHAVIOURS,
        virtqueue::BEHAVIOURS,
    ]
    .into_iter()
    .flatten()
}

/// Which behaviours are tried.
#[derive(Debug, Clone, Copy, Default)]
pub struct Selection<'a> {
    /// Those whose names contain this.
    pub filter: Option<&'a str>,
    /// But none whose names contain one of these.
    pub skip: &'a [String],
}

impl Selection<'_> {
    fn has(&self, id: &str) -> bool {
        self.filter.is_none_or(|text| id.contains(text))
            && !self.skip.iter().any(|text| id.contains(text.as_str()))
    }

    fn behaviours(&self) -> anyhow::Result<Vec<&'static Behaviour>> {
        let advice = "`bellhop selftest --list` shows the names";
        for text in self.filter.into_iter().chain(self.skip.iter().map(String::as_str)) {
            let is_known = behaviours().any(|behaviour| behaviour.id.contains(text));
            anyhow::ensure!(is_known, "no behaviour's name contains {text:?}; {advice}");
        }
        let selected: Vec<_> = behaviours().filter(|behaviour| self.has(behaviour.id)).collect();
        anyhow::ensure!(!selected.is_empty(), "--skip leaves no behaviour; {advice}");
        Ok(selected)
    }
}

/// The behaviours, for people or as JSON.
///
/// # Errors
/// When there is none.
pub fn list(selection: Selection<'_>, json: bool) -> anyhow::Result<String> {
    #[derive(Serialize)]
    struct Entry {
        id: &'static str,
        section: &'static str,
        shows: &'static str,
    }
    let selected = selection.behaviours()?;
    if json {
        let entry = |b: &&Behaviour| Entry { id: b.id, section: b.section, shows: b.shows };
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

/// What came of one behaviour.
#[derive(Debug, Serialize)]
pub struct Check {
    /// The behaviour's name.
    pub id: &'static str,
    /// Where it comes from.
    pub section: &'static str,
    /// Whether it was seen.
    pub outcome: Outcome,
    /// What it shows, what was seen instead, or why it is not offered.
    pub detail: String,
}

/// Whether a behaviour was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It was.
    Passed,
    /// Something else was.
    Failed,
    /// This place does not offer what it is about.
    NotOffered,
}

impl Check {
    /// As a test case of JUnit's.
    fn test_case(&self) -> TestCase {
        let status = match self.outcome {
            Outcome::Passed => TestCaseStatus::success(),
            Outcome::Failed => {
                let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                status.set_message(self.detail.as_str());
                status
            }
            Outcome::NotOffered => {
                let mut status = TestCaseStatus::skipped();
                status.set_message(self.detail.as_str());
                status
            }
        };
        let mut case = TestCase::new(self.id, status);
        case.set_classname(self.section);
        case
    }
}

/// What came of a run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// One for each behaviour that was tried.
    pub checks: Vec<Check>,
}

impl Report {
    /// Whether every behaviour was seen that this place offers.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.count(Outcome::Failed) == 0
    }

    /// As JUnit XML, which most CI systems show: what is not offered is skipped.
    ///
    /// # Errors
    /// None for text that is XML, which control characters are not.
    pub fn to_junit(&self) -> Result<String, SerializeError> {
        let mut suite = TestSuite::new("bellhop selftest");
        suite.add_test_cases(self.checks.iter().map(Check::test_case));
        let mut report = quick_junit::Report::new("bellhop selftest");
        report.add_test_suite(suite);
        report.to_string()
    }

    fn count(&self, outcome: Outcome) -> usize {
        self.checks.iter().filter(|check| check.outcome == outcome).count()
    }
}

/// Tries these behaviours, telling people of each when `verbose`.
///
/// # Errors
/// When there is none, the device goes, or standard output cannot be written. A behaviour that is not
/// seen is in the report.
pub fn run(
    guest: Arc<dyn Guest>,
    placement: PlacementPolicy,
    selection: Selection<'_>,
    verbose: bool,
) -> anyhow::Result<Report> {
    let selected = selection.behaviours()?;
    let scene = Scene::new(guest, placement).context("cannot open the adapter")?;
    let mut checks = Vec::new();
    for behaviour in &selected {
        let result = (behaviour.check)(&scene);
        let (outcome, verdict) = match &result {
            Ok(()) => (Outcome::Passed, "passed"),
            Err(Mismatch::Seen(_)) => (Outcome::Failed, "FAILED"),
            Err(Mismatch::NotOffered(_)) => (Outcome::NotOffered, "not here"),
        };
        let detail = match (result, scene.take_shown()) {
            (Err(seen), _) => seen.to_string(),
            (Ok(()), Some(counted)) => format!("{} ({counted})", behaviour.shows),
            (Ok(()), None) => behaviour.shows.into(),
        };
        if verbose {
            put_line(format_args!("{verdict:<8}  {}", behaviour.id))?;
            put(wrapped("            ", &detail))?;
        }
        checks.push(Check { id: behaviour.id, section: behaviour.section, outcome, detail });
        // Without a device nothing else says anything about it.
        scene.transport().check().with_context(|| {
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
        for behaviour in behaviours() {
            assert!(ids.insert(behaviour.id), "{} twice", behaviour.id);
            assert!(behaviour.id.split('.').count() >= 2);
            assert!(!behaviour.shows.is_empty() && !behaviour.section.is_empty());
        }
    }

    #[test]
    fn a_filter_that_selects_nothing_is_an_error() {
        let only = |filter| Selection { filter: Some(filter), skip: &[] };
        assert!(list(only("no such behaviour"), false).is_err());
        assert!(list(only("doorbell."), true).unwrap().starts_with('['));
    }

    #[test]
    fn what_is_skipped_is_left_out_and_must_be_there_to_leave_out() {
        let skip = ["doorbell.victim".to_owned()];
        let all = list(Selection { filter: Some("doorbell."), skip: &[] }, false).unwrap();
        let rest = list(Selection { filter: Some("doorbell."), skip: &skip }, false).unwrap();
        assert!(all.contains("doorbell.victim\n") && !rest.contains("doorbell.victim\n"));
        let misspelt = ["doorbel.victim".to_owned()];
        let error = list(Selection { filter: None, skip: &misspelt }, false).unwrap_err();
        assert!(error.to_string().contains("doorbel.victim"), "{error}");
        let everything = ["doorbell.".to_owned()];
        let error = list(Selection { filter: Some("doorbell."), skip: &everything }, false);
        assert!(error.unwrap_err().to_string().contains("--skip leaves no behaviour"));
    }

    #[test]
    fn no_line_of_the_list_is_wider_than_a_terminal() {
        for line in list(Selection::default(), false).unwrap().lines() {
            assert!(line.chars().count() <= crate::output::WIDTH, "{line:?}");
        }
    }
}
