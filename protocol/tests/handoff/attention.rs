// SPDX-License-Identifier: MIT OR Apache-2.0

//! Calls that wake an engine.

use super::Bytes;
use bellhop_protocol::handoff::attention::Attention;
use loom::sync::Arc;
use loom::thread;

#[test]
fn of_several_calls_exactly_one_wakes_a_sleeping_engine_and_none_is_lost() {
    loom::model(|| {
        let attention = Arc::new(Attention::new());
        let callers: Vec<_> = [1, 2]
            .into_iter()
            .map(|bit| {
                let attention = attention.clone();
                thread::spawn(move || attention.raise(bit))
            })
            .collect();
        let slept = attention.try_sleep();
        let wakes = callers.into_iter().filter_map(|caller| caller.join().unwrap().then_some(()));
        assert_eq!(wakes.count(), usize::from(slept));
        assert_eq!(attention.take(), 3);
        assert!(!attention.is_asleep());
    });
}

#[test]
fn an_engine_finds_what_each_of_its_callers_did_before_it_called() {
    loom::model(|| {
        let attention = Arc::new(Attention::new());
        let callers = [1, 2].map(|bit| {
            let (attention, done) = (attention.clone(), Arc::new(Bytes::new()));
            let caller = spawn!(done => {
                done.write();
                attention.raise(bit)
            });
            (bit, done, caller)
        });
        let raised = attention.take();
        for (bit, done, _) in &callers {
            if raised & bit != 0 {
                done.read();
            }
        }
        for (_, _, caller) in callers {
            assert!(!caller.join().unwrap(), "an engine that is awake was to be woken");
        }
    });
}

#[test]
fn an_engine_wakes_by_itself_or_is_woken_and_never_both() {
    loom::model(|| {
        let attention = Arc::new(Attention::new());
        assert!(attention.try_sleep());
        let caller = spawn!(attention => attention.raise(1));
        let woke = attention.try_wake();
        let is_woken = caller.join().unwrap();
        assert!(woke != is_woken);
        assert_eq!(attention.take(), 1);
    });
}
