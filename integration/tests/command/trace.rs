// SPDX-License-Identifier: MIT OR Apache-2.0

//! Timelines for Perfetto, read back with Perfetto's own definition of its format.

use crate::support::python::python_with;
use crate::support::{
    Daemon, TIMEOUT, await_that, bellhop, client, client_of, guest, report, run, submit_once, text,
};
use bellhop_guest::client::Shape;
use bellhop_guest_umd::CommandBuffer;
use bellhop_integration::trace::{Trace, What};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use tempfile::{NamedTempFile, TempDir};

/// Prints a trace as JSON, decoded by the classes that Perfetto generates from its own `.proto` files.
/// The trace processor itself is not used, because the package would download it.
const DECODE: &str = r#"
import json, sys
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto
trace = proto.Trace()
trace.ParseFromString(open(sys.argv[1], "rb").read())
tracks, events, clocks = [], [], {}
for packet in trace.packet:
    assert packet.trusted_packet_sequence_id == 1, packet
    if packet.HasField("track_descriptor"):
        track = packet.track_descriptor
        name = track.name + (" in " + track.counter.unit_name if track.HasField("counter") else "")
        tracks.append([track.uuid, track.parent_uuid, name])
    elif packet.HasField("clock_snapshot"):
        assert packet.clock_snapshot.primary_trace_clock == 6
        clocks = {clock.clock_id: clock.timestamp for clock in packet.clock_snapshot.clocks}
    else:
        event = packet.track_event
        notes = event.debug_annotations
        values = {note.name: note.uint_value for note in notes if note.HasField("uint_value")}
        texts = {note.name: note.string_value for note in notes if note.HasField("string_value")}
        kind = proto.TrackEvent.Type.Name(event.type)
        flows = list(event.flow_ids)
        counter = event.double_counter_value
        event = [packet.timestamp, event.track_uuid, kind, event.name, values, flows, counter, texts]
        events.append(event)
# As the viewer sorts them: by time, and as they are written where that is the same.
events.sort(key=lambda event: event[0])
print(json.dumps({"tracks": tracks, "events": events, "clocks": clocks}))
"#;

#[derive(Deserialize)]
struct Decoded {
    /// Uuid, parent's uuid or 0, name.
    tracks: Vec<(u64, u64, String)>,
    events: Vec<Event>,
    /// Times by Perfetto's numbers of clocks.
    clocks: BTreeMap<u32, u64>,
}

/// Time, track, type, name, values, flows, counter, texts.
type Event =
    (u64, u64, String, String, BTreeMap<String, u64>, Vec<u64>, f64, BTreeMap<String, String>);
/// A slice: track, begin, end, name.
type Slice = (u64, u64, u64, String);

impl Decoded {
    /// The slices, after checking that each ends after it begins and that times never decrease.
    fn slices(&self) -> Vec<Slice> {
        let known: BTreeSet<_> = self.tracks.iter().map(|track| track.0).collect();
        assert_eq!(known.len(), self.tracks.len(), "two tracks have one uuid");
        assert!(self.tracks.iter().all(|track| track.1 == 0 || known.contains(&track.1)));
        let mut open: BTreeMap<u64, (u64, String)> = BTreeMap::new();
        let mut slices = Vec::new();
        for (time, track, kind, name, ..) in &self.events {
            assert!(known.contains(track), "an event on no track");
            match kind.as_str() {
                "TYPE_SLICE_BEGIN" => {
                    let before = open.insert(*track, (*time, name.clone()));
                    assert_eq!(before, None, "slices of one track overlap");
                }
                "TYPE_SLICE_END" => {
                    let (begin, name) = open.remove(track).expect("a slice that ends began");
                    slices.push((*track, begin, *time, name));
                }
                "TYPE_INSTANT" | "TYPE_COUNTER" => {}
                kind => panic!("{kind}"),
            }
        }
        assert!(open.is_empty(), "a slice does not end: {open:?}");
        slices
    }

    /// The uuids of tracks of this name.
    fn named(&self, name: &str) -> Vec<u64> {
        self.tracks.iter().filter(|track| track.2 == name).map(|track| track.0).collect()
    }

