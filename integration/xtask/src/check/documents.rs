// SPDX-License-Identifier: MIT OR Apache-2.0

//! What documents name: files, folders, sections and tests must be there.
//!
//! A code span is taken for a path if it ends like a source file, or begins with a folder of the repository. Documents
//! leave out `src`, `.rs`, and what comes before a crate's rooms, so a path is there if it is the end of one that git
//! knows. A file without a folder, in a table's row that begins with a crate, is that crate's.

use crate::command::output;
use crate::workspace::root;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

/// Lists the files that git tracks, and new ones that it does not ignore.
const LISTED: [&str; 5] =
    ["ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate"];

/// Sites of package registries. Documents name a package; the registry is the reader's choice.
const REGISTRIES: [&str; 6] =
    ["crates.io", "docs.rs", "lib.rs", "pypi.org", "npmjs.com", "hub.docker.com"];

/// Spans that look like paths of this repository, and are not.
const ELSEWHERE: [&str; 3] = [
    // Mesa's.
    "src/virtio/vulkan/vn_ring.c",
    // Names of queues in scenarios.
    "guest/context/queue",
    "context/queue",
];

/// The folders of test programs that documents name tests of, as in `guests::profiles`.
const TESTS: &str = "integration/tests/";

/// Checks all documents.
///
/// # Errors
/// Names each that names what is not there.
pub fn check() -> Result<(), String> {
    let mut git = Command::new("git");
    let listed = output(git.args(LISTED).current_dir(root()))?;
    let files: Vec<&str> = listed.lines().filter(|file| root().join(file).is_file()).collect();
    let read = |file: &str| fs::read_to_string(root().join(file)).unwrap_or_default();
    let documents = files.iter().filter(|file| file.ends_with(".md"));
    let documents: BTreeMap<&str, String> = documents.map(|file| (*file, read(file))).collect();
    if documents.is_empty() {
        return Err("git lists no document".to_owned());
    }
    let tests = files.iter().filter(|file| file.starts_with(TESTS));
    let tests = tests.map(|file| (*file, read(file))).collect();
    let wrong = Repository::new(&files, &documents, tests).wrong();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// What documents may name.
struct Repository<'a> {
    documents: &'a BTreeMap<&'a str, String>,
    /// Files and folders, as they are.
    paths: BTreeSet<&'a str>,
    /// The ends of all paths, with and without `src`.
    ends: BTreeSet<String>,
    /// The first names of ends that have several.
    firsts: BTreeSet<String>,
    /// The sources of test programs.
    tests: BTreeMap<&'a str, String>,
}

impl<'a> Repository<'a> {
    fn new(
        files: &[&'a str],
        documents: &'a BTreeMap<&'a str, String>,
        tests: BTreeMap<&'a str, String>,
    ) -> Self {
        let mut paths = BTreeSet::new();
        for file in files {
            let ends = file.match_indices('/').map(|(end, _)| &file[..end]);
            paths.extend(ends.chain([*file]));
        }
        let (mut ends, mut firsts) = (BTreeSet::new(), BTreeSet::new());
        for path in &paths {
            let whole: Vec<&str> = path.split('/').collect();
            let short = whole.iter().copied().filter(|name| *name != "src").collect();
            for names in [whole, short] {
                for start in 0..names.len() {
                    ends.insert(names[start..].join("/"));
                    if start + 1 < names.len() {
                        firsts.insert(names[start].to_owned());
                    }
                }
            }
        }
        Self { documents, paths, ends, firsts, tests }
    }

    /// What is wrong, each with its place.
    fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (document, text) in self.documents {
            let mut is_code = false;
            for (number, line) in text.lines().enumerate() {
                let found = self.wrong_in(document, line, &mut is_code);
                let place = format!("{document}:{}", number + 1);
                wrong.extend(found.into_iter().map(|found| format!("{place}: {found}")));
            }
        }
        wrong
    }

