// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bellhop bench`: its files, and reports beside earlier ones.

use crate::support::kernels::worker;
use crate::support::{bellhop, succeed, text};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

/// The exit status of a regression.
const REGRESSED: i32 = 3;

/// A report of one measurement, and the folder that contains it as `report.json`.
struct Measured {
    folder: tempfile::TempDir,
    report: Value,
}

impl Measured {
    fn new(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut bench = bellhop();
        bench.args(["bench", "--samples", "64", "--repetitions", "2", "--json"]).args(arguments);
        let json = succeed(bench.current_dir(folder.path()).output().unwrap());
        fs::write(folder.path().join("report.json"), &json).unwrap();
        Self { report: serde_json::from_str(&json).unwrap(), folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a report with this value of a ratio in each repetition.
    fn with_ratio(&self, file: &str, name: &str, value: f64) -> PathBuf {
        let mut report = self.report.clone();
        report["ratios"][name] = value.into();
        report["values"][name] = vec![value; 2].into();
        let path = self.path(file);
        fs::write(&path, report.to_string()).unwrap();
        path
    }
}

fn compare(now: &Path, before: &Path, more: &[&str]) -> Output {
    let mut bench = bellhop();
    bench.arg("bench").arg("--report").arg(now).arg("--compare").arg(before).args(more);
    bench.output().unwrap()
}

#[test]
fn a_worse_report_is_told_by_the_exit_status_and_an_equal_one_is_not() {
    let measured = Measured::new(&["round-trip"]);
    let same = measured.path("report.json");
    let output = compare(&same, &same, &[]);
    let shown = succeed(output);
    assert!(shown.contains("no regression") && !shown.contains("differs:"), "{shown}");

    let ratio = "doorbell_rtt_over_kernel_mode_path";
    let fast = measured.with_ratio("fast.json", ratio, 0.01);
    let slow = measured.with_ratio("slow.json", ratio, 0.02);
    let output = compare(&slow, &fast, &[]);
    assert_eq!(output.status.code(), Some(REGRESSED), "{output:?}");
    let shown = text(&output.stdout);
    assert!(shown.contains("! doorbell rtt over kernel mode path"), "{shown}");
    assert!(shown.contains("2.000 (2.000 to 2.000)") && shown.contains("REGRESSION"), "{shown}");
    let compared = shown.lines().skip_while(|line| !line.starts_with("compared with"));
    for line in compared.skip(2) {
        assert!(line.chars().count() <= 80, "{line:?}");
    }

    let shown = succeed(compare(&fast, &slow, &["--json"]));
    let comparison = &serde_json::from_str::<Value>(&shown).unwrap()["comparison"];
    assert_eq!(comparison["regressed"], false);
    let rows = comparison["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == ratio).unwrap();
    assert_eq!((&row["verdict"], &row["decides"]), (&"better".into(), &true.into()));

    let mut elsewhere = measured.report.clone();
    elsewhere["machine"]["processor"] = "an abacus".into();
    let path = measured.path("elsewhere.json");
    fs::write(&path, elsewhere.to_string()).unwrap();
    let shown = succeed(compare(&same, &path, &[]));
    assert!(shown.contains("differs: processor: an abacus before"), "{shown}");
}

#[test]
fn a_file_that_is_no_report_is_refused_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let refusal = |contents: &str| {
        let path = folder.path().join("before.json");
        fs::write(&path, contents).unwrap();
        let output = bellhop().args(["bench", "--compare"]).arg(&path).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{output:?}");
        let errors = text(&output.stderr).to_owned();
        assert!(errors.contains("before.json") && !errors.contains("measuring"), "{errors}");
        errors
    };
    assert!(refusal("a letter").contains("it is no report of `bellhop bench`"));
    assert!(refusal("{\"verified\": true}").contains("it is no report of `bellhop bench`"));
    assert!(refusal("{\"figures\": {}, \"ratios\": {}}").contains("an older bellhop made"));
    let other = refusal("{\"kind\": \"bellhop bench\", \"schema\": 1000}");
    assert!(other.contains("version 1000, and this bellhop reads version 2"), "{other}");
    let output = bellhop().args(["bench", "--compare", "/nonexistent/x"]).output().unwrap();
    assert!(text(&output.stderr).contains("cannot read /nonexistent/x"), "{output:?}");
}

#[test]
fn files_are_written_beside_what_is_printed_and_again_from_a_report() {
    let measured = Measured::new(&["batch", "--csv", "a.csv", "--svg", "a.svg"]);
    let read = |name: &str| fs::read_to_string(measured.path(name)).unwrap();
    let csv = read("a.csv");
    assert!(csv.starts_with("kind,name,repetition,value,absent,version,commit,time,"), "{csv}");
    let rates = csv.lines().filter(|line| {
        line.starts_with("figure,ring_once_wait_last_depth_64_submissions_per_second,")
    });
    assert_eq!(rates.count(), 2, "{csv}");
    let again = bellhop()
        .args(["bench", "--report", "report.json", "--csv", "b.csv", "--svg", "b.svg"])
        .current_dir(measured.folder.path())
        .output()
        .unwrap();
    assert!(succeed(again).contains("ring once wait last depth 64"));
    assert!(read("b.csv") == csv && read("b.svg") == read("a.svg"), "they are not the same");
    assert!(read("a.svg").starts_with("<svg"));
    for key in ["version", "commit", "processor", "kernel", "governor", "time"] {
        assert!(measured.report["machine"].get(key).is_some(), "{key}");
    }
}

#[test]
fn what_many_cost_is_measured_and_told_with_its_growth() {
    let measured = Measured::new(&["scale", "--most", "2", "--svg", "a.svg"]);
    let report = &measured.report;
    let tables = report["scale"].as_array().unwrap();
    let costs = |subject: &str| {
        let table = tables.iter().find(|table| table["subject"] == subject).unwrap();
        assert_eq!(table["counts"], serde_json::json!([1, 2]), "{subject}");
        for cost in table["costs"].as_array().unwrap() {
            assert!(cost["verdict"].is_string(), "{cost}");
            // The first doorbell is there before any is measured; memory is counted in pages.
            let last = &cost["values"][1];
            assert!(
                last.as_f64().is_some_and(|value| value > 0.0) || cost["name"] == "memory_bytes"
            );
        }
        table["costs"].as_array().unwrap().len()
    };
    let expected = [("guests", 7), ("queues", 7), ("doorbells", 7), ("requests", 3)];
    assert_eq!(expected.map(|(subject, _)| (subject, costs(subject))), expected);
    let figure = |name: &str| report["figures"][name].as_f64();
    assert!(figure("scale_guests_exponent_of_attach_ns").is_some());
    assert!(figure("scale_costs_above_their_work").is_some());
    // Where there is no Vulkan, the reason is told.
    let workers = tables.iter().any(|table| table["subject"] == "workers");
    assert!(workers || report["absent"]["scale_workers"].is_string(), "{report}");
    assert_eq!(report["configuration"]["suites"], serde_json::json!(["scale"]));
    assert!(fs::read_to_string(measured.path("a.svg")).unwrap().contains("Costs of guests"));
    let shown = bellhop().args(["bench", "--report"]).arg(measured.path("report.json")).output();
    let shown = succeed(shown.unwrap());
    assert!(shown.contains("end one, attach one") && shown.contains("growth"), "{shown}");
    for line in shown.lines() {
        assert!(line.chars().count() <= 80, "{line:?}");
    }
}

/// The program with the driver checks what it computes.
#[test]
fn programs_with_vulkan_are_measured_beside_the_doorbell_and_beside_the_host_s_vulkan() {
    if worker("no program with Vulkan is measured").is_none() {
        return;
    }
    let measured = Measured::new(&["vulkan", "--vulkan", "debian-13"]);
    for ratio in [
        "vulkan_submission_over_doorbell_rtt",
        "vulkan_dispatch_over_native",
        "vulkan_batch_over_native",
    ] {
        let value = measured.report["ratios"][ratio].as_f64();
        assert!(value.is_some_and(|value| value > 0.0), "{ratio}: {}", measured.report);
    }
}

#[test]
fn the_help_says_what_a_comparison_exits_with() {
    let shown = succeed(bellhop().args(["bench", "--help"]).output().unwrap());
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("Exits with 0 if there is none, 1 if"), "{shown}");
    assert!(words.contains("3 for a regression"), "{shown}");
}
