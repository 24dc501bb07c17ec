// SPDX-License-Identifier: MIT OR Apache-2.0

//! Calls that may wait, in threads that serve guests.
//!
//! Clippy refuses the methods that `clippy.toml` of a crate lists, by their types, so that no line of code calls one
//! unseen. Where one is needed, an `expect` says what bounds the wait. This compares these reasons with the table of the
//! threat model: it fails on a call that the table lacks, and on a row without its call.

use super::sources::{parse, read, sources};
use crate::workspace::root;
use std::collections::BTreeSet;
use std::path::Path;
use syn::visit::Visit;

/// The document with the table.
const DOCUMENT: &str = "docs/threat-model.md";
/// The heading of the table's section.
const HEADING: &str = "## What may wait";
/// The lint that refuses the calls.
const LINT: [&str; 2] = ["clippy", "disallowed_methods"];

/// A file, from the workspace's root, and what bounds a wait in it.
type Row = (String, String);

/// Compares the sources with the table.
///
/// # Errors
/// Names each call that the table lacks, and each row without its call.
pub fn check() -> Result<(), String> {
    let root = root();
    let mut found = BTreeSet::new();
    for (file, source) in sources(&root)? {
        found.extend(reasons(&file, &source)?);
    }
    let wrong = differences(&found, &table(&read(&root.join(Path::new(DOCUMENT)))?)?);
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// The differences between the sources and the table.
fn differences(found: &BTreeSet<Row>, listed: &BTreeSet<Row>) -> Vec<String> {
    let row = |(file, reason): &Row| format!("| `{file}` | {reason} |");
    let missing = found.difference(listed).map(|wait| format!("{DOCUMENT} lacks: {}", row(wait)));
    let gone = listed.difference(found).map(|wait| format!("nothing waits so: {}", row(wait)));
    missing.chain(gone).collect()
}

/// The rows of the table: a file in backticks, and what bounds the wait.
fn table(document: &str) -> Result<BTreeSet<Row>, String> {
    let mut lines = document.lines().skip_while(|line| *line != HEADING).skip(1);
    let rows = lines.by_ref().take_while(|line| !line.starts_with("## "));
    let rows: BTreeSet<_> = rows
        .filter_map(|line| {
            let (file, reason) = line.strip_prefix("| `")?.split_once("` | ")?;
            Some((file.to_owned(), reason.trim_end().trim_end_matches('|').trim_end().to_owned()))
        })
        .collect();
    if rows.is_empty() { Err(format!("{DOCUMENT} has no table {HEADING:?}")) } else { Ok(rows) }
}

/// What bounds the waits of a source text.
///
/// # Errors
/// When the text is not Rust, or a wait is allowed without a reason.
fn reasons(file: &str, source: &str) -> Result<Vec<Row>, String> {
    let mut finder = Finder { reasons: Vec::new() };
    finder.visit_file(&parse(file, source)?);
    let row = |reason: Option<String>| {
        let reason = reason.filter(|reason| !reason.trim().is_empty());
        let reason = reason.ok_or(format!("{file}: a wait is allowed without a reason"))?;
        Ok((file.to_owned(), reason))
    };
    finder.reasons.into_iter().map(row).collect()
}

/// Walks a file and notes why it may wait.
struct Finder {
    reasons: Vec<Option<String>>,
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if !attribute.path().is_ident("expect") && !attribute.path().is_ident("allow") {
            return;
        }
        let (mut is_wait, mut reason) = (false, None);
        // What is no list of lints is the compiler's to refuse.
        let _ = attribute.parse_nested_meta(|meta| {
            let names = meta.path.segments.iter().map(|segment| segment.ident.to_string());
            is_wait |= names.eq(LINT);
            if meta.path.is_ident("reason") {
                reason = Some(meta.value()?.parse::<syn::LitStr>()?.value());
            }
            Ok(())
        });
        if is_wait {
            self.reasons.push(reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
#![expect(missing_docs, reason = "none of a wait")]
impl Engine {
    #[expect(clippy::disallowed_methods, reason = "a lock that is held for a few stores")]
    fn locks(&self) {}
}
fn inner() {
    #[expect(clippy::disallowed_methods, clippy::todo, reason = "ends with the process")]
    wait();
}
"#;

    fn rows(pairs: &[(&str, &str)]) -> BTreeSet<Row> {
        pairs.iter().map(|(file, reason)| ((*file).to_owned(), (*reason).to_owned())).collect()
    }

    #[test]
    fn the_reasons_of_waits_are_found_and_no_others() {
        let found: BTreeSet<_> = reasons("a.rs", SOURCE).unwrap().into_iter().collect();
        let locks = ("a.rs", "a lock that is held for a few stores");
        assert_eq!(found, rows(&[locks, ("a.rs", "ends with the process")]));
    }

    #[test]
    fn a_wait_without_a_reason_fails() {
        for attribute in [
            "#[allow(clippy::disallowed_methods)]",
            "#[expect(clippy::disallowed_methods, reason = \" \")]",
        ] {
            let source = format!("{attribute} fn f() {{}}");
            assert!(reasons("a.rs", &source).unwrap_err().contains("without a reason"));
        }
    }

    #[test]
    fn a_wait_that_the_table_lacks_and_a_row_without_its_wait_fail() {
        let document = "# T\n\n## What may wait\n\n| file | bound |\n|---|---|\n\
                        | `a.rs` | a | \n| `b.rs` | of `x` |\n\n## Next\n| `c.rs` | c |\n";
        let listed = table(document).unwrap();
        assert_eq!(listed, rows(&[("a.rs", "a"), ("b.rs", "of `x`")]));
        let found = rows(&[("a.rs", "a"), ("d.rs", "d")]);
        let expected =
            ["docs/threat-model.md lacks: | `d.rs` | d |", "nothing waits so: | `b.rs` | of `x` |"];
        assert_eq!(differences(&found, &listed), expected);
        assert!(table("# T\n").is_err());
    }

    #[test]
    fn the_table_is_that_of_the_sources() {
        assert_eq!(check(), Ok(()));
    }
}