    fn wrong_in(&self, document: &str, line: &str, is_code: &mut bool) -> Vec<String> {
        let mut wrong: Vec<String> = sites(line)
            .filter(|site| REGISTRIES.iter().any(|registry| is_within(site, registry)))
            .map(|site| format!("{site} is a package registry; name the package alone"))
            .collect();
        if line.trim_start().starts_with("```") {
            *is_code = !*is_code;
            return wrong;
        }
        if *is_code {
            return wrong;
        }
        let targets = links(line).filter(|target| !self.is_linked(document, target));
        wrong.extend(targets.map(|target| format!("no file or section {target}")));
        let row = line.strip_prefix('|').and_then(|line| spans(line).next());
        let crate_folder = row.filter(|name| self.paths.contains(format!("{name}/src").as_str()));
        let mut test = None;
        for span in spans(line) {
            if let Some(name) = self.test_name(span, &mut test) {
                if !self.has_test(&name) {
                    wrong.push(format!("no test {name}"));
                }
            } else if self.is_path(span) && !self.is_there(span, crate_folder) {
                wrong.push(format!("no file or folder {span}"));
            } else if !self.is_module_there(span) {
                wrong.push(format!("no module {span}"));
            }
        }
        wrong
    }

    /// Whether a span is meant as a path of this repository.
    fn is_path(&self, span: &str) -> bool {
        let is_name = |name: &str| {
            let is_fit = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
            !name.is_empty() && name.chars().all(is_fit)
        };
        let mut names = span.trim_end_matches('/').split('/');
        // `TARGET` and `NAME.rs` stand for what the reader has.
        let is_placeholder = |name: &str| {
            let stem = name.split('.').next().unwrap_or_default();
            !stem.is_empty() && stem.chars().all(|letter| letter.is_ascii_uppercase())
        };
        let first = names.clone().next().unwrap_or_default();
        let is_inside = span.contains('/') && self.firsts.contains(first);
        let is_meant = (span.ends_with(".rs") || is_inside) && !ELSEWHERE.contains(&span);
        is_meant && names.all(|name| is_name(name) && !is_placeholder(name))
    }

    fn is_there(&self, span: &str, crate_folder: Option<&str>) -> bool {
        let path = span.trim_end_matches('/');
        let has =
            |path: &str| self.ends.contains(path) || self.ends.contains(&format!("{path}.rs"));
        match crate_folder {
            Some(folder) if !path.contains('/') => {
                self.paths.contains(format!("{folder}/src/{path}").as_str())
                    || self.paths.contains(format!("{folder}/{path}").as_str())
            }
            _ => has(path),
        }
    }

    /// Whether a span is no module's path, or a module, or something in one.
    fn is_module_there(&self, span: &str) -> bool {
        let is_fit =
            |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
        let Some((first, rest)) = span.split_once("::") else { return true };
        let first = match first {
            "bellhop_worker" => "device/worker".to_owned(),
            "bellhop_guest" => "integration/guest".to_owned(),
            name => name.trim_start_matches("bellhop_").replace('_', "-"),
        };
        if !self.firsts.contains(first.split('/').next().unwrap_or_default())
            || !rest.split("::").all(|name| !name.is_empty() && name.chars().all(is_fit))
        {
            return true;
        }
        let path = format!("{first}/{}", rest.replace("::", "/"));
        let module = path.rsplit_once('/').map_or("", |(module, _)| module);
        self.is_there(&path, None) || self.is_there(module, None)
    }

    /// Whether a link leads somewhere: to another site, or to a file and a section of it.
    fn is_linked(&self, document: &str, target: &str) -> bool {
        if target.contains("://") || target.starts_with("mailto:") {
            return true;
        }
        let (file, section) = target.split_once('#').unwrap_or((target, ""));
        let file = if file.is_empty() { Some(document.to_owned()) } else { beside(document, file) };
        let Some(file) = file.filter(|file| self.paths.contains(file.as_str())) else {
            return false;
        };
        section.is_empty()
            || self
                .documents
                .get(file.as_str())
                .is_some_and(|text| sections(text).any(|known| known == section))
    }

    /// The test that a span names, as `guests::profiles::every_*`; `::another_*` is beside the one before.
    fn test_name(&self, span: &str, before: &mut Option<String>) -> Option<String> {
        let name = match (span.strip_prefix("::"), before.as_ref()) {
            (Some(rest), Some(before)) => {
                let (module, _) = before.rsplit_once("::")?;
                format!("{module}::{rest}")
            }
            _ => span.to_owned(),
        };
        let (program, rest) = name.split_once("::")?;
        let is_fit = |letter: char| {
            letter.is_ascii_lowercase() || letter.is_ascii_digit() || "_:*".contains(letter)
        };
        let is_program = self.paths.contains(format!("{TESTS}{program}").as_str());
        (is_program && rest.chars().all(is_fit)).then(|| before.insert(name).clone())
    }

