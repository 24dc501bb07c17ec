// SPDX-License-Identifier: MIT OR Apache-2.0

//! A driver and a front end in C (`independent/`), written from `docs/protocol.md` alone, which shows that the page
//! is complete.

use crate::support::Daemon;
use crate::support::independent::IndependentDriver;
use std::path::{Path, PathBuf};

/// Set to have the document's exchange rewritten.
const BLESS: &str = "BELLHOP_BLESS";

#[test]
fn it_submits_copies_and_connects_doorbells_that_were_taken_from_it() {
    let Some(driver) = IndependentDriver::build(false) else { return };
    let daemon = Daemon::start_with(1, "[adapter]\nphysical_doorbells = 3\n");
    let said = driver.run(&daemon.socket(0), &["probe", "submit", "copy", "victim", "reset"]);
    let lines: Vec<_> = said.lines().collect();
    let [probe, rest @ ..] = &lines[..] else { panic!("it said nothing") };
    assert!(
        probe.starts_with("probe: version ")
            && probe.ends_with("nodes: 3D, SDMA0, SDMA1, Compute0")
    );
    let expected = [
        "submit: 600 submissions done, in order",
        "copy: 65536 bytes there and back, each as it was",
        "victim: 4 queues, doorbells were connected again, every submission done",
        "reset: all is gone, and the device serves anew",
    ];
    assert_eq!(rest, expected);
}

#[test]
fn what_it_asks_for_wrongly_is_refused_as_the_document_says_and_the_device_serves_on() {
    let Some(driver) = IndependentDriver::build(false) else { return };
    let daemon = Daemon::start(1);
    let said = driver.run(&daemon.socket(0), &["malformed"]);
    let refused = said.strip_prefix("malformed: ").and_then(|rest| rest.split(' ').next());
    let refused: u32 = refused.unwrap().parse().unwrap();
    assert!(refused >= 40, "{said}");
    // The next guest finds a device that was reset.
    driver.run(&daemon.socket(0), &["submit"]);
}

/// The constants of a header: lines `NAME = NUMBER,`.
fn constants(header: &str) -> Vec<(String, u32)> {
    let constant = |line: &str| {
        let (name, number) = line.trim().strip_suffix(',')?.split_once(" = ")?;
        let number = number.trim_start_matches("(int)");
        let number = match number.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).ok()?,
            None => number.parse().ok()?,
        };
        Some((name.to_owned(), number))
    };
    header.lines().filter_map(constant).collect()
}

/// Whether a table of the documents has a row with this number and this name, or with several of each in
/// matching order.
fn is_told(documents: &[String], name: &str, number: u32) -> bool {
    let parse = |cell: &str| match cell.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => cell.parse().ok(),
    };
    documents.iter().flat_map(|document| document.lines()).any(|line| {
        let mut cells = line.split('|').skip(1);
        let (Some(numbers), Some(names)) = (cells.next(), cells.next()) else { return false };
        let mut rows = numbers.split(',').zip(names.split(','));
        rows.any(|(seen, named)| {
            let is_name = named.split('`').nth(1).is_some_and(|named| named == name);
            is_name && parse(seen.trim()) == Some(number)
        })
    })
}

#[test]
fn every_number_that_it_uses_stands_in_the_documents() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(folder.join(path)).unwrap();
    let documents = ["../docs/protocol.md", "../docs/transport.md"].map(read);
    for header in ["independent/protocol.h", "independent/vhost_user.h"] {
        let constants = constants(&read(header));
        assert!(constants.len() > 10, "{header} has {} constants", constants.len());
        for (name, number) in constants {
            assert!(is_told(&documents, &name, number), "no document says {name} = {number:#x}");
        }
    }
}

/// Steps of an exchange: each begins with a line `# STEP`.
fn steps(exchange: &str) -> Vec<String> {
    let mut steps: Vec<String> = Vec::new();
    for line in exchange.lines() {
        if line.starts_with("# ") {
            steps.push(String::new());
        }
        let step = steps.last_mut().expect("an exchange begins with a step");
        step.push_str(line);
        step.push('\n');
    }
    steps
}

/// The document's parts: prose, block, prose, block, ..., prose.
fn parts(document: &str) -> Vec<&str> {
    let mut pieces = document.split("```text\n");
    let prose = pieces.next();
    prose.into_iter().chain(pieces.flat_map(|piece| piece.splitn(2, "```\n"))).collect()
}

/// The document with these steps in its blocks; each block keeps its number of steps.
fn with_steps(document: &str, seen: &[String]) -> String {
    let mut seen = seen.iter();
    let mut text = String::new();
    for (index, part) in parts(document).into_iter().enumerate() {
        if index % 2 == 0 {
            text += part;
            continue;
        }
        text += "```text\n";
        text.extend(seen.by_ref().take(steps(part).len()).map(String::as_str));
        text += "```\n";
    }
    text
}

#[test]
fn the_worked_example_is_what_crosses_the_boundary_byte_for_byte() {
    let Some(driver) = IndependentDriver::build(false) else { return };
    let path = document();
    let document = std::fs::read_to_string(&path).unwrap();
    let daemon = Daemon::start(1);
    let seen = steps(&driver.run(&daemon.socket(0), &["example"]));
    let blocks: String = parts(&document).into_iter().skip(1).step_by(2).collect();
    let told = steps(&blocks);
    assert_eq!(told.len(), seen.len(), "steps of the exchange; put them into {}", path.display());
    if std::env::var_os(BLESS).is_some() {
        std::fs::write(&path, with_steps(&document, &seen)).unwrap();
        return;
    }
    for (told, seen) in told.iter().zip(&seen) {
        assert_eq!(told, seen, "{} tells otherwise; {BLESS}=1 rewrites it", path.display());
    }
}

fn document() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/worked-example.md")
}
