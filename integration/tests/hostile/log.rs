// SPDX-License-Identifier: MIT OR Apache-2.0

//! The log of guests: each socket has its share, and no guest fills a disk or takes a neighbour's share.

use crate::support::{self, Daemon};
use bellhop_guest::client::Shape;
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::{Adapter, Error};
use bellhop_protocol::control::{MAX_REPLY_SIZE, RequestCode, RequestHeader};
use std::io::Write;
use std::os::unix::net::UnixStream;
use zerocopy::IntoBytes;

const WRONG: usize = 10_000;

/// Sends this number of unknown requests; each causes a line of the log at level `debug`.
fn be_wrong(guest: &dyn Transport, times: usize) {
    let length = size_of::<RequestHeader>() as u32;
    let header = RequestHeader { code: RequestCode(0), length, process: 0, reserved: 0 };
    for _ in 0..times {
        guest.request(header.as_bytes(), &mut [0; MAX_REPLY_SIZE]).unwrap();
    }
}

/// The number in a field of a line.
fn number(line: &str, name: &str) -> usize {
    let (_, rest) = line.split_once(&format!(" {name}=")).unwrap_or_else(|| panic!("{line}"));
    rest.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn a_guest_that_makes_10_000_mistakes_fills_its_share_and_not_its_neighbours() {
    let daemon = Daemon::start_logging(
        2,
        "[guest]\nlog_lines_per_second = 5\nlog_burst = 50\n",
        "off,bellhop_host_kmd::dxgkrnl::kernel=debug,bellhop_device=info",
    );
    let [(hostile, mine), (neighbour, its)] = [0, 1].map(|socket| {
        let guest = support::guest(&daemon, socket);
        Adapter::open(guest.clone()).unwrap();
        (guest, number(&daemon.await_log("guest attached"), "guest"))
    });
    be_wrong(&*hostile, WRONG);
    be_wrong(&*neighbour, 20);
    // Each mistake is logged or counted as left out.
    let (mut logged, mut left_out, mut of_the_neighbour) = (0, 0, 0);
    while logged + left_out < WRONG || of_the_neighbour < 20 {
        let line = daemon.await_log("");
        if line.contains("request refused") {
            let guest = number(&line, "guest");
            assert!(guest == mine || guest == its, "{line}");
            *(if guest == mine { &mut logged } else { &mut of_the_neighbour }) += 1;
        } else if line.contains("log lines were suppressed") {
            assert!(line.contains("gpu0.sock"), "{line}");
            left_out += number(&line, "lines");
        }
    }
    println!("of {WRONG} lines {logged} were logged and {left_out} left out");
    assert_eq!((logged + left_out, of_the_neighbour), (WRONG, 20));
    // Attaching used a few lines of the burst.
    assert!((40..WRONG / 10).contains(&logged), "{logged}");
}

#[test]
fn the_line_of_a_lost_queue_names_its_socket_guest_process_and_queue() {
    let daemon = Daemon::start_logging(
        2,
        "",
        "off,bellhop_host_kmd::dxgkrnl::kernel=debug,bellhop_device=info",
    );
    let guest = support::guest(&daemon, 1);
    let mut client = support::client_of(&guest, Shape::default());
    let id = number(&daemon.await_log("guest attached"), "guest");
    // No memory is mapped there.
    client.commands.fill(8, 8, 0).unwrap();
    let value = client.submit().unwrap();
    assert!(matches!(client.finish(value), Err(Error::QueueLost { .. })));
    let line = daemon.await_log("HW queue lost");
    assert!(line.contains("gpu1.sock"), "{line}");
    assert!(line.contains(&format!("queue={}", client.queue.handle())), "{line}");
    let process = client.process.process() as usize;
    assert_eq!((number(&line, "guest"), number(&line, "process")), (id, process), "{line}");
}

#[test]
fn a_socket_keeps_one_share_however_often_front_ends_connect() {
    const TIMES: usize = 500;
    let daemon = Daemon::start_with(2, "[guest]\nlog_lines_per_second = 1\nlog_burst = 20\n");
    for _ in 0..TIMES {
        let mut peer = UnixStream::connect(daemon.socket(0)).unwrap();
        // No valid front end sends this.
        let _ = peer.write_all(&[0xFF; 64]);
    }
    let (mut logged, mut left_out) = (0, 0);
    while logged + left_out < 2 * TIMES {
        let line = daemon.await_log("gpu0.sock");
        if line.contains("log lines were suppressed") {
            left_out += number(&line, "lines");
        } else {
            logged += 1;
        }
    }
    println!("of {} lines {logged} were logged and {left_out} left out", 2 * TIMES);
    assert!(logged < TIMES, "{logged}");
    // All lines of the neighbour are there.
    let guest = support::guest(&daemon, 1);
    Adapter::open(guest).unwrap();
    assert!(daemon.await_log("front end connected").contains("gpu1.sock"));
    daemon.await_log("guest attached");
    daemon.await_log("guest detached");
    assert!(daemon.await_log("front end disconnected").contains("gpu1.sock"));
}
