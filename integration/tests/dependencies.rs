//! Who may know whom: `docs/architecture.md`, checked against cargo's metadata.

use cargo_metadata::{DependencyKind, MetadataCommand};
use std::collections::{BTreeMap, BTreeSet};

/// Each crate with the crates of this workspace that it may name.
const ALLOWED: &[(&str, &[&str])] = &[
    ("bellhop-protocol", &[]),
    ("bellhop-host-kmd", &["bellhop-protocol"]),
    ("bellhop-device", &["bellhop-host-kmd", "bellhop-protocol"]),
    ("bellhop-guest-umd", &["bellhop-protocol"]),
    ("bellhop-guest", &["bellhop-guest-umd", "bellhop-protocol"]),
    (
        "bellhop-integration",
        &["bellhop-device", "bellhop-guest", "bellhop-guest-umd", "bellhop-protocol"],
    ),
    ("bellhop-fuzz", &["bellhop-device", "bellhop-host-kmd", "bellhop-protocol"]),
    ("bellhop-package", &["bellhop-device", "bellhop-guest", "bellhop-integration"]),
    ("bellhop-xtask", &[]),
];

#[test]
fn crates_name_only_those_below_them() {
    let metadata = MetadataCommand::new()
        .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .no_deps()
        .exec()
        .unwrap();
    let allowed: BTreeMap<_, BTreeSet<_>> =
        ALLOWED.iter().map(|(name, below)| (*name, below.iter().copied().collect())).collect();
    let members: BTreeSet<_> = metadata.packages.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(members, allowed.keys().copied().collect(), "a crate came or went");
    for package in &metadata.packages {
        let named = package
            .dependencies
            .iter()
            .filter(|dependency| dependency.kind != DependencyKind::Development)
            .map(|dependency| dependency.name.as_str())
            .filter(|name| members.contains(name));
        for name in named {
            let may = allowed[package.name.as_str()].contains(name);
            assert!(may, "{} may not depend on {name}", package.name);
        }
    }
}