    /// The uuids of tracks of this name under another.
    fn under(&self, parent: u64, name: &str) -> Vec<u64> {
        let is_it = |track: &&(u64, u64, String)| track.1 == parent && track.2 == name;
        self.tracks.iter().filter(is_it).map(|track| track.0).collect()
    }

    /// The flows of events of this name on a track.
    fn flows(&self, track: u64, name: &str) -> BTreeSet<u64> {
        let of = self.events.iter().filter(|event| event.1 == track && event.3 == name);
        of.flat_map(|event| event.5.iter().copied()).collect()
    }

    fn instants(&self, track: u64) -> Vec<&str> {
        let of = self.events.iter().filter(|event| event.1 == track && event.2 == "TYPE_INSTANT");
        of.map(|event| event.3.as_str()).collect()
    }
}

/// A Python with Perfetto's classes, in the target folder; the first test makes it.
static PYTHON: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let import = "from perfetto.protos.perfetto.trace import perfetto_trace_pb2";
    let folder = python_with("perfetto==0.59.1", import, "timelines are not read back")?;
    Some(folder.join("bin/python"))
});

fn begin(daemon: &Daemon) -> anyhow::Result<Trace<Vec<u8>>> {
    Trace::begin(&daemon.control_socket(), What::default(), Vec::new())
}

fn decode_file(python: &Path, file: &Path) -> Decoded {
    serde_json::from_value(report(Command::new(python).args(["-c", DECODE]).arg(file))).unwrap()
}

fn decode(python: &Path, trace: &[u8]) -> Decoded {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(trace).unwrap();
    decode_file(python, file.path())
}

/// A folder for a trace, and the trace's path in it.
fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace");
    (folder, file)
}

/// `bellhop trace` of a daemon into a file.
fn trace(daemon: &Daemon, file: &Path) -> Command {
    let mut command = daemon.tool(&["trace"]);
    command.arg("--output").arg(file);
    command
}

/// The whole packets of a trace, which a viewer reads. The last packet may be cut: `SIGKILL` ends a `write` between
/// two pages. Each packet is field 1 of `Trace`: its tag, its length as a varint, and its bytes.
fn whole_packets(trace: &[u8]) -> &[u8] {
    let packet = |at: usize| {
        let (tag, rest) = trace.get(at..)?.split_first()?;
        assert_eq!(*tag, 1 << 3 | 2, "a packet begins at {at}");
        let digits = rest.iter().position(|byte| byte & 0x80 == 0)? + 1;
        let length =
            rest[..digits].iter().rev().fold(0, |sum, byte| sum << 7 | usize::from(byte & 0x7f));
        let end = at + 1 + digits + length;
        (end <= trace.len()).then_some(end)
    };
    let end = std::iter::successors(Some(0), |at| packet(*at)).last();
    &trace[..end.unwrap_or(0)]
}

#[test]
fn a_trace_that_is_cut_anywhere_is_read_up_to_its_last_whole_packet() {
    let Some(python) = PYTHON.as_deref() else { return };
    let daemon = Daemon::start(1);
    let (_, written) = begin(&daemon).unwrap().end().unwrap();
    assert_eq!(whole_packets(&written), written);
    for cut in [1, 2, 3, written.len() / 2] {
        let whole = whole_packets(&written[..written.len() - cut]);
        assert!(!whole.is_empty() && whole.len() < written.len());
        decode(python, whole);
    }
}

