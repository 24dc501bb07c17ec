// SPDX-License-Identifier: MIT OR Apache-2.0

//! The allowed dependencies between crates (`docs/architecture.md`), checked against cargo's metadata.

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};
use std::collections::{BTreeMap, BTreeSet};

/// Each crate with the crates of this workspace that it may name.
const ALLOWED: &[(&str, &[&str])] = &[
    ("bellhop-protocol", &[]),
    ("bellhop-config", &[]),
    ("bellhop-host-kmd", &["bellhop-protocol"]),
    (
        "bellhop-device",
        &["bellhop-config", "bellhop-host-kmd", "bellhop-protocol", "bellhop-worker"],
    ),
    ("bellhop-codec", &[]),
    ("bellhop-worker", &["bellhop-codec", "bellhop-protocol"]),
    ("bellhop-guest-umd", &["bellhop-protocol"]),
    ("bellhop-vulkan", &["bellhop-guest-umd", "bellhop-protocol"]),
    ("bellhop-vulkan-suite", &[]),
    ("bellhop-guest", &["bellhop-config", "bellhop-guest-umd", "bellhop-protocol"]),
    ("bellhop-processes", &[]),
    ("bellhop-rfb", &[]),
    ("bellhop-vm", &["bellhop-device", "bellhop-guest", "bellhop-processes", "bellhop-protocol"]),
    (
        "bellhop-integration",
        &[
            "bellhop-config",
            "bellhop-device",
            "bellhop-guest",
            "bellhop-guest-umd",
            "bellhop-processes",
            "bellhop-protocol",
            "bellhop-rfb",
            "bellhop-vm",
            "bellhop-vulkan",
            "bellhop-vulkan-suite",
            "bellhop-worker",
        ],
    ),
    ("bellhop-cost", &["bellhop-device", "bellhop-guest", "bellhop-guest-umd", "bellhop-vulkan"]),
    (
        "bellhop-fuzz",
        &[
            "bellhop-codec",
            "bellhop-device",
            "bellhop-guest",
            "bellhop-guest-umd",
            "bellhop-host-kmd",
            "bellhop-protocol",
            "bellhop-rfb",
            "bellhop-worker",
        ],
    ),
    ("bellhop-package", &["bellhop-device", "bellhop-guest", "bellhop-integration"]),
    ("bellhop-xtask", &[]),
];

fn metadata() -> Metadata {
    MetadataCommand::new()
        .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .no_deps()
        .exec()
        .unwrap()
}

#[test]
fn crates_name_only_those_below_them() {
    let metadata = metadata();
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

/// Crates that do I/O or schedule tasks. The state machines of `host-kmd` and the types of `protocol` must not use
/// them: their owners feed them inputs.
const IO: &[&str] = &["tokio", "mio", "nix", "rustix", "libc", "vhost", "vm-memory", "io-uring"];

#[test]
fn the_kernel_and_the_protocol_do_no_io() {
    let metadata = metadata();
    let pure = ["bellhop-host-kmd", "bellhop-protocol"];
    let checked = metadata.packages.iter().filter(|package| pure.contains(&package.name.as_str()));
    let mut crates = 0;
    for package in checked {
        crates += 1;
        let normal = package.dependencies.iter().filter(|d| d.kind == DependencyKind::Normal);
        for name in normal.map(|dependency| dependency.name.as_str()) {
            assert!(!IO.contains(&name), "{} may not depend on {name}", package.name);
        }
    }
    assert_eq!(crates, pure.len(), "a crate came or went");
}

/// The packages that enable a non-default feature of another.
#[track_caller]
fn with_feature(name: &str, feature: &str) -> Vec<String> {
    let packages = metadata().packages;
    let package = packages.iter().find(|package| package.name.as_str() == name).unwrap();
    let mut on = package.features.get("default").into_iter().flatten();
    assert!(package.features.contains_key(feature) && on.all(|enabled| enabled != feature));
    let has_it = |package: &&Package| {
        let mut dependencies = package.dependencies.iter();
        dependencies.any(|dependency| {
            dependency.name == name
                && dependency.kind == DependencyKind::Normal
                && dependency.features.iter().any(|enabled| enabled == feature)
        })
    };
    packages.iter().filter(has_it).map(|package| package.name.to_string()).collect()
}

/// A program that uses the driver cannot misuse a ring unless it enables that.
#[test]
fn only_the_guest_program_has_raw_access_to_the_driver() {
    assert_eq!(with_feature("bellhop-guest-umd", "raw"), ["bellhop-guest"]);
}

/// In the product every engine has a thread.
#[test]
fn only_what_is_counted_or_fuzzed_runs_engines_by_itself() {
    let mut users = with_feature("bellhop-device", "stepped");
    users.sort();
    assert_eq!(users, ["bellhop-cost", "bellhop-fuzz"]);
}
