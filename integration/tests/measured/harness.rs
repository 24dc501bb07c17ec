// SPDX-License-Identifier: MIT OR Apache-2.0

//! Scenarios, as a person runs them: shipped ones, malformed ones, and failing ones.

use crate::alone;
use crate::support::{self, bellhop, text, words};
use bellhop_integration::harness::{EXAMPLES, Options, Report, Scenario, to_junit};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long the random scenario runs here; a person can let it run for hours.
const STRESS: Duration = Duration::from_secs(60);

fn run(scenario: &Scenario, options: &Options) -> Report {
    let _alone = alone();
    scenario.run(options).unwrap()
}

#[test]
fn every_scenario_that_bellhop_has_passes() {
    for example in EXAMPLES.iter().filter(|example| example.name != "stress") {
        let report = run(&Scenario::example(example.name).unwrap(), &Options::default());
        println!("{}\n{report}", example.name);
        assert!(report.passed, "{}\n{report}", example.name);
    }
}

#[test]
fn the_random_scenario_passes() {
    let options = Options { duration: Some(STRESS), ..Options::default() };
    let report = run(&Scenario::example("stress").unwrap(), &options);
    println!("{report}");
    assert!(report.passed, "{report}");
    assert!(report.events.len() > 100, "{report}");
}

#[test]
fn every_file_says_what_it_shows_and_is_listed() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
    let files: BTreeSet<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    let names: BTreeSet<_> =
        EXAMPLES.iter().map(|example| format!("{}.toml", example.name)).collect();
    assert_eq!(files, names);
    let listed = support::run(bellhop().args(["harness", "--list"]));
    for example in EXAMPLES {
        assert!(example.text.starts_with("# "), "{} does not say what it shows", example.name);
        let scenario = Scenario::example(example.name).unwrap();
        assert!(listed.contains(example.name) && words(&listed).contains(&words(&scenario.title)));
    }
}

const SMALL: &str = r#"
title = "small"
[[guest]]
name = "vm"
context = [{ queue = [{ name = "q", submissions = 100, work = "write" }] }]
"#;

/// The error of a scenario that cannot be run.
fn refusal(scenario: &str) -> String {
    Scenario::parse(scenario, "mine.toml").unwrap_err().to_string()
}

#[test]
fn what_is_wrong_with_a_scenario_is_one_line_with_file_line_and_key() {
    let with = |line: &str| format!("{SMALL}{line}\n");
    let cases = [
        (SMALL.replace("submissions", "submission"), vec!["line 5", "submission"]),
        (SMALL.replace("100", "\"many\""), vec!["line 5", "invalid type"]),
        (SMALL.replace("name = \"vm\"", "name = \"a/b\""), vec!["line 4", "guest[0].name"]),
        (with("vmm = \"vmware\""), vec!["line 6", "guest[0].vmm", "cloud-hypervisor"]),
        (with("[host.guest]\ndoorbells = 0"), vec!["line 7", "host.guest.doorbells is 0"]),
        (
            with("[expect]\nlost = [\"vm/main/p\"]"),
            vec!["line 7", "expect.lost[0]", "a queue of this scenario: vm/main/q"],
        ),
        (
            with("[[expect.queue]]\nqueue = \"vn/main/q\""),
            vec!["line 7", "expect.queue[0].queue", "\"vn/main/q\"", "scenario: vm/main/q"],
        ),
        (
            with("[[event]]\nat = \"1ms\"\ndo = { action = \"kill-guest\", guest = \"no\" }"),
            vec!["line 8", "event[0].do.guest", "\"no\""],
        ),
        (
            with("[[event]]\ndo = { action = \"end\" }"),
            vec!["line 6", "event[0]", "at, every and when"],
        ),
        (
            SMALL.replace("submissions = 100, ", ""),
            vec!["line 5", "guest[0].context[0].queue[0].submissions", "`duration`"],
        ),
        (SMALL.replace("work", "after = \"p\", work"), vec!["line 5", "queue[0].after"]),
        (SMALL.replace("work", "count = 4_000_000_000, work"), vec!["line 5", "queue[0].count"]),
    ];
    for (scenario, words) in cases {
        let error = refusal(&scenario);
        assert!(error.contains("mine.toml") && !error.contains('\n'), "{error}");
        for word in words {
            assert!(error.contains(word), "{error:?} lacks {word:?}");
        }
    }
}

