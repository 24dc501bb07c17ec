//! Perfetto's format: the few messages of it that a timeline needs, and the timeline.
//!
//! Source: `protos/perfetto/trace` of Perfetto: `trace_packet.proto`, `track_event/*.proto`.

use bellhop_protocol::snapshot::Node;
use bellhop_protocol::trace::{Record, What};
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<TracePacket>,
}

#[derive(Clone, PartialEq, Message)]
struct TracePacket {
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(uint32, optional, tag = "13")]
    sequence_flags: Option<u32>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    debug_annotations: Vec<DebugAnnotation>,
    #[prost(enumeration = "Kind", optional, tag = "9")]
    r#type: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct DebugAnnotation {
    #[prost(uint64, optional, tag = "3")]
    uint_value: Option<u64>,
    #[prost(string, optional, tag = "10")]
    name: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
enum Kind {
    SliceBegin = 1,
    SliceEnd = 2,
    Instant = 3,
}

/// The one sequence of packets.
const SEQUENCE: u32 = 1;
/// `SEQ_INCREMENTAL_STATE_CLEARED`: nothing of before is needed.
const STATE_CLEARED: u32 = 1;

/// Tracks, by their uuids.
const DEVICE: u64 = 1;
const ENGINES: u64 = 1 << 16;
const POWERS: u64 = 2 << 16;
const QUEUES: u64 = 1 << 40;
/// Most lanes for a queue's submissions that overlap; what has no lane goes on the last.
const LANES: u64 = 200;

/// What a queue's tracks are.
#[derive(Debug, Clone, Copy)]
enum Part {
    Doorbell = 1,
    Waits = 2,
    Signals = 3,
    Submissions = 4,
}

fn queue_track(queue: u64) -> u64 {
    QUEUES + (queue << 8)
}

fn part(queue: u64, part: Part) -> u64 {
    queue_track(queue) + part as u64
}

#[derive(Default)]
struct Timeline {
    tracks: Vec<TracePacket>,
    known: BTreeSet<u64>,
    events: Vec<TracePacket>,
    /// The state that each track of states is in.
    states: BTreeMap<u64, ()>,
    /// When the last submission of each lane ends.
    lanes: BTreeMap<u64, Vec<u64>>,
    /// Progress fences by queue.
    progress_fences: BTreeMap<u64, u32>,
    start: u64,
    end: u64,
}

impl Timeline {
    fn track(&mut self, uuid: u64, name: impl Into<String>, parent: Option<u64>) -> u64 {
        if self.known.insert(uuid) {
            let (uuid, name) = (Some(uuid), Some(name.into()));
            self.tracks.push(TracePacket {
                trusted_packet_sequence_id: Some(SEQUENCE),
                track_descriptor: Some(TrackDescriptor { uuid, name, parent_uuid: parent }),
                ..TracePacket::default()
            });
        }
        uuid
    }

    fn event(
        &mut self,
        time: u64,
        track: u64,
        kind: Kind,
        name: Option<String>,
        value: Option<u64>,
    ) {
        let annotation =
            |value| DebugAnnotation { uint_value: Some(value), name: Some("value".into()) };
        self.events.push(TracePacket {
            timestamp: Some(time),
            trusted_packet_sequence_id: Some(SEQUENCE),
            track_event: Some(TrackEvent {
                debug_annotations: value.map(annotation).into_iter().collect(),
                r#type: Some(kind as i32),
                track_uuid: Some(track),
                name,
            }),
            ..TracePacket::default()
        });
    }

    fn instant(&mut self, time: u64, track: u64, name: String, value: Option<u64>) {
        self.event(time, track, Kind::Instant, Some(name), value);
    }

    fn slice(&mut self, (from, to): (u64, u64), track: u64, name: String, value: u64) {
        self.event(from, track, Kind::SliceBegin, Some(name), Some(value));
        self.event(to, track, Kind::SliceEnd, None, None);
    }

    /// A track's state from now on.
    fn state(&mut self, time: u64, track: u64, state: String) {
        self.end_state(time, track);
        self.event(time, track, Kind::SliceBegin, Some(state), None);
        self.states.insert(track, ());
    }

    fn end_state(&mut self, time: u64, track: u64) {
        if self.states.remove(&track).is_some() {
            self.event(time, track, Kind::SliceEnd, None, None);
        }
    }

