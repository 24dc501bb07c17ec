// SPDX-License-Identifier: MIT OR Apache-2.0

//! One daemon with two adapters.

use crate::support::{Daemon, adapter_of, guest, run, submit_once, text};
use bellhop_guest::client::{Client, Shape};
use bellhop_guest::inspect::{self, Selection};
use bellhop_guest_umd::Adapter;

/// The first adapter has four nodes, the second three. A guest of the second socket is attached to the second.
const TWO: &str = "[adapter]\nengine_idle = \"0s\"\n\
    [adapters.second]\ncopy_nodes = 1\nengine_idle = \"0s\"\n\
    [attach]\n\"gpu1.sock\" = \"second\"\n";

fn adapter(daemon: &Daemon, number: usize) -> Adapter {
    adapter_of(&guest(daemon, number))
}

/// Submits once on the last node; returns the node.
fn work(adapter: &Adapter) -> u32 {
    let node = adapter.nodes().unwrap().len() as u32 - 1;
    let shape = Shape { node, ..Shape::default() };
    let mut client = Client::new(adapter.open_process().unwrap(), shape).unwrap();
    submit_once(&mut client);
    node
}

#[test]
fn each_guest_has_the_adapter_that_its_socket_is_attached_to() {
    let daemon = Daemon::start_with(3, TWO);
    let adapters = [0, 1, 2].map(|number| adapter(&daemon, number));
    assert_eq!(adapters.each_ref().map(work), [3, 2, 3]);

    let seen = daemon.snapshots(Selection::default());
    let names: Vec<_> = seen.iter().map(|seen| seen.adapter.name.as_str()).collect();
    assert_eq!(names, ["", "second"]);
    assert_eq!(seen.iter().map(|seen| seen.nodes.len()).collect::<Vec<_>>(), [4, 3]);
    assert_eq!(seen.iter().map(|seen| seen.guests.len()).collect::<Vec<_>>(), [2, 1]);
    assert!(seen.iter().flat_map(|seen| &seen.guests).all(|g| g.statistics.packets > 0));
    let id = seen[1].guests[0].id;
    let selected = daemon.snapshots(Selection { adapter: None, guest: Some(id) });
    assert_eq!(selected.iter().map(|seen| seen.adapter.ordinal).collect::<Vec<_>>(), [1]);
    // A guest does not see which adapter it has.
    let own = inspect::snapshot(&mut &adapters[1]).unwrap();
    assert_eq!((own.adapter.ordinal, own.adapter.name.as_str()), (0, ""));
    assert_eq!(own.nodes.len(), 3);
}

#[test]
fn the_command_shows_all_adapters_or_one() {
    let daemon = Daemon::start_with(2, TWO);
    let inspect = || daemon.tool(&["inspect"]);
    assert_eq!(run(inspect().arg("--json")).lines().count(), 2);
    let tree = run(&mut inspect());
    assert!(tree.contains("1, second: Bellhop GPU"), "{tree}");
    let tree = run(inspect().args(["--adapter", "0"]));
    assert!(!tree.contains("second"), "{tree}");
    let refused = inspect().args(["--adapter", "2"]).output().unwrap();
    assert!(!refused.status.success() && text(&refused.stderr).contains("no adapter 2"));
}

#[test]
fn a_guest_that_goes_leaves_the_other_adapter_at_work() {
    let daemon = Daemon::start_with(2, TWO);
    let [first, second] = [0, 1].map(|number| adapter(&daemon, number));
    work(&second);
    drop(second);
    daemon.await_log("front end disconnected");
    work(&first);
    work(&adapter(&daemon, 1));
}
