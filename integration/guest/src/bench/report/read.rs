// SPDX-License-Identifier: MIT OR Apache-2.0

//! An earlier report.

use super::Report;
use anyhow::{Context, bail};
use serde_json::Value;
use std::path::Path;

/// How to make a report.
const MAKE_ONE: &str = "make one with `bellhop bench --json > FILE`";

impl Report {
    /// Reads a report that `--json` printed.
    ///
    /// # Errors
    /// When the file cannot be read, is something else, or has another version of the format.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let file = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {file}"))?;
        Self::from_json(&text).with_context(|| format!("cannot use {file}"))
    }

    fn from_json(text: &str) -> anyhow::Result<Self> {
        let no_report = || format!("it is no report of `bellhop bench`; {MAKE_ONE}");
        let json: Value = serde_json::from_str(text).with_context(no_report)?;
        if json["kind"] != Self::KIND {
            let older = json["figures"].is_object() && json["ratios"].is_object();
            if older {
                bail!(
                    "an older bellhop made this report, without a version of the format; {MAKE_ONE}"
                );
            }
            bail!(no_report());
        }
        if json["schema"] != Self::SCHEMA {
            bail!(
                "its format has version {}, and this bellhop reads version {}; {MAKE_ONE}, or use \
                 the bellhop that made it",
                json["schema"],
                Self::SCHEMA
            );
        }
        serde_json::from_value(json).context("the report is damaged")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::{Configuration, Measured};
    use crate::machine::Disturbances;

    fn json() -> Value {
        let mut measured = Measured::default();
        for value in [1.0, 3.0, 2.0] {
            measured.figure("doorbell_rtt_ns_p50", value);
            measured.ratio("doorbell_rtt_over_minimal_path", value, 4.0);
        }
        measured.absent("io_uring_sqpoll_nop_ns_p50", "no");
        let report = measured.report(Configuration::default(), Disturbances::default());
        serde_json::to_value(report).unwrap()
    }

    #[test]
    fn a_report_comes_back_from_its_json() {
        let json = json();
        let report = Report::from_json(&json.to_string()).unwrap();
        assert_eq!(serde_json::to_value(&report).unwrap(), json);
        assert_eq!(report.value("doorbell_rtt_ns_p50"), Some(2.0));
    }

    #[test]
    fn what_is_no_report_of_this_format_is_refused_with_a_reason() {
        let refusal = |text: &str| format!("{:#}", Report::from_json(text).unwrap_err());
        assert!(refusal("cat").contains("no report of `bellhop bench`"), "{}", refusal("cat"));
        assert!(refusal("{\"verified\": true}").contains("no report of `bellhop bench`"));
        let mut older = json();
        older.as_object_mut().unwrap().remove("kind");
        assert!(refusal(&older.to_string()).contains("an older bellhop"));
        let mut newer = json();
        newer["schema"] = 7.into();
        let words = "version 7, and this bellhop reads version 2";
        assert!(refusal(&newer.to_string()).contains(words), "{}", refusal(&newer.to_string()));
        let mut damaged = json();
        damaged["figures"] = "none".into();
        assert!(refusal(&damaged.to_string()).contains("damaged"));
    }
}
