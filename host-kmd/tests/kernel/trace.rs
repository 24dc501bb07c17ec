//! What a tool that traces is told.

use crate::bench::Bench;
use crate::model::Call;
use bellhop_host_kmd::port::{CommandToken, Input, TraceAction, TraceError, TracePage};
use bellhop_protocol::control::hw_queue::DestroyHwQueue;
use bellhop_protocol::doorbell::LoggingLevel;
use bellhop_protocol::fence_log::FenceLogOperation;
use bellhop_protocol::trace::{MAX_TRACE_RECORDS, What};

const SIGNAL: FenceLogOperation = FenceLogOperation::SIGNAL_EXECUTED;

fn trace(bench: &mut Bench, action: TraceAction) -> Result<TracePage, TraceError> {
    let token = CommandToken(1000 + bench.traces.len() as u64);
    bench.input(Input::Trace { token, action });
    bench.traces[&token].clone()
}

fn recorded(bench: &mut Bench, action: TraceAction) -> Vec<What> {
    let page = trace(bench, action).unwrap();
    page.records.into_iter().map(|record| record.what).collect()
}

fn levels(bench: &Bench) -> Vec<LoggingLevel> {
    let calls = bench.model.take_log().into_iter();
    let level = |call| if let Call::LoggingLevel(level) = call { Some(level) } else { None };
    calls.filter_map(level).collect()
}

#[test]
fn everything_is_logged_while_somebody_traces_and_what_there_is_and_changes_is_told() {
    let mut bench = Bench::new(2);
    let guest = bench.guest(1);
    let (client, _) = bench.connected(guest);
    bench.model.log(client.id, SIGNAL, client.fence_slot, 1);
    bench.model.take_log();
    let begun = recorded(&mut bench, TraceAction::Begin);
    assert_eq!(levels(&bench), [LoggingLevel::VERBOSE]);
    let queue = client.id.0;
    let doorbell = |state: &str| What::Doorbell { queue, state: state.into() };
    assert_eq!(begun[0], What::Device { state: "D0".into() });
    assert_eq!(begun[1], What::Engine { node: 0, state: "F0".into() });
    let is_it = |what: &&What| matches!(what, What::Queue { node: 0, process, .. } if *process == client.process);
    assert_eq!(begun.iter().filter(is_it).count(), 1);
    // It was connected, and is disconnected so that the driver learns of the level.
    let doorbells = [doorbell("connected"), doorbell("disconnected")];
    assert!(begun.windows(2).any(|pair| pair == doorbells), "{begun:?}");
    bench.connect(client).unwrap();
    bench.model.log(client.id, SIGNAL, client.fence_slot, 7);
    let signal = What::Signal { queue, fence: client.fence_slot, value: 7, queued: 0 };
    let fetched = recorded(&mut bench, TraceAction::Fetch);
    assert_eq!(fetched, [doorbell("connected"), signal.clone()]);
    // What a queue logs last is told though it is gone.
    bench.model.log(client.id, SIGNAL, client.fence_slot, 8);
    bench.call(client, &DestroyHwQueue { hw_queue: client.queue }).unwrap();
    let last = recorded(&mut bench, TraceAction::End);
    assert!(last.iter().any(|what| matches!(what, What::Signal { value: 8, .. })), "{last:?}");
    assert_eq!(levels(&bench), [LoggingLevel::DEFAULT]);
    assert_eq!(recorded(&mut bench, TraceAction::Fetch), []);
}

#[test]
fn one_traces_at_a_time_and_overwritten_entries_are_told() {
    let mut bench = Bench::new(2);
    let guest = bench.guest(1);
    let client = bench.client(guest);
    recorded(&mut bench, TraceAction::Begin);
    assert_eq!(trace(&mut bench, TraceAction::Begin), Err(TraceError::Busy));
    for value in 0..100 {
        bench.model.log(client.id, SIGNAL, client.fence_slot, value);
    }
    let fetched = recorded(&mut bench, TraceAction::Fetch);
    assert_eq!(fetched.len(), 84);
    assert!(fetched.contains(&What::Lost { queue: client.id.0, entries: 17 }));
    recorded(&mut bench, TraceAction::End);
    recorded(&mut bench, TraceAction::Begin);
}

#[test]
fn a_tool_that_does_not_fetch_costs_no_more_than_a_bound_and_is_told_what_is_missing() {
    let mut bench = Bench::new(2);
    let guest = bench.guest(1);
    let client = bench.client(guest);
    bench.doorbell(client);
    recorded(&mut bench, TraceAction::Begin);
    for _ in 0..40_000 {
        bench.connect(client).unwrap();
        bench.command(bellhop_host_kmd::port::Command::DisconnectGuest(guest));
    }
    let (mut seen, mut missing) = (0, 0);
    loop {
        let page = trace(&mut bench, TraceAction::Fetch).unwrap();
        assert!(page.records.len() <= MAX_TRACE_RECORDS);
        for record in page.records {
            match record.what {
                What::Dropped { records } => missing += records,
                _ => seen += 1,
            }
        }
        if !page.more {
            break;
        }
    }
    assert_eq!((seen, seen + missing), (1 << 16, 80_000));
}