    /// A lane of a queue's submissions that is free from `from` on, taken until `to`.
    fn lane(&mut self, queue: u64, (from, to): (u64, u64)) -> u64 {
        let lanes = self.lanes.entry(queue).or_default();
        let free = lanes.iter().position(|end| *end <= from);
        let lane = match free {
            Some(lane) => lane,
            None if lanes.len() as u64 == LANES => lanes.len() - 1,
            None => {
                lanes.push(0);
                lanes.len() - 1
            }
        };
        if let Some(end) = lanes.get_mut(lane) {
            *end = to;
        }
        let parent = Some(queue_track(queue));
        self.track(part(queue, Part::Submissions) + lane as u64, "submissions", parent)
    }

    fn add(&mut self, Record { time, what }: Record) {
        match what {
            What::Queue { queue, node, guest, process, handle, progress_fence } => {
                let name = format!("queue {handle} of process {process}, guest {guest}");
                let track = self.track(queue_track(queue), name, Some(ENGINES + u64::from(node)));
                for (which, name) in [
                    (Part::Doorbell, "doorbell"),
                    (Part::Waits, "waits"),
                    (Part::Signals, "signals"),
                ] {
                    self.track(part(queue, which), name, Some(track));
                }
                self.progress_fences.insert(queue, progress_fence);
            }
            What::Signal { queue, fence, value, queued } => {
                let is_progress = self.progress_fences.get(&queue) == Some(&fence);
                // When it was queued is the guest's word.
                if is_progress && (1..=time).contains(&queued) {
                    let span = (queued.max(self.start), time);
                    let lane = self.lane(queue, span);
                    self.slice(span, lane, format!("submission {value}"), value);
                    return;
                }
                let what = if is_progress { "progress".into() } else { format!("fence {fence}") };
                let track = part(queue, Part::Signals);
                self.instant(time, track, format!("{what} = {value}"), Some(value));
            }
            What::Wait { queue, fence, value, held } => {
                let (track, name) = (part(queue, Part::Waits), format!("fence {fence} >= {value}"));
                match held {
                    0 => self.instant(time, track, name, Some(value)),
                    held => self.slice((held.clamp(self.start, time), time), track, name, value),
                }
            }
            What::Lost { queue, entries } => {
                let name = format!("{entries} events lost: the log was overwritten");
                self.instant(time, queue_track(queue), name, Some(entries));
            }
            What::Dropped { records } => {
                let name = format!("{records} events lost: they were not fetched in time");
                self.instant(time, DEVICE, name, Some(records));
            }
            What::Engine { node, state } => self.state(time, POWERS + u64::from(node), state),
            What::Device { state } => self.state(time, DEVICE, state),
            What::Doorbell { queue, state } => {
                self.state(time, part(queue, Part::Doorbell), state);
            }
        }
    }
}

/// The timeline of these records: a track for the device and for each engine with its power, and for each
/// queue its doorbell, waits, signals and submissions.
pub(super) fn encode(nodes: &[Node], mut records: Vec<Record>) -> Vec<u8> {
    records.sort_by_key(|record| record.time);
    let is_queue = |record: &Record| matches!(record.what, What::Queue { .. });
    let mut timeline = Timeline {
        start: records.first().map_or(0, |record| record.time),
        end: records.last().map_or(0, |record| record.time),
        ..Timeline::default()
    };
    timeline.track(DEVICE, "device", None);
    for node in nodes {
        let ordinal = u64::from(node.ordinal);
        let name = format!("node {} ({})", node.ordinal, node.name);
        let engine = timeline.track(ENGINES + ordinal, name, None);
        timeline.track(POWERS + ordinal, "power", Some(engine));
    }
    // An entry may be of a time before its queue was noted.
    let (queues, others): (Vec<_>, Vec<_>) = records.into_iter().partition(is_queue);
    for record in queues.into_iter().chain(others) {
        timeline.add(record);
    }
    let end = timeline.end;
    for track in timeline.states.keys().copied().collect::<Vec<_>>() {
        timeline.end_state(end, track);
    }
    let Timeline { tracks, mut events, .. } = timeline;
    // What begins where another ends comes after it, as it was added.
    events.sort_by_key(|event| event.timestamp);
    let mut packet: Vec<_> = tracks.into_iter().chain(events).collect();
    if let Some(first) = packet.first_mut() {
        first.sequence_flags = Some(STATE_CLEARED);
    }
    Trace { packet }.encode_to_vec()
}