#[test]
fn a_timeline_has_each_submission_wait_and_signal_and_the_states_around() {
    const ROUNDS: u64 = 20;
    let Some(python) = PYTHON.as_deref() else { return };
    let daemon = Daemon::start(1);
    let mut client = client(&daemon, 0);
    let mut second = client.queue_on(1).unwrap();
    let bystander = std::time::SystemTime::now();
    let mut trace = begin(&daemon).unwrap();
    let fence = client.device.create_fence(0).unwrap();
    let mut commands = [0; 2].map(|_| client.more_commands(256).unwrap());
    for round in 1..=ROUNDS {
        commands.iter_mut().for_each(CommandBuffer::reset);
        commands[1].wait_fence(&fence, round).unwrap();
        let waited = second.submit(&mut commands[1]).unwrap();
        commands[0].signal_fence(&fence, round).unwrap();
        client.queue.submit(&mut commands[0]).unwrap();
        second.progress_fence().poll(waited, TIMEOUT).unwrap();
        trace.fetch().unwrap();
    }
    drop((client, second));
    let (summary, written) = trace.end().unwrap();
    assert!(summary.events > 0 && summary.lost == 0, "{summary:?}");

    let decoded = decode(python, &written);
    let slices = decoded.slices();
    let of = |track: u64| slices.iter().filter(move |slice| slice.0 == track);
    let engines = ["node 0 (3D)", "node 1 (SDMA0)"].map(|name| decoded.named(name)[0]);
    let queues = engines.map(|engine| {
        let is_queue =
            |track: &&(u64, u64, String)| track.1 == engine && track.2.starts_with("queue ");
        let queue = decoded.tracks.iter().find(is_queue);
        queue.unwrap().0
    });
    for (queue, engine) in queues.into_iter().zip(engines) {
        let lanes = decoded.under(queue, "submissions");
        let spans: Vec<_> = lanes.iter().flat_map(|lane| of(*lane)).collect();
        let names: BTreeSet<_> = spans.iter().map(|span| span.3.clone()).collect();
        let expected = (1..=ROUNDS).map(|value| format!("submission {value}"));
        assert_eq!(names, expected.collect::<BTreeSet<_>>());
        assert_eq!(spans.len() as u64, ROUNDS);
        let power: Vec<_> = of(decoded.under(engine, "power")[0]).map(|slice| &slice.3).collect();
        assert_eq!(power[0], "F0");
        let doorbell = of(decoded.under(queue, "doorbell")[0]);
        let states: BTreeSet<_> = doorbell.map(|slice| slice.3.as_str()).collect();
        assert!(states.is_superset(&["connected", "disconnected"].into()), "{states:?}");
    }
    let signals = decoded.instants(decoded.under(queues[0], "signals")[0]);
    let name = |round: u64| format!("fence {} = {round}", fence.slot());
    assert_eq!(signals, (1..=ROUNDS).map(name).collect::<Vec<_>>());
    // Each wait either held the queue or passed.
    let track = decoded.under(queues[1], "waits")[0];
    let passed = decoded.instants(track).into_iter();
    let waits: BTreeSet<_> = passed.chain(of(track).map(|slice| slice.3.as_str())).collect();
    let name = |round: u64| format!("fence {} >= {round}", fence.slot());
    let expected: Vec<_> = (1..=ROUNDS).map(name).collect();
    assert_eq!(waits, expected.iter().map(String::as_str).collect());
    assert!(
        decoded.named("device").len() == 1
            && decoded.instants(decoded.named("device")[0]).is_empty()
    );
    // Each has its queued time.
    let queued = |track: u64| {
        let of = decoded.events.iter().filter(move |event| event.1 == track && !event.3.is_empty());
        of.filter(|event| event.4.get("queued").is_some_and(|queued| *queued > 0)).count() as u64
    };
    assert_eq!(queued(decoded.under(queues[0], "signals")[0]), ROUNDS);
    assert_eq!(queued(track), ROUNDS);
    // Arrows lead from a submission to its execution, and from a signal to its waiters.
    let name = format!("submission {ROUNDS}");
    // On a busy machine submissions overlap, on several lanes.
    let [on_lane, on_execution] = ["submissions", "execution"].map(|part| {
        let tracks = decoded.under(queues[0], part).into_iter();
        tracks.flat_map(|track| decoded.flows(track, &name)).collect::<BTreeSet<_>>()
    });
    let arrows = |from: BTreeSet<u64>, to: BTreeSet<u64>| from.intersection(&to).count();
    assert_eq!(arrows(on_lane, on_execution), 1);
    for round in 1..=ROUNDS {
        let signal = decoded.under(queues[0], "signals")[0];
        let signal = decoded.flows(signal, &format!("fence {} = {round}", fence.slot()));
        let wait = decoded.flows(track, &format!("fence {} >= {round}", fence.slot()));
        assert_eq!(arrows(signal, wait), 1);
    }
    for engine in engines {
        // The engine executed the queue, and was busy meanwhile.
        assert!(of(decoded.under(engine, "executes")[0]).count() > 0);
        let busy = decoded.under(engine, "busy in %")[0];
        let percents = decoded.events.iter().filter(|event| event.1 == busy).map(|event| event.6);
        let percents: Vec<_> = percents.collect();
        assert!(percents.iter().all(|percent| (0.0..=100.0).contains(percent)), "{percents:?}");
        assert!(percents.iter().any(|percent| *percent > 0.0));
    }
    // The trace can be laid beside others: its times are on the clock that it names.
    let [realtime, monotonic, boottime, adapter] = [1, 3, 6, 64].map(|id| decoded.clocks[&id]);
    let now = bystander.duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
    assert!(u128::from(realtime) >= now && monotonic <= boottime && adapter < boottime);
    assert!(decoded.events.iter().all(|event| event.0 >= boottime), "an event before the trace");
}

