// SPDX-License-Identifier: MIT OR Apache-2.0

//! Memory orderings outside the hand-offs.
//!
//! The hand-offs of `bellhop_protocol::handoff` have models and mutants; an ordering elsewhere has neither. So
//! this lists every ordering stronger than relaxed outside that room. It fails on an ordering without a reason in
//! `orderings.toml`, and on a reason without its ordering.
//!
//! Tests are left out: their accesses to the product's words stand for another program, a guest or a driver, and
//! the product does not rely on their orderings.

use super::sources::{is_test, parse, read, sources};
use crate::workspace::root;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};

/// The list of reasons, from the workspace's root.
const LIST: &str = "integration/xtask/orderings.toml";

/// The room whose orderings the models and the mutants check.
const MODELLED: &str = "protocol/src/handoff/";

/// Orderings that need a reason.
const STRONG: [&str; 4] = ["Acquire", "Release", "AcqRel", "SeqCst"];

/// The list of reasons.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    allowed: Vec<Allowed>,
}

/// Allowed orderings outside the room, and why.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Allowed {
    /// The file, from the workspace's root.
    file: String,
    /// The items with the orderings, as [`Place::item`] names them, and the count in each.
    items: BTreeMap<String, usize>,
    /// Why they are not in a hand-off's type.
    reason: String,
}

/// The place of an ordering.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// The file, from the workspace's root.
    file: String,
    /// The function with its type, as in `Ring::push`; the type, or `use`, outside of functions.
    item: String,
}

/// Compares the sources with the list.
///
/// # Errors
/// Names each ordering without a reason and each reason without an ordering.
pub fn check() -> Result<(), String> {
    let root = root();
    let mut found = BTreeMap::new();
    let unmodelled = sources(&root)?.into_iter().filter(|(file, _)| !file.starts_with(MODELLED));
    for (file, source) in unmodelled {
        for place in orderings(&file, &source)? {
            *found.entry(place).or_default() += 1;
        }
    }
    let list = read(&root.join(LIST))?;
    let list: List = toml::from_str(&list).map_err(|error| format!("{LIST}: {error}"))?;
    let wrong = differences(&found, &list);
    if wrong.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{}\nA hand-off belongs in {MODELLED}, with a model; anything else in {LIST}, with a reason",
        wrong.join("\n")
    ))
}

/// The differences between the sources and the list.
fn differences(found: &BTreeMap<Place, usize>, list: &List) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut allowed = BTreeMap::new();
    for Allowed { file, items, reason } in &list.allowed {
        if reason.trim().is_empty() {
            wrong.push(format!("{file}: no reason"));
        }
        for (item, count) in items {
            let place = Place { file: file.clone(), item: item.clone() };
            if allowed.insert(place, *count).is_some() {
                wrong.push(format!("{file}: {item} is listed twice"));
            }
        }
    }
    let places: BTreeSet<_> = found.keys().chain(allowed.keys()).collect();
    for place in places {
        let count = |of: &BTreeMap<Place, usize>| of.get(place).copied().unwrap_or_default();
        let (there, listed) = (count(found), count(&allowed));
        if there != listed {
            let Place { file, item } = place;
            wrong.push(format!("{file}: {item} has {there} orderings, and {listed} are listed"));
        }
    }
    wrong
}

/// The orderings of a source text that need a reason, each with its place.
///
/// # Errors
/// When the text is not Rust.
fn orderings(file: &str, source: &str) -> Result<Vec<Place>, String> {
    let mut finder = Finder { file, within: Vec::new(), found: Vec::new() };
    finder.visit_file(&parse(file, source)?);
    Ok(finder.found)
}

/// Walks a file and notes its orderings.
struct Finder<'a> {
    file: &'a str,
    /// The items around, outermost first.
    within: Vec<String>,
    found: Vec<Place>,
}

