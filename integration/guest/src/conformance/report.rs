// SPDX-License-Identifier: MIT OR Apache-2.0

//! The results of a run.

use quick_junit::{NonSuccessKind, SerializeError, TestCase, TestCaseStatus, TestSuite};
use serde::Serialize;

/// The result of one behaviour.
#[derive(Debug, Serialize)]
pub struct Check {
    /// The behaviour's name.
    pub id: &'static str,
    /// The section of a reference that it comes from.
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
    /// The guest saw it.
    Passed,
    /// The guest saw something else.
    Failed,
    /// This guest's device or VMM does not offer what it needs.
    NotOffered,
}

impl Check {
    /// The result as a test case of JUnit.
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

/// The results of a run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// One result for each behaviour that was tried.
    pub checks: Vec<Check>,
}

impl Report {
    /// Whether no behaviour failed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.count(Outcome::Failed) == 0
    }

    /// The report as JUnit XML, which most CI systems show. Behaviours that are not offered are skipped.
    ///
    /// # Errors
    /// When serialization fails, which valid XML text does not cause.
    pub fn to_junit(&self) -> Result<String, SerializeError> {
        let mut suite = TestSuite::new("bellhop selftest");
        suite.add_test_cases(self.checks.iter().map(Check::test_case));
        let mut report = quick_junit::Report::new("bellhop selftest");
        report.add_test_suite(suite);
        report.to_string()
    }

    pub(super) fn count(&self, outcome: Outcome) -> usize {
        self.checks.iter().filter(|check| check.outcome == outcome).count()
    }
}