#[test]
fn what_cpus_do_with_fences_is_on_the_timeline() {
    let Some(python) = PYTHON.as_deref() else { return };
    let daemon = Daemon::start(1);
    let mut client = client(&daemon, 0);
    let trace = begin(&daemon).unwrap();
    let [gate, done] = [0; 2].map(|value| client.device.create_fence(value).unwrap());
    client.commands.wait_fence(&gate, 1).unwrap().signal_fence(&done, 1).unwrap();
    client.submit().unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| done.wait(1, TIMEOUT).unwrap());
        // Once the wait is pending, only the host wakes the thread.
        await_that("the fence is waited for", || daemon.cpu_waits() == 1);
        gate.signal(1).unwrap();
        waits.join().unwrap();
    });
    // The guest may see the fence before the host has ended the wait, and the host records the end.
    await_that("the host ends the wait", || daemon.cpu_waits() == 0);
    let decoded = decode(python, &trace.end().unwrap().1);
    let slices = decoded.slices();
    let cpus = decoded.tracks.iter().find(|track| track.2.starts_with("CPUs of process"));
    let cpus = cpus.unwrap().0;
    let [signals, waits] = ["signals", "waits"].map(|part| decoded.under(cpus, part)[0]);
    assert_eq!(decoded.instants(signals).len(), 1);
    let waited: Vec<_> = slices.iter().filter(|slice| slice.0 == waits).collect();
    assert!(waited.len() == 1 && waited[0].3.ends_with(">= 1"), "{waited:?}");
    // From the CPU to the engine, and back.
    let [queue_signals, queue_waits] = ["signals", "waits"].map(|part| {
        let queues = decoded.tracks.iter().filter(|track| track.2.starts_with("queue "));
        queues.flat_map(|queue| decoded.under(queue.0, part)).next().unwrap()
    });
    let flows = |track: u64| -> BTreeSet<u64> {
        let of = decoded.events.iter().filter(|event| event.1 == track);
        of.flat_map(|event| event.5.iter().copied()).collect()
    };
    assert_eq!(flows(signals).intersection(&flows(queue_waits)).count(), 1);
    assert_eq!(flows(queue_signals).intersection(&flows(waits)).count(), 1);
}

