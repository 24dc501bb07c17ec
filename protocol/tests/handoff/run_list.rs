// SPDX-License-Identifier: MIT OR Apache-2.0

//! Queues that leave the run list and return.

use super::{Bytes, KICK};
use bellhop_protocol::handoff::attention::Attention;
use bellhop_protocol::handoff::preemption::Preemption;
use bellhop_protocol::handoff::run_list::Membership;
use bellhop_protocol::handoff::sync::{AtomicU64, Ordering};
use loom::sync::Arc;

#[test]
fn a_suspended_queue_is_not_executed_once_its_engine_has_answered() {
    loom::model(|| {
        let shared = Arc::new((Membership::new(), Attention::new(), Bytes::new()));
        let answered = Arc::new(AtomicU64::new(0));
        let engine = spawn!(shared, answered => {
            let (queue, attention, memory) = &*shared;
            for _ in 0..2 {
                if attention.take() & KICK != 0 {
                    answered.store(1, Ordering::Release);
                }
                if queue.may_run() {
                    memory.read();
                }
            }
        });
        let (queue, attention, memory) = &*shared;
        queue.suspend();
        let _ = attention.raise(KICK);
        if answered.load(Ordering::Acquire) == 1 {
            // For example, eviction.
            memory.write();
        }
        engine.join().unwrap();
    });
}

#[test]
fn a_preempted_queue_that_is_reported_as_stopped_is_not_executed() {
    loom::model(|| {
        let shared = Arc::new((Membership::new(), Preemption::new(), Bytes::new()));
        let engine = spawn!(shared => {
            let (queue, preemption, memory) = &*shared;
            if queue.may_run() {
                memory.read();
            }
            let _ = preemption.stop();
            if queue.may_run() {
                memory.read();
            }
        });
        let (queue, preemption, memory) = &*shared;
        queue.suspend();
        preemption.ask(7);
        if let Some(fence) = preemption.report() {
            assert_eq!(fence, 7);
            assert_eq!(preemption.report(), None);
            // For example, eviction.
            memory.write();
        }
        engine.join().unwrap();
    });
}

#[test]
fn a_resumed_queue_finds_what_was_made_ready_for_it_and_is_looked_at() {
    loom::model(|| {
        let shared = Arc::new((Membership::new(), Attention::new(), Bytes::new()));
        shared.0.suspend();
        let engine = spawn!(shared => {
            let (queue, attention, memory) = &*shared;
            let mut turns = 0;
            // It has work, and looks once on its own and once more when it is called.
            for _ in 0..2 {
                let called = attention.take() & KICK != 0;
                let runs = queue.may_run();
                assert!(runs || !called, "called to look, and passed over");
                if runs {
                    memory.read();
                    turns += 1;
                }
            }
            turns
        });
        let (queue, attention, memory) = &*shared;
        memory.write();
        queue.resume();
        let _ = attention.raise(KICK);
        let turns = engine.join().unwrap();
        assert!(turns > 0 || attention.take() == KICK, "nobody looks at the queue again");
    });
}
