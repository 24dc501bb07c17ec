// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests that leave something out say so where `cargo xtask test` looks.

use crate::support::skip;
use std::fs;
use std::process::Command;

/// Tells this test's own process that it leaves something out.
const LEAVES_OUT: &str = "BELLHOP_TEST_LEAVES_OUT";

#[test]
fn a_test_that_leaves_something_out_ends_well_and_is_told_of() {
    if std::env::var_os(LEAVES_OUT).is_some() {
        return skip("there is\nno dragon", "no\tfire is tested", "find one");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("left-out");
    let thread = std::thread::current();
    let name = thread.name().unwrap();
    let again = |is_required: bool| {
        let mut test = Command::new(std::env::current_exe().unwrap());
        test.args(["--exact", name]).env(LEAVES_OUT, "").env("BELLHOP_LEFT_OUT", &file);
        test.env_remove("CI").env_remove("BELLHOP_REQUIRE_ALL");
        if is_required {
            test.env("BELLHOP_REQUIRE_ALL", "1");
        }
        test.output().unwrap().status.success()
    };
    assert!(again(false) && again(false));
    let line = format!("{name}\tno fire is tested\tthere is no dragon\tfind one\n");
    assert_eq!(fs::read_to_string(&file).unwrap(), line.repeat(2));
    assert!(!again(true), "where nothing may be left out, that is a failure");
}
