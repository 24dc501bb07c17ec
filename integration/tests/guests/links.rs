// SPDX-License-Identifier: MIT OR Apache-2.0

//! Several GPUs as one adapter.

use crate::support::secrets;
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

/// Nodes that the master has none of.
#[test]
fn a_slave_s_video_and_security_nodes_do_what_a_master_s_do() {
    let nodes =
        "[adapters.second]\nvideo_decode_nodes = 1\nvideo_encode_nodes = 1\nsecurity_nodes = 1\n";
    let link = "[link.pair]\nadapters = [\"\", \"second\"]\n";
    let daemon = Daemon::start_with(1, &format!("{}{nodes}{link}", quick("", "")));
    let seen = daemon.selftest(&["video."]);
    assert_eq!(outcomes(&seen, "passed").count(), seen["checks"].as_array().unwrap().len());
    secrets::see_every_behaviour(&mut daemon.work(&["selftest", "security.", "--json"]), false);
}
