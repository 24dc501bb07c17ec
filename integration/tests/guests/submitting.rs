// SPDX-License-Identifier: MIT OR Apache-2.0

//! A submission that fails, over the real transport: refused work was not submitted.

use crate::support::{self, Daemon, TIMEOUT};
use bellhop_guest::client::{Client, Shape};
use bellhop_guest::intercepted::{Intercept, Intercepted};
use bellhop_guest_umd::Adapter;
use bellhop_protocol::control::RequestCode;
use bellhop_protocol::packet::dispatch::Kernel;
use bellhop_protocol::status::Status;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Refuses to connect doorbells while the flag is set.
struct Refuses(AtomicBool);

impl Intercept for Refuses {
    fn answer(&self, code: RequestCode, _body: &[u8]) -> Option<Status> {
        let refuses = code == RequestCode::CONNECT_DOORBELL && self.0.load(Ordering::Relaxed);
        refuses.then_some(Status::INSUFFICIENT_RESOURCES)
    }
}

/// The work of these buffers undoes itself if it executes twice.
#[test]
fn refused_work_executes_once_however_often_it_is_tried() {
    let daemon = Daemon::start(1);
    let guest = support::guest(&daemon, 0);
    let device = Arc::new(Intercepted { guest, intercept: Refuses(true.into()) });
    let refuses = &device.intercept.0;
    let adapter = Adapter::open(Arc::clone(&device) as Arc<_>).unwrap();
    let Client { mut queue, mut commands, memory, context, .. } =
        Client::new(adapter, Shape::default()).unwrap();
    let mut fallback = context.create_fallback_queue(4096).unwrap();
    let word = || memory.allocation().word(0).unwrap().load(Ordering::Acquire);
    let at = memory.gpu_va();
    commands.dispatch(Kernel::XOR_STREAM, at, at, 8, 0x5eed).unwrap();
    for _ in 0..3 {
        support::refusal(queue.submit(&mut commands));
    }
    refuses.store(false, Ordering::Relaxed);
    let value = queue.submit(&mut commands).unwrap();
    queue.progress_fence().wait(value, TIMEOUT).unwrap();
    let once = word();
    assert_ne!(once, 0, "it was executed an even number of times");

    // A fallback queue falls back at the first refusal, and its work runs once.
    refuses.store(true, Ordering::Relaxed);
    let submission = fallback.submit(&mut commands).unwrap();
    assert!(!submission.user_mode);
    fallback.wait(submission, TIMEOUT).unwrap();
    assert_eq!(word(), 0);
    drop(fallback);
    assert_eq!(word(), 0);
}