#[test]
fn queues_fences_and_devices_have_the_names_of_their_program_on_the_timeline() {
    let Some(python) = PYTHON.as_deref() else { return };
    let daemon = Daemon::start(1);
    let mut client = client(&daemon, 0);
    client.queue.set_name("main").unwrap();
    client.device.set_name("renderer").unwrap();
    let fence = client.device.create_fence(0).unwrap();
    let mut trace = begin(&daemon).unwrap();
    let mut submit = |value: u64| {
        client.commands.reset();
        client.commands.signal_fence(&fence, value).unwrap();
        client.submit().unwrap();
        fence.wait(value, TIMEOUT).unwrap();
        // What engines have logged gets the names of now.
        trace.fetch().unwrap();
    };
    submit(1);
    fence.set_name("ready").unwrap();
    submit(2);
    fence.set_name("").unwrap();
    submit(3);
    client.queue.set_name("another").unwrap();
    fence.signal(4).unwrap();
    fence.set_name("ready").unwrap();
    fence.signal(5).unwrap();
    let decoded = decode(python, &trace.end().unwrap().1);
    decoded.slices();
    let queue = decoded.tracks.iter().find(|track| track.2.starts_with("queue ")).unwrap();
    let text = format!("queue {} \"main\" of process ", client.queue.handle());
    assert!(queue.2.starts_with(&text), "{queue:?}");
    assert_eq!(decoded.instants(queue.0), ["is called \"another\""]);
    let slot = fence.slot();
    let expected = [
        format!("fence {slot} = 1"),
        format!("fence {slot} \"ready\" = 2"),
        format!("fence {slot} = 3"),
    ];
    assert_eq!(decoded.instants(decoded.under(queue.0, "signals")[0]), expected);
    let cpus = decoded.tracks.iter().find(|track| track.2.starts_with("CPUs of process"));
    let signals = decoded.under(cpus.unwrap().0, "signals")[0];
    let handle = fence.handle();
    let expected = [format!("fence {handle} = 4"), format!("fence {handle} \"ready\" = 5")];
    assert_eq!(decoded.instants(signals), expected);
    let executed = decoded.events.iter().filter(|event| event.3.starts_with(&text));
    let devices: BTreeSet<_> = executed.map(|event| event.7["device"].as_str()).collect();
    assert_eq!(devices, ["renderer"].into());
}

/// More entries between two looks of the tool than a queue's logs have room for.
#[test]
fn a_busy_queue_is_traced_whole_where_there_is_room_and_losses_are_reported() {
    const SUBMISSIONS: u64 = 30_000;
    let daemon = Daemon::start(1);
    let shape = Shape { ring: 64 << 10, ..Shape::default() };
    let mut client = client_of(&guest(&daemon, 0), shape);
    let mut commands = CommandBuffer::many(&client.device, 64, 64).unwrap();
    for (buffer_mib, is_whole) in [(64, true), (1, false)] {
        let what = What { buffer_mib, ..What::default() };
        let trace = Trace::begin(&daemon.control_socket(), what, Vec::new()).unwrap();
        for _ in 0..SUBMISSIONS / 64 {
            for buffer in &mut commands {
                buffer.reset();
                client.queue.submit(buffer.nop().unwrap()).unwrap();
            }
            client.finish(client.queue.last_value()).unwrap();
        }
        let (summary, written) = trace.end().unwrap();
        let missing = summary.lost > 0;
        assert_eq!(missing, !is_whole, "{summary:?}");
        // Each submission has its progress fence logged, except the first after the doorbell was disconnected.
        let least = SUBMISSIONS / 64 * 64 - 64;
        assert!(summary.events + summary.lost >= least, "{summary:?}");
        let Some(python) = PYTHON.as_deref().filter(|_| !is_whole) else { continue };
        let decoded = decode(python, &written);
        decoded.slices();
        let says = decoded.events.iter().filter(|event| event.3.contains("events lost"));
        assert_eq!(says.filter_map(|event| event.4.get("value")).sum::<u64>(), summary.lost);
    }
}

#[test]
fn a_trace_says_how_much_it_has_and_needs_a_file_from_the_start() {
    let (_folder, file) = place();
    let trace = |options: &[&str], task: &[&str]| {
        let mut command = bellhop();
        command.args(["trace", "--json", "--output"]).arg(&file).args(options).arg("--").args(task);
        let output = command.output().unwrap();
        let (printed, said) = (text(&output.stdout), text(&output.stderr));
        let summary = printed.lines().last().unwrap_or_else(|| panic!("no summary: {said}"));
        let summary: serde_json::Value = serde_json::from_str(summary).unwrap();
        (output.status.code(), summary["lost"].as_u64().unwrap(), said)
    };
    let (code, lost, said) = trace(&["--buffer", "64"], &["selftest", "fence.gpu-wait"]);
    assert_eq!((code, lost), (Some(0), 0), "{said}");
    let whole: u64 = std::fs::metadata(&file).unwrap().len();
    assert!(whole > 0);
    let refused = bellhop().args(["trace", "-o", "/nonexistent/trace", "--", "run"]).output();
    let refused = refused.unwrap();
    assert!(!refused.status.success() && text(&refused.stderr).contains("/nonexistent/trace"));
}