#[test]
fn an_expectation_that_does_not_hold_fails_with_what_was_seen() {
    let scenario = format!(
        r#"{SMALL}
        [[event]]
        at = "3600s"
        do = {{ action = "reset-guest", guest = "vm" }}
        [expect]
        lost = ["vm/main/q"]
        victims = {{ min = 7 }}
        [[expect.queue]]
        queue = "vm/main/q"
        completed = {{ max = 99 }}
        latency = {{ max = "0s" }}
        seen.disconnected-retry = {{ min = 1000 }}
        "#
    );
    let report = run(&Scenario::parse(&scenario, "mine.toml").unwrap(), &Options::default());
    assert!(!report.passed);
    let failed = |what: &str, seen: &str| {
        let check = report.checks.iter().find(|check| check.what.contains(what));
        let check = check.unwrap_or_else(|| panic!("nothing about {what}:\n{report}"));
        assert!(!check.passed && check.seen.contains(seen), "{check:?}");
    };
    failed("queues that were lost", "none");
    failed("doorbells taken", "0");
    failed("submissions completed", "100");
    failed("latency, max", "ms");
    failed("rings that read DISCONNECTED_RETRY", "1");
    failed("events that happened", "event 0 did not happen");
    assert!(report.checks.iter().any(|check| check.passed));
    assert!(report.to_string().contains("FAILED: 6 of"), "{report}");
}

#[test]
fn the_same_seed_gives_the_same_events_in_the_same_order() {
    let scenario = r#"
        duration = "500ms"
        [[guest]]
        name = "vm"
        count = 2
        context = [{ queue = [{ name = "q", count = 2, work = "mixed", recover = true }] }]
        [[event]]
        every = "20ms"
        jitter = "30ms"
        times = 12
        choose = [
            { action = "announce-memory", guest = "vm" },
            { action = "disconnect-guest", guest = "vm" },
            { action = "connect-storm", queue = "vm", connects = 5 },
            { action = "suspend-context", context = "vm/main", for = "7ms" },
        ]
        [[event]]
        at = "100ms"
        do = { action = "engine-power", node = 1, state = "f1" }
    "#;
    let scenario = Scenario::parse(scenario, "mine.toml").unwrap();
    let events = |seed| {
        let report = run(&scenario, &Options { seed: Some(seed), ..Options::default() });
        assert!(report.passed, "{report}");
        let shown =
            |event: &bellhop_integration::harness::Happened| (event.planned_ms, event.what.clone());
        report.events.iter().map(shown).collect::<Vec<_>>()
    };
    let first = events(3);
    assert!(first.len() > 13);
    assert_eq!(first, events(3));
    assert_ne!(first, events(4));
}