impl Finder<'_> {
    fn note(&mut self) {
        let item = if self.within.is_empty() { "use".to_owned() } else { self.within.join("::") };
        self.found.push(Place { file: self.file.to_owned(), item });
    }

    fn inside(&mut self, name: String, visit: impl FnOnce(&mut Self)) {
        self.within.push(name);
        visit(self);
        self.within.pop();
    }

    /// Notes orderings such as `Ordering::Acquire` in the arguments of a macro.
    fn look_into(&mut self, tokens: proc_macro2::TokenStream) {
        use proc_macro2::TokenTree;
        let mut last = [const { String::new() }; 3];
        for token in tokens {
            let text = match token {
                TokenTree::Group(group) => {
                    self.look_into(group.stream());
                    String::new()
                }
                token => token.to_string(),
            };
            if last.each_ref().map(String::as_str) == ["Ordering", ":", ":"]
                && STRONG.contains(&text.as_str())
            {
                self.note();
            }
            last.rotate_left(1);
            last[2] = text;
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            let name = item.sig.ident.to_string();
            self.inside(name, |finder| visit::visit_item_fn(finder, item));
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            let name = item.sig.ident.to_string();
            self.inside(name, |finder| visit::visit_impl_item_fn(finder, item));
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        let name = item.sig.ident.to_string();
        self.inside(name, |finder| visit::visit_trait_item_fn(finder, item));
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if !is_test(&item.attrs) {
            let name = match &*item.self_ty {
                syn::Type::Path(path) => {
                    path.path.segments.last().map(|last| last.ident.to_string())
                }
                _ => None,
            };
            self.inside(name.unwrap_or_default(), |finder| visit::visit_item_impl(finder, item));
        }
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        let name = item.ident.to_string();
        self.inside(name, |finder| visit::visit_item_trait(finder, item));
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        let name = item.ident.to_string();
        self.inside(name, |finder| visit::visit_item_const(finder, item));
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let mut names = path.segments.iter().rev().map(|segment| segment.ident.to_string());
        let is_strong = names.next().is_some_and(|name| STRONG.contains(&name.as_str()));
        if is_strong && names.next().is_some_and(|name| name == "Ordering") {
            self.note();
        }
        visit::visit_path(self, path);
    }

    /// Notes an ordering that `use` brings into scope, which could then be used unseen.
    fn visit_use_path(&mut self, path: &'ast syn::UsePath) {
        if path.ident == "Ordering" {
            self.note();
        }
        visit::visit_use_path(self, path);
    }

    fn visit_use_rename(&mut self, rename: &'ast syn::UseRename) {
        if rename.ident == "Ordering" {
            self.note();
        }
    }

    fn visit_macro(&mut self, invocation: &'ast syn::Macro) {
        self.look_into(invocation.tokens.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
/// Not Ordering::SeqCst here.
const TEXT: &str = "nor Ordering::SeqCst";
struct Ring(AtomicU64);
impl Ring {
    fn push(&self) {
        self.0.store(1, Ordering::Release); // nor Ordering::SeqCst
        fence(Ordering::SeqCst);
    }
    fn relaxed(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
fn told(word: &AtomicBool) {
    assert!(word.load(std::sync::atomic::Ordering::Acquire), "{}", f(word.swap(true, Ordering::AcqRel)));
}
fn compared() -> std::cmp::Ordering {
    std::cmp::Ordering::Less
}
#[cfg(test)]
mod tests {
    fn left_out(word: &AtomicBool) {
        word.load(Ordering::SeqCst);
    }
}
"#;

    fn count(source: &str) -> BTreeMap<Place, usize> {
        let mut found = BTreeMap::new();
        for place in orderings("a.rs", source).unwrap() {
            *found.entry(place).or_default() += 1;
        }
        found
    }

    fn listed(items: &[(&str, usize)]) -> List {
        let items = items.iter().map(|(item, count)| ((*item).to_owned(), *count)).collect();
        let reason = "the operating system's".to_owned();
        List { allowed: vec![Allowed { file: "a.rs".to_owned(), items, reason }] }
    }

    #[test]
    fn orderings_are_found_in_code_and_in_macros_and_not_in_texts_or_tests() {
        let list = listed(&[("Ring::push", 2), ("told", 2)]);
        assert_eq!(differences(&count(SOURCE), &list), [""; 0]);
    }

    #[test]
    fn a_new_ordering_fails() {
        let one_more = SOURCE.replace("Ordering::Relaxed", "Ordering::Acquire");
        let list = listed(&[("Ring::push", 2), ("told", 2)]);
        let wrong = differences(&count(&one_more), &list);
        assert_eq!(wrong, ["a.rs: Ring::relaxed has 1 orderings, and 0 are listed"]);
        let list = listed(&[("Ring::push", 1), ("told", 2)]);
        let wrong = differences(&count(SOURCE), &list);
        assert_eq!(wrong, ["a.rs: Ring::push has 2 orderings, and 1 are listed"]);
    }

    #[test]
    fn an_entry_of_what_is_gone_fails() {
        let list = listed(&[("Ring::pop", 1), ("Ring::push", 2), ("told", 3)]);
        let wrong = differences(&count(SOURCE), &list);
        let expected = [
            "a.rs: Ring::pop has 0 orderings, and 1 are listed",
            "a.rs: told has 2 orderings, and 3 are listed",
        ];
        assert_eq!(wrong, expected);
    }

    #[test]
    fn an_entry_without_a_reason_or_twice_fails() {
        let mut list = listed(&[("Ring::push", 2), ("told", 2)]);
        list.allowed.extend(listed(&[("told", 2)]).allowed);
        list.allowed[1].reason = " ".to_owned();
        let wrong = differences(&count(SOURCE), &list);
        assert_eq!(wrong, ["a.rs: no reason", "a.rs: told is listed twice"]);
    }

    #[test]
    fn an_ordering_cannot_hide_behind_another_name() {
        for hidden in [
            "use std::sync::atomic::Ordering::{Acquire, Relaxed};",
            "use std::sync::atomic::Ordering::*;",
            "use std::sync::atomic::{AtomicU64, Ordering as O};",
        ] {
            assert_eq!(differences(&count(hidden), &listed(&[("use", 1)])), [""; 0], "{hidden}");
        }
    }

    #[test]
    fn the_list_is_that_of_the_sources() {
        assert_eq!(check(), Ok(()));
    }
}