    /// Whether there is a module or a function of that name.
    fn has_test(&self, name: &str) -> bool {
        let path = format!("{TESTS}{}", name.replace("::", "/"));
        if self.paths.contains(path.as_str()) || self.paths.contains(format!("{path}.rs").as_str())
        {
            return true;
        }
        let Some((module, test)) = path.rsplit_once('/') else { return false };
        let mut parts = test.split('*');
        let start = format!("fn {}", parts.next().unwrap_or_default());
        let rest: Vec<&str> = parts.collect();
        let is_it = |line: &str| {
            let Some(mut name) = line.trim_start().strip_prefix(start.as_str()) else {
                return false;
            };
            if rest.is_empty() {
                return name.starts_with('(');
            }
            rest.iter().all(|part| {
                name.find(part).is_some_and(|at| {
                    name = &name[at + part.len()..];
                    true
                })
            })
        };
        let files = self.tests.iter().filter(|(file, _)| {
            let file = file.trim_end_matches(".rs");
            file == module || file.starts_with(&format!("{module}/"))
        });
        files.flat_map(|(_, text)| text.lines()).any(is_it)
    }
}

/// The code spans of a line.
fn spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The targets of a line's links and images.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let after = |start: &'static str, end: char| {
        line.split(start).skip(1).filter_map(move |rest| rest.split(end).next())
    };
    after("](", ')').chain(after("src=\"", '"')).chain(after("href=\"", '"'))
}

/// The sites that a line names.
fn sites(line: &str) -> impl Iterator<Item = &str> {
    let is_end = |letter: char| !(letter.is_ascii_alphanumeric() || ".-".contains(letter));
    line.split("://").skip(1).filter_map(move |rest| rest.split(is_end).next())
}

