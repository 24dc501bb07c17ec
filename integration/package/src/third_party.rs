// SPDX-License-Identifier: MIT OR Apache-2.0

//! The licences and notices of the third-party crates that the programs link. Those licences require copies of the
//! programs to carry them.

use crate::folder;
use anyhow::{Context, bail};
use cargo_metadata::{
    DependencyKind, Metadata, MetadataCommand, Node, Package, PackageId, TargetKind,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// The file's name, beside the licences of Bellhop.
pub const NAME: &str = "THIRD-PARTY";
/// The crates of this workspace with the programs.
const PROGRAMS: [&str; 3] = ["bellhop-device", "bellhop-integration", "bellhop-guest"];
/// How the names of files with licences and notices begin.
const NOTICES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];
/// The licence text for crates that may be used under it but have no licence file in their packages.
const APACHE: &str = include_str!("../../../LICENSE-APACHE");

const INTRODUCTION: &str = "\
Third-party software in the programs of Bellhop
===============================================

bellhop, bellhopd and bellhop-guest link the crates below, and the Rust standard library (MIT OR Apache-2.0,
https://github.com/rust-lang/rust). bellhop-guest also contains the GNU C Library
(LGPL-2.1-or-later, https://sourceware.org/glibc); to link it with another version of that library, build it
from Bellhop's sources. The numbers name the texts that follow the list.
";

/// Writes the notices into the tree.
pub fn write(tree: &Path, place: &str) -> anyhow::Result<()> {
    let target = folder::make(tree, place)?.join(NAME);
    fs::write(&target, text(&linked()?)?)
        .with_context(|| format!("cannot write {}", target.display()))
}

/// A crate that a program links.
#[derive(Debug)]
struct Linked {
    package: Package,
    /// Its licences and notices.
    texts: Vec<String>,
}

/// The third-party crates that the programs link, by name and version.
fn linked() -> anyhow::Result<Vec<Linked>> {
    let metadata = MetadataCommand::new()
        .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .other_options(
            ["--locked", "--filter-platform", "x86_64-unknown-linux-gnu"].map(String::from),
        )
        .exec()
        .context("cannot read which crates the programs link")?;
    let ids = reached(&metadata)?;
    let others = metadata.packages.into_iter();
    let others = others.filter(|package| package.source.is_some() && ids.contains(&package.id));
    let mut linked = others
        .map(|package| Ok(Linked { texts: texts(&package)?, package }))
        .collect::<anyhow::Result<Vec<_>>>()?;
    linked.sort_by_key(|linked| (linked.package.name.to_string(), linked.package.version.clone()));
    Ok(linked)
}

/// The crates that the programs link: without macros, and crates that only builds and tests use.
fn reached(metadata: &Metadata) -> anyhow::Result<BTreeSet<PackageId>> {
    let graph = metadata.resolve.as_ref().context("cargo resolved no dependencies")?;
    let nodes: BTreeMap<&PackageId, &Node> =
        graph.nodes.iter().map(|node| (&node.id, node)).collect();
    let is_macro = |id: &PackageId| {
        metadata[id].targets.iter().any(|target| target.kind.contains(&TargetKind::ProcMacro))
    };
    let programs = metadata.packages.iter();
    let programs = programs.filter(|package| PROGRAMS.contains(&package.name.as_str()));
    let mut left: Vec<&PackageId> = programs.map(|package| &package.id).collect();
    let mut reached = BTreeSet::new();
    while let Some(id) = left.pop() {
        if !reached.insert(id.clone()) {
            continue;
        }
        let node = nodes.get(id).with_context(|| format!("cargo did not resolve {id}"))?;
        let dependencies = node.deps.iter().filter(|dependency| {
            dependency.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal)
        });
        left.extend(dependencies.map(|dependency| &dependency.pkg).filter(|id| !is_macro(id)));
    }
    Ok(reached)
}

/// The licences and notices in a crate's package.
fn texts(package: &Package) -> anyhow::Result<Vec<String>> {
    let folder = package.manifest_path.parent().context("a manifest is in no folder")?;
    let cannot = || format!("cannot read the licences in {folder}");
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if path.is_file() && NOTICES.iter().any(|notice| name.starts_with(notice)) {
            files.push(path);
        }
    }
    files.sort();
    let mut texts = Vec::new();
    for file in files {
        let bytes = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        texts.push(String::from_utf8_lossy(&bytes).trim().to_owned());
    }
    if texts.is_empty() {
        let licence = package.license.as_deref().unwrap_or_default();
        if !licence.contains("Apache-2.0") {
            bail!("{} ({licence}) has no licence file to copy", package.name);
        }
        texts.push(APACHE.trim().to_owned());
    }
    Ok(texts)
}

/// The list of crates, and each of their texts once.
fn text(linked: &[Linked]) -> anyhow::Result<String> {
    let (mut list, mut numbers, mut bodies) =
        (INTRODUCTION.to_owned(), BTreeMap::new(), String::new());
    for Linked { package, texts } in linked {
        let mut named = Vec::new();
        for text in texts {
            let next = numbers.len() + 1;
            let number = *numbers.entry(text.as_str()).or_insert(next);
            if number == next {
                write!(bodies, "\n{:-<80}\nText {number}\n\n{text}\n", "")?;
            }
            named.push(number.to_string());
        }
        writeln!(list, "\n{} {}", package.name, package.version)?;
        writeln!(list, "  licence  {}", package.license.as_deref().unwrap_or("see the texts"))?;
        if let Some(repository) = &package.repository {
            writeln!(list, "  source   {repository}")?;
        }
        writeln!(list, "  texts    {}", named.join(", "))?;
    }
    Ok(list + &bodies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_linked_third_party_crate_is_listed_with_its_licences() {
        let tree = tempfile::tempdir().unwrap();
        write(tree.path(), "doc").unwrap();
        let text = fs::read_to_string(tree.path().join("doc").join(NAME)).unwrap();
        let entry = |name: &str| text.split("\n\n").find(|entry| entry.starts_with(name));
        for name in ["anyhow 1", "clap 4", "tokio 1", "vhost 0", "vm-memory 0", "zerocopy 0"] {
            let entry = entry(name).unwrap_or_else(|| panic!("{name} is missing"));
            for field in ["\n  licence  ", "\n  source   https://", "\n  texts    "] {
                assert!(entry.contains(field), "{entry}");
            }
        }
        // Macros, crates that only builds and tests use, and Bellhop's own crates are not listed.
        for name in ["clap_derive ", "serde_derive ", "libfuzzer-sys ", "proptest ", "bellhop-"] {
            assert_eq!(entry(name), None);
        }
        assert!(text.contains("Permission is hereby granted, free of charge"));
        assert!(text.contains(APACHE.trim()));
    }

    #[test]
    fn a_text_that_several_crates_have_is_there_once() {
        let mut linked = linked().unwrap();
        linked.truncate(2);
        let shared = "The licence of both".to_owned();
        linked[0].texts = vec![shared.clone()];
        linked[1].texts = vec!["A notice".to_owned(), shared.clone()];
        let text = text(&linked).unwrap();
        assert_eq!(text.matches(&shared).count(), 1);
        assert!(
            text.contains("\n  texts    1\n") && text.contains("\n  texts    2, 1\n"),
            "{text}"
        );
    }
}
