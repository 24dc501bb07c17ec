//! Timelines for Perfetto, read back with Perfetto's own definition of its format.

mod support;

use bellhop_guest_umd::{Adapter, CommandBuffer};
use bellhop_integration::trace::Trace;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use support::{Daemon, bellhop, guest, is_here, skip, succeed};

const TIMEOUT: Duration = Duration::from_secs(20);

/// Prints a trace as JSON, decoded by the classes that Perfetto generates from its own `.proto` files.
/// The trace processor itself is a program that this package would fetch: it is not used.
const DECODE: &str = r#"
import json, sys
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto
trace = proto.Trace()
trace.ParseFromString(open(sys.argv[1], "rb").read())
tracks, events = [], []
for packet in trace.packet:
    assert packet.trusted_packet_sequence_id == 1, packet
    if packet.HasField("track_descriptor"):
        track = packet.track_descriptor
        tracks.append([track.uuid, track.parent_uuid, track.name])
    else:
        event = packet.track_event
        values = [note.uint_value for note in event.debug_annotations]
        kind = proto.TrackEvent.Type.Name(event.type)
        events.append([packet.timestamp, event.track_uuid, kind, event.name, values])
print(json.dumps({"tracks": tracks, "events": events}))
"#;

#[derive(Deserialize)]
struct Decoded {
    /// Uuid, parent's uuid or 0, name.
    tracks: Vec<(u64, u64, String)>,
    /// Time, track, type, name, values.
    events: Vec<(u64, u64, String, String, Vec<u64>)>,
}

/// A slice: track, begin, end, name.
type Slice = (u64, u64, u64, String);

impl Decoded {
    /// The slices, once it is seen that each ends after it began and that time never goes back.
    fn slices(&self) -> Vec<Slice> {
        assert!(self.events.is_sorted_by_key(|event| event.0), "time goes back");
        let known: BTreeSet<_> = self.tracks.iter().map(|track| track.0).collect();
        assert_eq!(known.len(), self.tracks.len(), "two tracks have one uuid");
        assert!(self.tracks.iter().all(|track| track.1 == 0 || known.contains(&track.1)));
        let mut open: BTreeMap<u64, (u64, String)> = BTreeMap::new();
        let mut slices = Vec::new();
        for (time, track, kind, name, _) in &self.events {
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
                "TYPE_INSTANT" => {}
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

    fn instants(&self, track: u64) -> Vec<&str> {
        let of = self.events.iter().filter(|event| event.1 == track && event.2 == "TYPE_INSTANT");
        of.map(|event| event.3.as_str()).collect()
    }
}

/// A Python that has Perfetto's classes: in the target folder, made once, by whichever test comes first.
static PYTHON: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let loss = "timelines are not read back";
    if !is_here("python3", loss) {
        return None;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("perfetto");
    let python = folder.join("bin/python");
    let run = |command: &mut Command| match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Err(error.to_string()),
    };
    let has_it = || {
        let import = "from perfetto.protos.perfetto.trace import perfetto_trace_pb2";
        run(Command::new(&python).args(["-c", import]))
    };
    let make = || {
        run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        let install = ["-m", "pip", "install", "--quiet", "perfetto==0.59.1"];
        run(Command::new(&python).args(install))
    };
    if let Err(error) = has_it().or_else(|_| make()) {
        skip(&format!("python3 cannot be given the package perfetto: {}", error.trim()), loss);
        return None;
    }
    Some(python)
});

fn decode(python: &Path, file: &Path) -> Decoded {
    let output = Command::new(python).args(["-c", DECODE]).arg(file).output().unwrap();
    serde_json::from_str(&succeed(output)).unwrap()
}