fn is_within(site: &str, registry: &str) -> bool {
    site.strip_suffix(registry).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// A path from a document's folder on, from the root on.
fn beside(document: &str, path: &str) -> Option<String> {
    let mut names: Vec<&str> = document.split('/').collect();
    names.pop();
    for name in path.trim_end_matches('/').split('/') {
        match name {
            "." => {}
            ".." => drop(names.pop()?),
            name => names.push(name),
        }
    }
    Some(names.join("/"))
}

/// The names by which links reach a document's sections, as renderers of Markdown make them from headings, or as the document
/// itself gives them.
fn sections(text: &str) -> impl Iterator<Item = String> {
    let mut is_code = false;
    let lines = text.lines().filter(move |line| {
        is_code ^= line.trim_start().starts_with("```");
        !is_code
    });
    lines.filter_map(|line| {
        if let Some(rest) = line.strip_prefix("<a id=\"") {
            return rest.split('"').next().map(str::to_owned);
        }
        let words = line.strip_prefix('#')?.trim_start_matches('#').trim().to_lowercase();
        let is_kept = |letter: &char| letter.is_alphanumeric() || " -_".contains(*letter);
        let kept = words.chars().filter(is_kept);
        Some(kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [&str; 8] = [
        "README.md",
        "docs/memory.md",
        "device/src/gpu/mod.rs",
        "device/src/gpu/engine/main_loop.rs",
        "device/worker/src/owner/mod.rs",
        "host-kmd/src/owner.rs",
        "integration/tests/guests/main.rs",
        "integration/tests/guests/profiles.rs",
    ];

    fn wrong(line: &str) -> Vec<String> {
        let memory = "# Memory\n\n## What is *moved*, and when\n\n```\n# no heading\n```\n";
        let documents = BTreeMap::from([
            ("README.md", "# Title\n".to_owned()),
            ("docs/memory.md", format!("{memory}\n{line}\n")),
        ]);
        let test = "#[test]\nfn every_behaviour_is_seen() {}\n".to_owned();
        let tests = BTreeMap::from([("integration/tests/guests/profiles.rs", test)]);
        let wrong = Repository::new(&FILES, &documents, tests).wrong();
        wrong.into_iter().map(|line| line.split_once(": ").unwrap().1.to_owned()).collect()
    }

    #[test]
    fn what_is_there_may_be_named() {
        for line in [
            "`gpu/engine/main_loop.rs`, `gpu/engine`, `device/gpu`, `device/src/gpu/mod.rs`, `gpu/engine/main_loop`",
            "`main_loop.rs`, `owner.rs`, `integration/tests/guests/`, `device/worker/owner`",
            "| `device/worker` | `owner/mod.rs` |",
            "[a](../README.md) [b](../README.md#title) [c](#what-is-moved-and-when) [d](../device/src)",
            "<a id=\"here\"></a>\n[a](#here)",
            "`guests::profiles`, `guests::profiles::every_behaviour_is_seen`, `::every_*_seen`",
            "`gpu::engine::main_loop`, `engine::main_loop::run`, `host_kmd::owner`, `bellhop_worker::owner`",
            "`and/or`, `/etc/passwd`, `std::fs`, `gpu.sock`, `device/FILE`, <https://example.org/x.rs>",
            "```\n`no/file.rs`\n[x](nowhere.md)\n```",
        ] {
            assert_eq!(wrong(line), [""; 0], "{line}");
        }
    }

    #[test]
    fn what_is_not_there_is_found() {
        for (line, expected) in [
            ("`gpu/engine/loop.rs`", "no file or folder gpu/engine/loop.rs"),
            ("`device/worker/owner.rs`", "no file or folder device/worker/owner.rs"),
            ("`gone.rs`", "no file or folder gone.rs"),
            ("| `device/worker` | `owner.rs` |", "no file or folder owner.rs"),
            ("`gpu::engine::loops::run`", "no module gpu::engine::loops::run"),
            ("[a](gone.md)", "no file or section gone.md"),
            ("[a](#gone)", "no file or section #gone"),
            ("[a](#no-heading)", "no file or section #no-heading"),
            ("[a](../README.md#memory)", "no file or section ../README.md#memory"),
            ("[a](../../README.md)", "no file or section ../../README.md"),
            ("<img src=\"picture.png\">", "no file or section picture.png"),
            ("`guests::gone`", "no test guests::gone"),
            ("`guests::profiles::every`", "no test guests::profiles::every"),
            ("`guests::profiles`, `::other_*`", "no test guests::other_*"),
        ] {
            assert_eq!(wrong(line), [expected], "{line}");
        }
        for registry in
            ["https://crates.io/crates/x", "https://static.crates.io/x", "http://pypi.org"]
        {
            let found = wrong(registry);
            assert!(found.len() == 1 && found[0].contains("package registry"), "{found:?}");
        }
        assert_eq!(wrong("```\nopen https://docs.rs/x\n```").len(), 1);
    }

    #[test]
    fn documents_name_what_is_there() {
        check().unwrap();
    }

    /// The chart of the README shows figures of the table that says how they were measured.
    #[test]
    fn the_readme_has_the_figures_of_the_table() {
        let read = |file: &str| fs::read_to_string(root().join(file)).unwrap();
        let (readme, table) = (read("README.md"), read("docs/performance.md"));
        let figure = |start: &str| {
            let line = readme.lines().find(|line| line.starts_with(start)).unwrap();
            let words: Vec<&str> = line.split_whitespace().collect();
            let unit = words.iter().position(|word| ["ns", "µs"].contains(word)).unwrap();
            format!("{} {}", words[unit - 1], words[unit])
        };
        let [word, doorbell, kernel] = [
            "a word to another process and back",
            "submission through a doorbell",
            "submission through the kernel",
        ]
        .map(figure);
        for (ratio, expected) in [
            ("doorbell_rtt_over_cacheline_rtt", format!("{doorbell} beside {word}")),
            ("doorbell_rtt_over_kernel_mode_path", format!("{doorbell} beside {kernel}")),
        ] {
            let row = table.lines().find(|line| line.starts_with(&format!("| `{ratio}`"))).unwrap();
            assert!(row.contains(&expected), "{row}: not {expected}");
        }
    }
}
