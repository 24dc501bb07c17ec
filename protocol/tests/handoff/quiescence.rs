// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tickets, and engines that pass them.

use super::{Bytes, KICK};
use bellhop_protocol::handoff::attention::Attention;
use bellhop_protocol::handoff::quiescence::{Passed, Tickets};
use bellhop_protocol::handoff::sync::{AtomicU64, Ordering};
use loom::sync::Arc;
use loom::thread;

#[test]
fn of_engines_that_pass_a_ticket_at_once_one_sees_that_all_have() {
    loom::model(|| {
        let engines = Arc::new([Passed::new(), Passed::new()]);
        let tell = [0, 1].map(|engine| {
            let engines = engines.clone();
            thread::spawn(move || engines[engine].pass(1, engines.iter()))
        });
        let told: Vec<_> = tell.into_iter().filter_map(|engine| engine.join().unwrap()).collect();
        assert!(!told.is_empty(), "every engine has passed and none tells");
        assert!(told.iter().all(|passed| *passed == 1));
        assert_eq!(Passed::on_all(engines.iter()), 1);
    });
}

#[test]
fn what_was_changed_before_a_ticket_is_not_used_after_all_have_passed_it() {
    loom::model(|| {
        let memory = Arc::new(Bytes::new());
        let shared = Arc::new((Tickets::new(), Attention::new(), AtomicU64::new(0), Passed::new()));
        let engine = spawn!(shared, memory => {
            let (tickets, attention, is_unmapped, passed) = &*shared;
            for _ in 0..2 {
                if attention.take() & KICK != 0 {
                    let _tell = passed.pass(tickets.latest(), [passed].into_iter());
                }
                if is_unmapped.load(Ordering::Relaxed) == 0 {
                    memory.read();
                }
            }
        });
        let (tickets, attention, is_unmapped, passed) = &*shared;
        is_unmapped.store(1, Ordering::Relaxed);
        let ticket = tickets.draw();
        let _awake = attention.raise(KICK);
        if Passed::on_all([passed].into_iter()) >= ticket {
            // The memory is given to another owner.
            memory.write();
        }
        engine.join().unwrap();
    });
}

#[test]
fn an_engine_that_reads_a_ticket_before_it_is_called_finds_what_was_changed_before_it() {
    loom::model(|| {
        let shared = Arc::new((Tickets::new(), [AtomicU64::new(0), AtomicU64::new(0)]));
        // The control plane, and an engine that flushes.
        let drawing = [0, 1].map(|drawer| {
            let shared = shared.clone();
            thread::spawn(move || {
                let (tickets, changes) = &*shared;
                changes[drawer].store(1, Ordering::Relaxed);
                tickets.draw()
            })
        });
        let (tickets, changes) = &*shared;
        let latest = tickets.latest();
        let seen = changes.each_ref().map(|change| change.load(Ordering::Relaxed));
        for (drawer, seen) in drawing.into_iter().zip(seen) {
            assert!(drawer.join().unwrap() > latest || seen == 1, "an old change was remembered");
        }
        assert_eq!(tickets.latest(), 2);
    });
}