#[test]
fn a_timeline_has_each_submission_wait_and_signal_and_the_states_around() {
    const ROUNDS: u64 = 20;
    let Some(python) = PYTHON.as_deref() else { return };
    let daemon = Daemon::start(1);
    let guest = guest(&daemon, 0);
    let adapter = Adapter::open(Arc::clone(&guest) as Arc<_>).unwrap();
    let device = adapter.create_device().unwrap();
    let [mut first, mut second] = [0, 1]
        .map(|node| device.create_context(node).unwrap().create_user_mode_queue(4096).unwrap());
    let mut trace = Trace::begin(&daemon.control_socket(), 0).unwrap();
    let fence = device.create_fence(0).unwrap();
    let mut commands = [0; 2].map(|_| CommandBuffer::new(&device, 256).unwrap());
    for round in 1..=ROUNDS {
        commands.iter_mut().for_each(CommandBuffer::reset);
        commands[1].wait_fence(&fence, round).unwrap();
        let waited = second.submit(&mut commands[1]).unwrap();
        commands[0].signal_fence(&fence, round).unwrap();
        first.submit(&mut commands[0]).unwrap();
        second.progress_fence().poll(waited, TIMEOUT).unwrap();
        trace.fetch().unwrap();
    }
    drop((first, second));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace");
    std::fs::write(&file, trace.end().unwrap()).unwrap();

    let decoded = decode(python, &file);
    let slices = decoded.slices();
    let of = |track: u64| slices.iter().filter(move |slice| slice.0 == track);
    let engines = ["node 0 (3D)", "node 1 (SDMA0)"].map(|name| decoded.named(name)[0]);
    let queues = engines.map(|engine| {
        let queue = decoded.tracks.iter().find(|track| track.1 == engine && track.2 != "power");
        queue.unwrap().0
    });
    for (queue, engine) in queues.into_iter().zip(engines) {
        // What was built before the doorbell was connected again does not say when it was queued.
        let lanes = decoded.under(queue, "submissions");
        let spans: Vec<_> = lanes.iter().flat_map(|lane| of(*lane)).collect();
        let names: BTreeSet<_> = spans.iter().map(|span| span.3.clone()).collect();
        let expected = (2..=ROUNDS).map(|value| format!("submission {value}"));
        assert_eq!(names, expected.collect::<BTreeSet<_>>());
        assert_eq!(spans.len() as u64, ROUNDS - 1);
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
}

#[test]
fn a_run_is_traced_by_one_command() {
    let Some(python) = PYTHON.as_deref() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace");
    let mut command = bellhop();
    command.arg("trace").arg("--output").arg(&file).args(["--", "selftest", "fence.gpu-wait"]);
    succeed(command.output().unwrap());
    let decoded = decode(python, &file);
    let spans = decoded.slices().into_iter().filter(|slice| slice.3.starts_with("submission "));
    assert!(spans.count() > 10);
}

#[test]
fn one_tool_traces_at_a_time_and_its_end_however_it_comes_ends_the_recording() {
    let daemon = Daemon::start(1);
    let socket = daemon.control_socket();
    let first = Trace::begin(&socket, 0).unwrap();
    let refused = Trace::begin(&socket, 0).err().unwrap().to_string();
    assert!(refused.contains("somebody traces this adapter already"), "{refused}");
    assert!(Trace::begin(&socket, 7).is_err());
    // It dies.
    drop(first);
    let start = Instant::now();
    let again = loop {
        match Trace::begin(&socket, 0) {
            Ok(trace) => break trace,
            Err(error) => assert!(start.elapsed() < TIMEOUT, "{error}"),
        }
    };
    again.end().unwrap();
    Trace::begin(&socket, 0).unwrap().end().unwrap();
}

#[test]
fn a_daemon_is_traced_for_as_long_as_is_said() {
    let daemon = Daemon::start(1);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace");
    let mut command = bellhop();
    command.args(["trace", "--seconds", "1", "--socket"]).arg(daemon.control_socket());
    succeed(command.arg("-o").arg(&file).output().unwrap());
    assert!(std::fs::metadata(&file).unwrap().len() > 0);
}
