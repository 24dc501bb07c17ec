// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the kernel reports to a tool that traces.

use crate::bench::{Bench, Client};
use crate::model::Call;
use bellhop_host_kmd::port::{CommandToken, Input, TraceAction, TraceError, TracePage};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::fence::{CreateNativeFence, DestroyNativeFence};
use bellhop_protocol::control::hw_queue::DestroyHwQueue;
use bellhop_protocol::control::process::SetObjectName;
use bellhop_protocol::doorbell::LoggingLevel;
use bellhop_protocol::fence_log::FenceLogOperation;
use bellhop_protocol::trace::{MAX_TRACE_RECORDS, What};

/// Starts a trace with logs of this many entries, of which one fewer can be read.
const BEGIN: TraceAction = TraceAction::Begin { entries: 1024 };
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
fn while_a_tool_traces_everything_is_logged_and_states_and_their_changes_are_told() {
    let (mut bench, client, _) = Bench::with_connected(2);
    bench.model.log(client.id, SIGNAL, client.fence_slot, 1);
    bench.model.take_log();
    let begun = recorded(&mut bench, BEGIN);
    assert_eq!(levels(&bench), [LoggingLevel::VERBOSE]);
    let queue = client.id.0;
    let doorbell = |state: &str| What::Doorbell { queue, state: state.into() };
    assert_eq!(begun[0], What::Clock { monotonic: 10, boottime: 20, realtime: 30 });
    assert_eq!(begun[1], What::Device { state: "D0".into() });
    assert_eq!(begun[2], What::Engine { node: 0, state: "F0".into() });
    assert!(begun.contains(&What::Busy { node: 1, busy_time: 101 }), "{begun:?}");
    let is_it = |what: &&What| matches!(what, What::Queue { node: 0, process, .. } if *process == client.process);
    assert_eq!(begun.iter().filter(is_it).count(), 1);
    // The doorbell was connected, and is disconnected so that the user-mode driver learns the new logging level.
    let doorbells = [doorbell("connected"), doorbell("disconnected")];
    assert!(begun.windows(2).any(|pair| pair == doorbells), "{begun:?}");
    bench.connect(client).unwrap();
    bench.model.log(client.id, SIGNAL, client.fence_slot, 7);
    let fetched = recorded(&mut bench, TraceAction::Fetch);
    let is_signal = |what: &&What| {
        matches!(what, What::Signal { value: 7, queued: 0, fence, object, .. }
            if *fence == client.fence_slot && *object != 0)
    };
    assert!(fetched.contains(&doorbell("connected")), "{fetched:?}");
    assert_eq!(fetched.iter().filter(is_signal).count(), 1, "{fetched:?}");
    // The last entries of a queue's log are reported although the queue is destroyed.
    bench.model.log(client.id, SIGNAL, client.fence_slot, 8);
    bench.call(client, &DestroyHwQueue { hw_queue: client.queue }).unwrap();
    let last = recorded(&mut bench, TraceAction::End);
    assert!(last.iter().any(|what| matches!(what, What::Signal { value: 8, .. })), "{last:?}");
    assert_eq!(levels(&bench), [LoggingLevel::DEFAULT]);
    assert!(bench.model.state().trace_log.is_none());
    assert_eq!(recorded(&mut bench, TraceAction::Fetch), []);
}

#[test]
fn one_tool_traces_at_a_time_and_overwritten_entries_are_counted() {
    let (mut bench, client) = Bench::with_client(2);
    recorded(&mut bench, BEGIN);
    assert_eq!(trace(&mut bench, BEGIN), Err(TraceError::Busy));
    let signals = |fetched: &[What]| {
        fetched.iter().filter(|what| matches!(what, What::Signal { .. })).count()
    };
    // More entries than the queue's own log has room for.
    (0..1000).for_each(|value| bench.model.log(client.id, SIGNAL, client.fence_slot, value));
    let fetched = recorded(&mut bench, TraceAction::Fetch);
    assert_eq!(signals(&fetched), 1000);
    assert!(!fetched.iter().any(|what| matches!(what, What::Lost { .. })), "{fetched:?}");
    (0..1100).for_each(|value| bench.model.log(client.id, SIGNAL, client.fence_slot, value));
    let fetched = recorded(&mut bench, TraceAction::Fetch);
    assert_eq!(signals(&fetched), 1023);
    assert!(fetched.contains(&What::Lost { node: 0, entries: 77 }), "{fetched:?}");
    recorded(&mut bench, TraceAction::End);
    recorded(&mut bench, BEGIN);
}

#[test]
fn a_trace_log_is_read_a_page_at_a_time_and_what_is_left_at_the_end_is_told() {
    let (mut bench, client) = Bench::with_client(2);
    let entries = 3 * MAX_TRACE_RECORDS as u32;
    recorded(&mut bench, TraceAction::Begin { entries });
    let log = |bench: &Bench, count| {
        (0..count).for_each(|value| bench.model.log(client.id, SIGNAL, client.fence_slot, value));
    };
    log(&bench, 2 * MAX_TRACE_RECORDS as u64);
    let mut values = Vec::new();
    loop {
        let page = trace(&mut bench, TraceAction::Fetch).unwrap();
        assert!(page.records.len() <= MAX_TRACE_RECORDS);
        values.extend(page.records.iter().filter_map(|record| match record.what {
            What::Signal { value, .. } => Some(value),
            _ => None,
        }));
        if !page.more {
            break;
        }
    }
    assert_eq!(values, (0..2 * MAX_TRACE_RECORDS as u64).collect::<Vec<_>>());
    log(&bench, 2 * MAX_TRACE_RECORDS as u64);
    let last = recorded(&mut bench, TraceAction::End);
    let (mut seen, mut left) = (0, 0);
    for what in last {
        match what {
            What::Signal { .. } => seen += 1,
            What::Dropped { records } => left += records,
            _ => {}
        }
    }
    assert_eq!(seen + left, 2 * MAX_TRACE_RECORDS as u64);
}

