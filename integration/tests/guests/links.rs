// SPDX-License-Identifier: MIT OR Apache-2.0

//! Several GPUs as one adapter.

use crate::support::{
    DISPLAYS, Daemon, LINK, NOT_OFFERED, assert_every_behaviour_is_seen, outcomes, quick,
};

#[test]
fn every_behaviour_of_a_chain_is_seen() {
    let config = format!("{}{DISPLAYS}{LINK}", quick("", ""));
    let daemon = Daemon::start_with(1, &config);
    // What one GPU does, a chain does, too.
    let seen = daemon.selftest(&[]);
    assert_every_behaviour_is_seen(&seen, NOT_OFFERED);
    let of_links = |check: &&serde_json::Value| check["id"].as_str().unwrap().starts_with("link.");
    assert!(outcomes(&seen, "passed").filter(of_links).count() >= 8);
}