#[test]
fn the_command_reports_for_people_and_machines_and_its_status_tells() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let failing = SMALL.to_owned() + "[expect]\nvictims = { min = 1 }\n";
    std::fs::write(path("good.toml"), SMALL).unwrap();
    std::fs::write(path("bad <&>.toml"), failing).unwrap();
    std::fs::write(path("wrong.toml"), "title = 3\n").unwrap();
    let harness = |arguments: &[&str]| {
        let output = bellhop().arg("harness").args(arguments).current_dir(&folder).output();
        let output = output.unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };

    let (status, shown, errors) = harness(&["good.toml", "--quiet"]);
    assert_eq!((status, errors.as_str()), (Some(0), ""), "{shown}");
    assert!(shown.contains("vm/main/q") && shown.contains("passed: all"), "{shown}");

    let arguments = ["good.toml", "bad <&>.toml", "--json", "--repeat", "2", "--seed", "40"];
    let (status, shown, _) = harness(&[&arguments[..], &["--junit", "results.xml"]].concat());
    assert_eq!(status, Some(1), "{shown}");
    let reports: Vec<serde_json::Value> =
        shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let seeds: Vec<_> = reports.iter().map(|report| report["seed"].as_u64().unwrap()).collect();
    assert_eq!(seeds, [40, 41, 40, 41]);
    assert!(reports[0]["passed"] == true && reports[2]["passed"] == false);
    assert_eq!(reports[0]["queues"][0]["completed"], 100);
    assert_eq!(reports[0]["queues"][0]["latency"]["samples"], 100);

    let results = std::fs::read_to_string(path("results.xml")).unwrap();
    let results = quick_junit::Report::deserialize_from_str(&results).unwrap();
    let names: Vec<_> = results.test_suites.iter().map(|suite| suite.name.as_str()).collect();
    assert_eq!(names, ["good", "good", "bad <&>", "bad <&>"]);
    assert_eq!((results.failures, results.errors), (2, 0));

    let (status, _, errors) = harness(&["wrong.toml"]);
    assert!(status == Some(2) && errors.contains("wrong.toml, line 1"), "{errors}");
    let (status, _, errors) = harness(&["missing.toml"]);
    assert!(status == Some(2) && errors.contains("--list"), "{errors}");
    let (status, _, errors) = harness(&["good.toml", "--duration", "5"]);
    assert!(status == Some(2) && errors.contains("has no duration"), "{errors}");
}

#[test]
fn a_printed_scenario_is_one_to_begin_from() {
    let printed = support::run(bellhop().args(["harness", "--print", "first-submission"]));
    let report = run(&Scenario::parse(&printed, "mine.toml").unwrap(), &Options::default());
    assert!(report.passed, "{report}");
    assert!(to_junit([("mine", &report)]).unwrap().starts_with("<?xml"));
}

/// The names in the first column of the page's tables under a heading.
fn documented(heading: &str) -> BTreeSet<String> {
    let page = include_str!("../../../docs/harness.md");
    let section = page.split_once(&format!("{heading}\n")).unwrap().1;
    let section = section.split("\n#").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.map(|row| row.split('|').nth(1).unwrap());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

/// The names that the reader's error lists for a scenario with `nonsense`.
fn known(scenario: &str) -> BTreeSet<String> {
    let error = Scenario::parse(scenario, "nonsense.toml").unwrap_err().to_string();
    let (_, known) = error.split_once("expected one of ").expect(&error);
    let (known, _) = known.split_once(", in \"").expect(&error);
    known.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_page_names_every_key_and_every_action() {
    let context = "[[guest]]\nname = 'g'\n[[guest.context]]\n";
    let sections = [
        ("### `[[guest]]`", "[[guest]]\nnonsense = 1".to_owned(), "context"),
        ("### `[[guest.context]]`", format!("{context}nonsense = 1"), "queue"),
        (
            "### `[[guest.context.queue]]`",
            format!("{context}[[guest.context.queue]]\nnonsense = 1"),
            "",
        ),
        ("### `[expect]`", "[expect]\nnonsense = 1".to_owned(), "queue"),
    ];
    for (heading, scenario, inner) in sections {
        let mut known = known(&scenario);
        known.remove(inner);
        assert_eq!(documented(heading), known, "{heading}");
    }
    // These have separate tables, or keys inside.
    let mut scenario = known("nonsense = 1");
    for table in ["host", "guest", "event", "expect"] {
        assert!(scenario.remove(table), "{table}");
    }
    scenario.extend(["host.adapter".to_owned(), "host.guest".to_owned()]);
    assert_eq!(documented("### The scenario"), scenario);
    let mut seen = known("[[expect.queue]]\nqueue = '*'\nnonsense = 1");
    assert!(seen.remove("seen"));
    seen.insert("seen.STATUS".to_owned());
    assert_eq!(documented("### `[[expect.queue]]`"), seen);
    let mut events = known("[[event]]\nnonsense = 1");
    events.extend(known("[[event]]\ndo = { action = 'nonsense' }"));
    assert_eq!(documented("### `[[event]]`"), events);
}
