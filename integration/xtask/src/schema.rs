// SPDX-License-Identifier: MIT OR Apache-2.0

//! A source text that contains all its mutants; an environment variable chooses the mutant that runs. So the
//! models are compiled only once.

use crate::swaps::{Swap, Swappable};
use std::ops::Range;

/// The environment variable that chooses the mutant: `SITE ORDERING` or `PLACE swapped`; unset for none.
pub const CHOICE: &str = "BELLHOP_MUTANT";

/// The module that the mutated files call, beside them.
pub const SUPPORT: &str = r#"//! Weakens one ordering, or swaps one order, which the environment names.

use super::sync::Ordering;
use std::sync::OnceLock;

/// The weaker ordering that was chosen for a site, if any.
fn chosen(site: usize) -> Option<&'static str> {
    static CHOICE: OnceLock<Option<(usize, String)>> = OnceLock::new();
    let choice = CHOICE.get_or_init(|| {
        let choice = std::env::var("BELLHOP_MUTANT").expect("chosen by cargo xtask mutants");
        let (site, ordering) = choice.split_once(' ')?;
        Some((site.parse().expect("a number"), ordering.to_owned()))
    });
    choice.as_ref().and_then(|(at, ordering)| (*at == site).then_some(ordering.as_str()))
}

/// The ordering of a load, a store or a read-modify-write.
pub fn ordering(site: usize, written: Ordering) -> Ordering {
    match chosen(site) {
        None => written,
        Some("Relaxed") => Ordering::Relaxed,
        Some("Acquire") => Ordering::Acquire,
        Some("Release") => Ordering::Release,
        Some("AcqRel") => Ordering::AcqRel,
        Some(other) => panic!("no ordering: {other}"),
    }
}

/// Whether the statements of a place are to be done in their other order.
pub fn is_swapped(place: usize) -> bool {
    chosen(place) == Some("swapped")
}

/// A fence, unless it was removed.
pub fn fence(site: usize, written: Ordering) {
    if chosen(site) != Some("removed") {
        super::sync::fence(ordering(site, written));
    }
}
"#;

const ORDERING: &str = "Ordering::";
const FENCE: &str = "fence(";

/// An ordering in a source text.
#[derive(Debug, PartialEq, Eq)]
pub struct Site {
    /// The line it is on, counted from 1.
    pub line: usize,
    /// The function it is in.
    pub function: String,
    /// The ordering as written.
    pub written: String,
    /// Whether it is a fence's.
    fence: bool,
    /// The bytes to replace: the ordering, or the name of the fence's function and its bracket.
    place: Range<usize>,
}

impl Site {
    /// The orderings one step weaker than the written one, and for a fence its removal. Still weaker orderings
    /// allow more executions, so a model that fails with these also fails with those.
    ///
    /// Loads and stores may be given `AcqRel`: loom takes the part of it that applies.
    pub fn weaker(&self) -> &'static [&'static str] {
        match (self.written.as_str(), self.fence) {
            ("SeqCst", true) => &["AcqRel", "removed"],
            ("AcqRel", true) => &["Acquire", "Release", "removed"],
            (_, true) => &["removed"],
            ("SeqCst", false) => &["AcqRel"],
            ("AcqRel", false) => &["Acquire", "Release"],
            ("Relaxed", false) => &[],
            (_, false) => &["Relaxed"],
        }
    }
}

/// The orderings in a source text, in order.
pub fn sites(source: &str) -> Vec<Site> {
    let mut sites = Vec::new();
    let mut function = String::new();
    let mut start = 0;
    for (number, line) in source.split_inclusive('\n').enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        if let Some((_, after)) = code.split_once("fn ") {
            function = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        }
        for (at, _) in code.match_indices(ORDERING) {
            let written = code[at + ORDERING.len()..].chars();
            let written: String = written.take_while(|c| c.is_alphanumeric()).collect();
            let begin = start + at;
            let fence = source[..begin].ends_with(FENCE);
            let end = begin + ORDERING.len() + written.len();
            let place = if fence { begin - FENCE.len()..end } else { begin..end };
            sites.push(Site {
                line: number + 1,
                function: function.clone(),
                written,
                fence,
                place,
            });
        }
        start += line.len();
    }
    sites
}

/// The text with all its mutants: sites are numbered from `first`, and swaps behind them.
pub fn mutate(source: &str, sites: &[Site], swaps: &[Swappable], first: usize) -> String {
    let mut edits = Vec::new();
    for (number, Swappable { place, swap }) in (first + sites.len()..).zip(swaps) {
        edits.push((place.start..place.start, swap.before(number)));
        edits.push((place.end..place.end, Swap::AFTER.to_owned()));
    }
    for (number, site) in (first..).zip(sites) {
        let called = if site.fence { "fence(" } else { "ordering(" };
        let end = if site.fence { "" } else { ")" };
        let text = format!("super::mutant::{called}{number}, {ORDERING}{}{end}", site.written);
        edits.push((site.place.clone(), text));
    }
    // A stable sort: an edit before statements also comes before a site at their beginning.
    edits.sort_by_key(|(place, _)| place.start);
    let mut mutated = String::new();
    let mut copied = 0;
    for (place, text) in edits {
        mutated += &source[copied..place.start];
        mutated += &text;
        copied = place.end;
    }
    mutated + &source[copied..]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
use sync::{AtomicU64, Ordering, fence};
/// Not Ordering::SeqCst here.
fn both(word: &AtomicU64) -> u64 {
    word.store(1, Ordering::Release); // nor Ordering::SeqCst
    fence(Ordering::SeqCst);
    word.load(Ordering::Relaxed)
}
fn exchange(word: &AtomicU64) {
    word.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire);
}
";

    #[test]
    fn every_ordering_is_found_and_none_in_a_comment() {
        let sites = sites(SOURCE);
        let found: Vec<_> = sites
            .iter()
            .map(|site| (site.line, site.function.as_str(), site.written.as_str(), site.fence))
            .collect();
        assert_eq!(
            found,
            [
                (4, "both", "Release", false),
                (5, "both", "SeqCst", true),
                (6, "both", "Relaxed", false),
                (9, "exchange", "AcqRel", false),
                (9, "exchange", "Acquire", false),
            ]
        );
        let weaker: Vec<_> = sites.iter().map(|site| site.weaker().len()).collect();
        assert_eq!(weaker, [1, 2, 0, 2, 1]);
    }

    #[test]
    fn a_mutated_text_asks_at_each_ordering_and_is_the_same_elsewhere() {
        let expected = "\
use sync::{AtomicU64, Ordering, fence};
/// Not Ordering::SeqCst here.
fn both(word: &AtomicU64) -> u64 {
    word.store(1, super::mutant::ordering(7, Ordering::Release)); // nor Ordering::SeqCst
    super::mutant::fence(8, Ordering::SeqCst);
    word.load(super::mutant::ordering(9, Ordering::Relaxed))
}
fn exchange(word: &AtomicU64) {
    word.compare_exchange(0, 1, super::mutant::ordering(10, Ordering::AcqRel), \
super::mutant::ordering(11, Ordering::Acquire));
}
";
        assert_eq!(mutate(SOURCE, &sites(SOURCE), &[], 7), expected);
    }
}