#[test]
fn a_run_is_traced_by_one_command() {
    let Some(python) = PYTHON.as_deref() else { return };
    let (_folder, file) = place();
    let work = ["--", "selftest", "fence.gpu-wait"];
    run(bellhop().args(["trace", "--output"]).arg(&file).args(work));
    let decoded = decode_file(python, &file);
    let spans = decoded.slices().into_iter().filter(|slice| slice.3.starts_with("submission "));
    assert!(spans.count() > 10);
}

#[test]
fn one_tool_traces_at_a_time_and_its_end_however_it_comes_ends_the_recording() {
    let daemon = Daemon::start(1);
    let socket = daemon.control_socket();
    let first = begin(&daemon).unwrap();
    let refused = begin(&daemon).err().unwrap().to_string();
    assert!(refused.contains("another tool traces this adapter"), "{refused}");
    let other = What { adapter: 7, ..What::default() };
    assert!(Trace::begin(&socket, other, Vec::new()).is_err());
    let too_much = What { buffer_mib: 4097, ..What::default() };
    let refused = Trace::begin(&socket, too_much, Vec::new()).err().unwrap().to_string();
    assert!(refused.contains("0 to 4096"), "{refused}");
    // The tool dies.
    drop(first);
    let mut again = None;
    await_that("another may trace", || {
        again = begin(&daemon).ok();
        again.is_some()
    });
    again.unwrap().end().unwrap();
    begin(&daemon).unwrap().end().unwrap();
}

#[test]
fn a_tool_that_is_killed_leaves_what_it_wrote_and_the_logging_level_as_it_was() {
    let daemon = Daemon::start(1);
    let mut client = client(&daemon, 0);
    let (folder, file) = place();
    let mut tool = trace(&daemon, &file).spawn().unwrap();
    await_that("the tool traces", || daemon.snapshot().adapter.traced);
    // The tool writes events as they come, to a file beside the output.
    let written = || std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    await_that("the file grows", || {
        submit_once(&mut client);
        std::fs::metadata(written()).is_ok_and(|file| file.len() > 20_000)
    });
    assert!(!file.exists());
    tool.kill().unwrap();
    tool.wait().unwrap();
    await_that("nothing traces", || !daemon.snapshot().adapter.traced);
    // The driver stops logging its progress fence when the level changes; waiters are still woken.
    client.commands.nop().unwrap();
    let value = client.submit().unwrap();
    client.queue.progress_fence().wait(value, TIMEOUT).unwrap();
    let Some(python) = PYTHON.as_deref() else { return };
    let decoded = decode(python, whole_packets(&std::fs::read(written()).unwrap()));
    assert!(decoded.events.iter().any(|event| event.3.starts_with("submission ")));
}

#[test]
fn a_trace_of_a_daemon_that_ends_has_what_there_was_until_then() {
    let daemon = Daemon::start(1);
    let (folder, file) = place();
    let tool = trace(&daemon, &file).stderr(Stdio::piped()).spawn().unwrap();
    await_that("the tool traces", || daemon.snapshot().adapter.traced);
    drop(daemon);
    let output = tool.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains("the trace ends early"), "{said}");
    assert!(std::fs::metadata(&file).unwrap().len() > 0);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_trace_that_cannot_be_written_says_so_and_leaves_nothing_of_another() {
    let daemon = Daemon::start(1);
    let full = trace(&daemon, Path::new("/dev/full")).args(["--seconds", "1"]).output().unwrap();
    let said = text(&full.stderr);
    assert!(
        !full.status.success() && said.contains("name a file with room for it with --output"),
        "{said}"
    );
    // An existing file stays when nothing can be recorded.
    let (_folder, file) = place();
    std::fs::write(&file, "before").unwrap();
    drop(daemon);
    let mut command = bellhop();
    command.args(["trace", "--socket", "/nonexistent/control.sock", "-o"]).arg(&file);
    assert!(!command.output().unwrap().status.success());
    assert_eq!(std::fs::read(&file).unwrap(), b"before");
}

#[test]
fn a_daemon_is_traced_for_as_long_as_is_said() {
    let daemon = Daemon::start(1);
    let (_folder, file) = place();
    run(trace(&daemon, &file).args(["--seconds", "1"]));
    assert!(std::fs::metadata(&file).unwrap().len() > 0);
}
