//! A daemon that has nothing to do does nothing.

mod support;

use bellhop_guest_umd::{Adapter, CommandBuffer};
use bellhop_protocol::doorbell::ConnectionStatus;
use std::time::Duration;
use support::Daemon;

#[test]
fn with_guests_attached_and_doorbells_connected_no_thread_wakes() {
    const GUESTS: usize = 4;
    let daemon = Daemon::start(GUESTS);
    let mut attached = Vec::new();
    for number in 0..GUESTS {
        let adapter = Adapter::open(support::guest(&daemon, number)).unwrap();
        let device = adapter.create_device().unwrap();
        for node in 0..3 {
            let context = device.create_context(node).unwrap();
            let mut queue = context.create_user_mode_queue(4096).unwrap();
            let mut commands = CommandBuffer::new(&device, 64).unwrap();
            let value = queue.submit(&mut commands).unwrap();
            queue.progress_fence().poll(value, Duration::from_secs(30)).unwrap();
            attached.push((queue, commands));
        }
    }
    // Engines fall asleep one after another; the last to do so has armed its doorbells.
    for (queue, _) in &attached {
        while queue.status().unwrap() != ConnectionStatus::CONNECTED_NOTIFY {
            std::thread::yield_now();
        }
    }
    daemon.await_quiet();
    let before = daemon.wakeups();
    daemon.expect_no_log_for(Duration::from_secs(2));
    assert_eq!(daemon.wakeups(), before, "wake-ups in two idle seconds");
    for (queue, commands) in &mut attached {
        let value = queue.submit(commands).unwrap();
        queue.progress_fence().poll(value, Duration::from_secs(30)).unwrap();
    }
}