#[test]
fn what_cpus_and_software_queues_do_with_fences_is_told_with_when_it_was_queued() {
    let (mut bench, client) = Bench::with_client(2);
    let fence = bench.call(client, &CreateNativeFence::new(client.device, 0)).unwrap().fence;
    recorded(&mut bench, BEGIN);
    bench.wait(client, fence, 5, 77);
    bench.signal(client, &[(fence, 5)]).unwrap();
    let fetched = recorded(&mut bench, TraceAction::Fetch);
    let object = fetched.iter().find_map(|what| match what {
        What::CpuSignal { value: 5, process, object, .. } if *process == client.process => {
            Some(*object)
        }
        _ => None,
    });
    let object = object.unwrap_or_else(|| panic!("{fetched:?}"));
    let is_wait = |what: &&What| matches!(what, What::CpuWait { value: 5, since: 1.., object: of, .. } if *of == object);
    assert_eq!(fetched.iter().filter(is_wait).count(), 1, "{fetched:?}");
    recorded(&mut bench, TraceAction::End);
    // Signals are not recorded while no tool traces.
    bench.signal(client, &[(fence, 6)]).unwrap();
    recorded(&mut bench, BEGIN);
    let fetched = recorded(&mut bench, TraceAction::Fetch);
    assert!(!fetched.iter().any(|what| matches!(what, What::CpuSignal { .. })), "{fetched:?}");
}

#[test]
fn a_tool_that_does_not_fetch_costs_no_more_than_a_bound_and_is_told_what_is_missing() {
    let (mut bench, client) = Bench::with_client(2);
    bench.doorbell(client);
    recorded(&mut bench, BEGIN);
    for _ in 0..40_000 {
        bench.connect(client).unwrap();
        bench.command(bellhop_host_kmd::port::Command::DisconnectGuest(client.guest));
    }
    let (mut seen, mut missing) = (0, 0);
    loop {
        let page = trace(&mut bench, TraceAction::Fetch).unwrap();
        assert!(page.records.len() <= MAX_TRACE_RECORDS);
        for record in page.records {
            match record.what {
                What::Dropped { records } => missing += records,
                What::Busy { .. } => {}
                _ => seen += 1,
            }
        }
        if !page.more {
            break;
        }
    }
    assert_eq!((seen, seen + missing), (1 << 16, 80_000));
}

#[test]
fn what_a_process_calls_its_queues_and_fences_is_told_from_the_beginning_and_as_it_changes() {
    let (mut bench, client) = Bench::with_client(2);
    let Client { guest, process, device, context, queue, .. } = client;
    let name = |bench: &mut Bench, object, text: &str| {
        bench.call(client, &SetObjectName::new(object, text)).unwrap();
    };
    let fence = bench.call(client, &CreateNativeFence::new(device, 0)).unwrap().fence;
    name(&mut bench, device, "a device");
    name(&mut bench, queue, "a queue");
    name(&mut bench, fence, "a fence");
    let names = |records: Vec<What>| {
        let name = |what| match what {
            What::Called { guest: of, process: by, handle, object, name } => {
                assert_eq!((of, by, object != 0), (guest.0, process, handle == fence.into()));
                Some((handle, name))
            }
            _ => None,
        };
        records.into_iter().filter_map(name).collect::<Vec<_>>()
    };
    let named = |object: Handle, name: &str| (object.into(), Some(name.to_owned()));
    let begun = recorded(&mut bench, BEGIN);
    let place = |is_it: &dyn Fn(&What) -> bool| begun.iter().position(is_it).unwrap();
    // A tool names a queue's track when it hears of the queue.
    let is_name =
        |what: &What| matches!(what, What::Called { handle, .. } if *handle == queue.into());
    let is_queue = |what: &What| {
        matches!(what, What::Queue { handle, context: in_context, device: of, .. }
            if *handle == queue.into() && *in_context == context.into() && *of == device.into())
    };
    assert!(place(&is_name) < place(&is_queue));
    let expected = [named(device, "a device"), named(queue, "a queue"), named(fence, "a fence")];
    assert_eq!(names(begun), expected);

    name(&mut bench, context, "a context");
    name(&mut bench, fence, "another");
    name(&mut bench, queue, "");
    bench.call(client, &DestroyNativeFence { fence }).unwrap();
    let seen = recorded(&mut bench, TraceAction::End);
    let gone = |object: Handle| (object.into(), None);
    let changes = seen.into_iter().filter_map(|what| match what {
        What::Called { handle, name, .. } => Some((handle, name)),
        _ => None,
    });
    let expected = [named(context, "a context"), named(fence, "another"), gone(queue), gone(fence)];
    assert_eq!(changes.collect::<Vec<_>>(), expected);
}
