// SPDX-License-Identifier: MIT OR Apache-2.0

//! What `bellhop probe` says of a machine's Vulkan: one that computes correctly, one that computes wrongly, none, and
//! this machine's own.

use crate::support::{bellhop, is_here, quick_configuration, succeed, text};
use serde_json::{Value, json};
use std::process::Command;

/// Returns whether Debian's packages can be fetched and unpacked.
fn vulkans_are_here() -> bool {
    let loss = "no Vulkan is tried";
    ["apt-get", "dpkg-deb"].iter().all(|program| is_here(program, loss))
}

fn probe(arguments: &[&str]) -> Command {
    let mut command = bellhop();
    command.arg("probe").args(arguments);
    command
}

/// Returns what `bellhop probe` says of the device, as JSON and as text.
fn described(arguments: &[&str]) -> (Value, String) {
    let json = succeed(probe(arguments).arg("--json").output().unwrap());
    let json: Value = serde_json::from_str(&json).unwrap();
    assert!(json["nodes"].is_array(), "{json}");
    let words = succeed(probe(arguments).output().unwrap());
    // Whatever this machine has of cgroups, both say it.
    let cgroups = &json["cgroups"];
    let said = match cgroups["missing"].as_str() {
        Some(why) => format!("No cgroups for workers: {why}\n"),
        None => {
            format!("Cgroups for workers, with {}", cgroups["controllers"][0].as_str().unwrap())
        }
    };
    assert!(words.contains(&said), "{said}: {words}");
    (json, words)
}

/// Returns what it says of kernels.
fn kernels(arguments: &[&str]) -> (Value, String) {
    let (json, words) = described(arguments);
    (json["kernels"].clone(), words)
}

#[test]
fn a_guest_is_told_what_the_daemon_s_own_test_found() {
    if !vulkans_are_here() {
        return;
    }
    let (json, words) = described(&["--vulkan", "debian-13"]);
    let (own, hosts) = (&json["own_kernels"], &json["kernels"]["devices"][0]);
    assert_eq!(own["missing"], Value::Null);
    assert_eq!((&own["device"], &own["driver"]), (&hosts["name"], &hosts["driver"]));
    assert_eq!(own["pointers"], hosts["usable"]["pointers"]);
    for limit in ["work_group_size", "work_group_invocations", "work_groups", "shared_memory"] {
        assert_eq!(own[limit], hosts["limits"][limit], "{limit}");
    }
    // The protocol's, and the configuration's default.
    assert_eq!((&own["descriptors"], &own["kernels"]), (&json!(16), &json!(256)));
    let name = hosts["name"].as_str().unwrap();
    assert!(words.contains(&format!("own kernels     256 at most, with {name}\n")), "{words}");
}

#[test]
fn a_guest_of_a_daemon_that_has_them_off_is_told_which_key_does_that() {
    let configuration = quick_configuration("kernels = \"off\"", "");
    let path = configuration.path().to_str().unwrap();
    let (json, words) = described(&["--config", path]);
    let why = json["own_kernels"]["missing"].as_str().unwrap();
    assert!(why.contains("adapter.kernels"), "{why}");
    assert!(words.contains(&format!("own kernels     none: {why}\n")), "{words}");
}

#[test]
fn a_vulkan_that_computes_rightly_is_accepted_with_pointers_and_limits() {
    if !vulkans_are_here() {
        return;
    }
    let (json, words) = kernels(&["--vulkan", "debian-13"]);
    assert_eq!(json["missing"], Value::Null);
    let device = &json["devices"][0];
    assert_eq!(json["device"], device["name"]);
    assert_eq!(device["kind"], "cpu");
    assert_eq!(device["usable"]["pointers"], true);
    assert!(device["driver"].as_str().unwrap().contains("Mesa 25."), "{device}");
    // The minima of the Vulkan specification, and the size of a page.
    let limits = &device["limits"];
    assert!(limits["work_group_invocations"].as_u64().unwrap() >= 128, "{limits}");
    assert!(limits["push_constants"].as_u64().unwrap() >= 128, "{limits}");
    assert_eq!(limits["import_alignment"], 4096);
    let name = json["device"].as_str().unwrap();
    assert!(words.contains(&format!("Kernels, with {name}\n")), "{words}");
    assert!(words.contains("any GPU virtual address"), "{words}");
}

#[test]
fn a_vulkan_that_computes_wrongly_is_refused_by_name_with_what_to_install() {
    if !vulkans_are_here() {
        return;
    }
    let (json, words) = kernels(&["--vulkan", "debian-12"]);
    assert_eq!(json["device"], Value::Null);
    let refused = json["devices"][0]["refused"].as_str().unwrap();
    for part in [
        "llvmpipe",
        "Mesa 22.3",
        "a loop of 1000000 iterations ends after 65535",
        "install Mesa 25 or newer",
        "mesa-vulkan-drivers",
    ] {
        assert!(refused.contains(part), "{refused}");
    }
    assert!(words.contains("No kernels: ") && words.contains(refused), "{words}");
}

#[test]
fn a_device_that_is_not_there_is_named_with_those_that_are() {
    if !vulkans_are_here() {
        return;
    }
    let (json, words) = kernels(&["--vulkan", "debian-13", "--vulkan-device", "no such device"]);
    assert_eq!(json["device"], Value::Null);
    assert!(json["missing"].as_str().unwrap().contains("there is llvmpipe"), "{json}");
    assert!(words.contains("No kernels: no Vulkan device is named like"), "{words}");
}

/// With or without Vulkan, the report says so, and still describes the device that guests get.
#[test]
fn the_machine_s_own_vulkan_is_described_whatever_it_is() {
    let (json, words) = kernels(&[]);
    assert_ne!(json["device"].is_string(), json["missing"].is_string(), "{json}");
    assert!(words.starts_with("Bellhop GPU"), "{words}");
    assert!(words.contains("Kernels, with ") || words.contains("No kernels: "), "{words}");
}

/// The program that contains the daemon links no Vulkan library.
#[test]
fn the_daemon_needs_no_vulkan_to_start() {
    if !is_here("ldd", "what the program links is not looked at") {
        return;
    }
    let linked = Command::new("ldd").arg(env!("CARGO_BIN_EXE_bellhop")).output().unwrap();
    let linked = text(&linked.stdout);
    assert!(linked.contains("libc.so") && !linked.contains("vulkan"), "{linked}");
}
