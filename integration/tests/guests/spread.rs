// SPDX-License-Identifier: MIT OR Apache-2.0

//! Work of several guests on an adapter with several nodes of a type.

use crate::support::{Daemon, guest};
use bellhop_guest::Nodes;
use bellhop_guest::client::{Client, Shape};
use bellhop_guest_umd::Adapter;
use bellhop_protocol::control::adapter::EngineType;
use std::sync::Arc;

const THREE: &str = "[adapter]\ngraphics_nodes = 3\nengine_idle = \"0s\"\n";
const GUESTS: usize = 6;
const SUBMISSIONS: u64 = 100;

fn client(adapter: &Adapter) -> Client {
    let node = adapter.least_used_node(EngineType::THREE_D).unwrap();
    let shape = Shape { node, ..Shape::default() };
    Client::new(adapter.open_process().unwrap(), shape).unwrap()
}

fn work(client: &mut Client) {
    for _ in 0..SUBMISSIONS {
        client.commands.nop().unwrap();
        client.run().unwrap();
    }
}

#[test]
fn guests_spread_over_the_nodes_and_each_engine_executes_its_part() {
    let daemon = Daemon::start_with(GUESTS, THREE);
    let adapters: Vec<_> = (0..GUESTS)
        .map(|number| Adapter::open(guest(&daemon, number) as Arc<_>).unwrap())
        .collect();
    // The nodes that a guest's main job would use.
    let nodes: Vec<_> = adapters.iter().map(|adapter| Nodes::of(adapter).unwrap()).collect();
    let compute: Vec<_> = nodes.iter().map(|nodes| nodes.compute).collect();
    assert_eq!(compute, [[0, 1], [1, 2], [2, 0], [0, 1], [1, 2], [2, 0]]);
    let copy: Vec<_> = nodes.iter().map(|nodes| (nodes.copy_in, nodes.copy_out)).collect();
    assert_eq!(copy, [(3, 4), (4, 3), (3, 4), (4, 3), (3, 4), (4, 3)]);

    let mut clients: Vec<_> = adapters.iter().map(client).collect();
    std::thread::scope(|threads| {
        for client in &mut clients {
            threads.spawn(|| work(client));
        }
    });
    let executed = |node: usize| {
        let listed = &daemon.snapshot().nodes[node].run_list;
        let mut guests: Vec<_> = listed.iter().map(|queue| queue.guest).collect();
        guests.dedup();
        (guests.len(), listed.iter().map(|queue| queue.completed).sum::<u64>())
    };
    assert_eq!([0, 1, 2].map(executed), [(2, 2 * SUBMISSIONS); 3]);
}

#[test]
fn queues_of_one_guest_spread_over_all_nodes_and_a_guest_that_leaves_makes_room() {
    let daemon = Daemon::start_with(2, THREE);
    let first = Adapter::open(guest(&daemon, 0) as Arc<_>).unwrap();
    let mut clients: Vec<_> = (0..6).map(|_| client(&first)).collect();
    let nodes: Vec<_> = clients.iter().map(|client| client.context.node()).collect();
    assert_eq!(nodes, [0, 1, 2, 0, 1, 2]);
    clients.iter_mut().for_each(work);
    let run_lists = daemon.snapshot().nodes;
    let completed =
        |node: usize| run_lists[node].run_list.iter().map(|queue| queue.completed).sum::<u64>();
    assert_eq!([0, 1, 2].map(completed), [2 * SUBMISSIONS; 3]);

    let second = || Adapter::open(guest(&daemon, 1) as Arc<_>).unwrap();
    for _ in 0..3 {
        // Each time the second guest is the only other one.
        assert_eq!(second().least_used_node(EngineType::THREE_D).unwrap(), 1);
        daemon.await_log("front end disconnected");
    }
}
