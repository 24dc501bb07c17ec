// SPDX-License-Identifier: MIT OR Apache-2.0

//! Reports as JUnit XML, which most CI systems show.

use crate::harness::report::Report;
use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};
use std::time::Duration;

/// One test suite for each report, one test case for each expectation.
///
/// # Errors
/// When serialization fails, which valid XML text does not cause.
pub fn to_junit<'a>(
    reports: impl IntoIterator<Item = (&'a str, &'a Report)>,
) -> Result<String, quick_junit::SerializeError> {
    let mut all = quick_junit::Report::new("bellhop harness");
    for (name, report) in reports {
        let mut suite = TestSuite::new(name);
        suite.set_time(Duration::from_millis(report.elapsed_ms));
        suite.add_property(("seed", report.seed.to_string().as_str()));
        for check in &report.checks {
            let mut status = TestCaseStatus::success();
            if !check.passed {
                status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                status.set_message(format!("{}, not {}", check.seen, check.expected));
            }
            let mut case = TestCase::new(check.what.as_str(), status);
            case.set_classname(name);
            suite.add_test_case(case);
        }
        suite.set_system_out(report.to_string());
        all.add_test_suite(suite);
    }
    all.to_string()
}
