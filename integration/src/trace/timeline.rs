// SPDX-License-Identifier: MIT OR Apache-2.0

//! Records as tracks of a timeline.

use super::names::{Names, Process, suffix};
use super::perfetto::{
    Clock, ClockSnapshot, CounterDescriptor, DebugAnnotation, Kind, TracePacket, TrackDescriptor,
    TrackEvent, Writer, clock,
};
use bellhop_protocol::snapshot::{Name, Node};
use bellhop_protocol::trace::{Record, What};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io::{self, Write};

/// Tracks, by their uuids.
const DEVICE: u64 = 1;
const ENGINES: u64 = 1 << 16;
const POWERS: u64 = 2 << 16;
const EXECUTED: u64 = 3 << 16;
const BUSY: u64 = 4 << 16;
const QUEUES: u64 = 1 << 40;
const PROCESSES: u64 = 1 << 62;
/// Most tracks of a queue or a process.
const PARTS: u64 = 1 << 10;
/// Most lanes for overlapping slices; a further slice begins when a lane is free.
const LANES: u64 = 200;

/// The tracks of a queue or a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
enum Part {
    Doorbell = 1,
    Signals = 2,
    Execution = 3,
    /// The first of [`LANES`] tracks.
    Waits = 256,
    /// The first of [`LANES`] tracks.
    Submissions = 512,
}

impl Part {
    const fn name(self) -> &'static str {
        match self {
            Self::Doorbell => "doorbell",
            Self::Signals => "signals",
            Self::Execution => "execution",
            Self::Waits => "waits",
            Self::Submissions => "submissions",
        }
    }
}

fn queue_track(queue: u64) -> u64 {
    QUEUES + queue * PARTS
}

/// A begin and an end, on the adapter's clock.
type Span = (u64, u64);

/// The state of a queue.
#[derive(Debug)]
struct Queue {
    process: Process,
    handle: Name,
    context: Name,
    device: Name,
    progress_fence: u32,
    /// When its last submission was done.
    done: u64,
}

impl Queue {
    /// Its text for people, with what its process calls it, or its context.
    fn text(&self, names: &Names) -> String {
        let Self { process, handle, context, .. } = *self;
        let name = names.of(process, handle).or_else(|| names.of(process, context));
        let (guest, number) = process;
        format!("queue {handle}{} of process {number}, guest {guest}", suffix(name))
    }
}

/// An engine's last reported busy time.
#[derive(Debug, Clone, Copy)]
struct Sample {
    time: u64,
    busy_time: u64,
}

/// A timeline that is written as records arrive.
#[derive(Debug)]
pub(super) struct Timeline<W> {
    writer: Writer<W>,
    known: BTreeSet<u64>,
    /// The tracks with an open state slice.
    states: BTreeSet<u64>,
    /// When the last slice of each lane ends, by the first lane's track.
    lanes: BTreeMap<u64, Vec<u64>>,
    queues: BTreeMap<u64, Queue>,
    /// The numbers of queues.
    numbers: BTreeMap<(Process, Name), u64>,
    names: Names,
    samples: BTreeMap<u32, Sample>,
    /// When the recording began, on the adapter's clock.
    start: Option<u64>,
    /// From the adapter's clock to `CLOCK_BOOTTIME`.
    offset: u64,
    last: u64,
    /// Events that were recorded.
    pub(super) events: u64,
    /// Events that were lost.
    pub(super) lost: u64,
}

impl<W: Write> Timeline<W> {
    /// A timeline of these nodes.
    pub(super) fn begin(nodes: &[Node], output: W) -> io::Result<Self> {
        let mut timeline = Self {
            writer: Writer::new(output),
            known: BTreeSet::new(),
            states: BTreeSet::new(),
            lanes: BTreeMap::new(),
            queues: BTreeMap::new(),
            numbers: BTreeMap::new(),
            names: Names::default(),
            samples: BTreeMap::new(),
            start: None,
            offset: 0,
            last: 0,
            events: 0,
            lost: 0,
        };
        timeline.track(DEVICE, "device", None)?;
        for node in nodes {
            let ordinal = u64::from(node.ordinal);
            let name = format!("node {} ({})", node.ordinal, node.name);
            let engine = Some(timeline.track(ENGINES + ordinal, name, None)?);
            timeline.track(POWERS + ordinal, "power", engine)?;
            timeline.track(EXECUTED + ordinal, "executes", engine)?;
            timeline.describe(TrackDescriptor {
                uuid: Some(BUSY + ordinal),
                name: Some("busy".into()),
                parent_uuid: engine,
                counter: Some(CounterDescriptor { unit_name: Some("%".into()) }),
            })?;
        }
        Ok(timeline)
    }

    /// Ends open slices and returns the output.
    pub(super) fn end(mut self) -> io::Result<W> {
        for track in std::mem::take(&mut self.states) {
            self.event(self.last, track, Kind::SliceEnd, TrackEvent::default())?;
        }
        self.writer.end()
    }

    fn describe(&mut self, track: TrackDescriptor) -> io::Result<()> {
        self.writer.write(TracePacket { track_descriptor: Some(track), ..TracePacket::default() })
    }

    fn track(
        &mut self,
        uuid: u64,
        name: impl Into<String>,
        parent_uuid: Option<u64>,
    ) -> io::Result<u64> {
        if self.known.insert(uuid) {
            let (uuid, name) = (Some(uuid), Some(name.into()));
            self.describe(TrackDescriptor { uuid, name, parent_uuid, counter: None })?;
        }
        Ok(uuid)
    }

    fn part(&mut self, parent: u64, part: Part) -> io::Result<u64> {
        self.track(parent + part as u64, part.name(), Some(parent))
    }

    /// A lane for a slice that may overlap others, and the part of its time in which the lane is free: all of it,
    /// unless every lane is taken. The guest controls how many slices overlap, so the number of lanes is bounded.
    fn lane(&mut self, parent: u64, part: Part, (from, to): Span) -> io::Result<(u64, Span)> {
        let first = parent + part as u64;
        let lanes = self.lanes.entry(first).or_default();
        let is_taken = lanes.iter().all(|end| *end > from);
        if is_taken && (lanes.len() as u64) < LANES {
            lanes.push(0);
        }
        let soonest = lanes.iter().enumerate().min_by_key(|(lane, end)| ((**end).max(from), *lane));
        let (lane, end) = soonest.map_or((0, 0), |(lane, end)| (lane, *end));
        let span = (from.max(end).min(to), to);
        if let Some(end) = lanes.get_mut(lane) {
            *end = (*end).max(to);
        }
        Ok((self.track(first + lane as u64, part.name(), Some(parent))?, span))
    }

    fn event(&mut self, time: u64, track: u64, kind: Kind, event: TrackEvent) -> io::Result<()> {
        let (r#type, track_uuid) = (Some(kind as i32), Some(track));
        self.writer.write(TracePacket {
            timestamp: Some(time.saturating_add(self.offset)),
            track_event: Some(TrackEvent { r#type, track_uuid, ..event }),
            ..TracePacket::default()
        })
    }

    fn instant(&mut self, time: u64, track: u64, event: TrackEvent) -> io::Result<()> {
        self.event(time, track, Kind::Instant, event)
    }

    fn slice(&mut self, (from, to): Span, track: u64, event: TrackEvent) -> io::Result<()> {
        self.event(from, track, Kind::SliceBegin, event)?;
        self.event(to, track, Kind::SliceEnd, TrackEvent::default())
    }

    /// A track's state from now on.
    fn state(&mut self, time: u64, track: u64, state: String) -> io::Result<()> {
        if !self.states.insert(track) {
            self.event(time, track, Kind::SliceEnd, TrackEvent::default())?;
        }
        self.event(time, track, Kind::SliceBegin, named(state, None, []))
    }

    /// The part of a time that was recorded.
    fn span(&self, since: u64, until: u64) -> Span {
        (since.max(self.start.unwrap_or(0)).min(until), until)
    }

    /// Writes a record.
    pub(super) fn add(&mut self, Record { time, what }: Record) -> io::Result<()> {
        let start = *self.start.get_or_insert(time);
        self.last = self.last.max(time);
        match what {
            What::Clock { monotonic, boottime, realtime } => {
                return self.clocks(time, [monotonic, boottime, realtime]);
            }
            What::Queue {
                queue,
                node,
                guest,
                process,
                handle,
                context,
                device,
                progress_fence,
            } => {
                let process = (guest, process);
                let begun = Queue { process, handle, context, device, progress_fence, done: 0 };
                let engine = Some(ENGINES + u64::from(node));
                let track = self.track(queue_track(queue), begun.text(&self.names), engine)?;
                for part in [Part::Doorbell, Part::Waits, Part::Signals] {
                    self.part(track, part)?;
                }
                self.numbers.insert((process, handle), queue);
                self.queues.insert(queue, begun);
                return Ok(());
            }
            What::Called { guest, process, handle, object, name } => {
                return self.called(time, (guest, process), (handle, object), name);
            }
            What::Busy { node, busy_time } => return self.busy(node, Sample { time, busy_time }),
            What::Lost { node, entries } => {
                self.lost += entries;
                let name = format!("{entries} events lost: the trace log was overwritten");
                let event = named(name, Some(entries), []);
                return self.instant(time, EXECUTED + u64::from(node), event);
            }
            What::Dropped { records } => {
                self.lost += records;
                let name = format!("{records} events lost: they were not fetched in time");
                return self.instant(time, DEVICE, named(name, Some(records), []));
            }
            // Turns before the trace that the engine reports late.
            What::Executed { .. } if time < start => return Ok(()),
            _ => self.events += 1,
        }
        match what {
            What::Signal { queue, fence, value, queued, object } => {
                self.signal(time, queue, (fence, value), queued, object)
            }
            What::Wait { queue, fence, value, queued, held, object } => {
                let process = self.queues.get(&queue).map(|queue| queue.process);
                let name = format!("{} >= {value}", self.fence(fence, process, object));
                let mut event = named(name, Some(value), flow(object, value));
                event.debug_annotations.extend((queued != 0).then(|| annotation("queued", queued)));
                self.wait(queue_track(queue), time, held, event)
            }
            What::CpuSignal { guest, process, fence, value, object } => {
                let track = self.process(guest, process)?;
                let signals = self.part(track, Part::Signals)?;
                let fence = self.fence(fence, Some((guest, process)), object);
                let name = format!("{fence} = {value}");
                self.instant(time, signals, named(name, Some(value), flow(object, value)))
            }
            What::CpuWait { guest, process, fence, value, since, object } => {
                let track = self.process(guest, process)?;
                let fence = self.fence(fence, Some((guest, process)), object);
                let name = format!("{fence} >= {value}");
                self.wait(track, time, since, named(name, Some(value), flow(object, value)))
            }
            What::Executed { node, queue, since, turns } => {
                let queue = self.queues.get(&queue);
                let name = queue.map_or("paging".into(), |queue| queue.text(&self.names));
                let device = queue.and_then(|queue| self.names.of(queue.process, queue.device));
                let device = device.map(|name| DebugAnnotation {
                    string_value: Some(name.into()),
                    name: Some("device".into()),
                    uint_value: None,
                });
                let turns = annotation("turns", turns);
                let event = TrackEvent {
                    debug_annotations: [turns].into_iter().chain(device).collect(),
                    name: Some(name),
                    ..TrackEvent::default()
                };
                self.slice(self.span(since, time), EXECUTED + u64::from(node), event)
            }
            What::Engine { node, state } => self.state(time, POWERS + u64::from(node), state),
            What::Device { state } => self.state(time, DEVICE, state),
            What::Doorbell { queue, state } => {
                let track = self.part(queue_track(queue), Part::Doorbell)?;
                self.state(time, track, state)
            }
            // Handled above.
            _ => Ok(()),
        }
    }

    /// Writes the clocks of other traces, so that this one can be laid beside them.
    fn clocks(&mut self, time: u64, [monotonic, boottime, realtime]: [u64; 3]) -> io::Result<()> {
        self.offset = boottime.saturating_sub(time);
        let clocks = [
            (clock::BOOTTIME, boottime),
            (clock::MONOTONIC, monotonic),
            (clock::REALTIME, realtime),
            (clock::ADAPTER, time),
        ];
        let clock = |(id, time)| Clock { clock_id: Some(id), timestamp: Some(time) };
        self.writer.write(TracePacket {
            clock_snapshot: Some(ClockSnapshot {
                clocks: clocks.map(clock).into(),
                primary_trace_clock: Some(clock::BOOTTIME),
            }),
            timestamp: Some(boottime),
            ..TracePacket::default()
        })
    }

    /// Writes the share of the time since the last report in which an engine was busy.
    fn busy(&mut self, node: u32, now: Sample) -> io::Result<()> {
        let Some(before) = self.samples.insert(node, now) else { return Ok(()) };
        let [busy, time] = [(now.busy_time, before.busy_time), (now.time, before.time)]
            .map(|(now, before)| now.saturating_sub(before) as f64);
        if time == 0.0 {
            return Ok(());
        }
        // The two were read at different moments.
        let percent = (100.0 * busy / time).min(100.0);
        let event = TrackEvent { double_counter_value: Some(percent), ..TrackEvent::default() };
        self.event(now.time, BUSY + u64::from(node), Kind::Counter, event)
    }

    /// A process calls an object something from now on. A track keeps the text that it began with, so that of a queue gets an
    /// event.
    fn called(
        &mut self,
        time: u64,
        process: Process,
        (handle, object): (Name, u64),
        name: Option<String>,
    ) -> io::Result<()> {
        let queue = self.numbers.get(&(process, handle)).copied();
        let event = name.as_deref().map(|name| format!("is called{}", suffix(Some(name))));
        self.names.call(process, handle, object, name);
        match queue.zip(event) {
            Some((queue, event)) => self.instant(time, queue_track(queue), named(event, None, [])),
            None => Ok(()),
        }
    }

    /// A fence as a process's queue or CPU knows it, with what the process calls it.
    fn fence(&self, fence: impl Display, process: Option<Process>, object: u64) -> String {
        let name = process.and_then(|process| self.names.of_fence(process, object));
        format!("fence {fence}{}", suffix(name))
    }

    fn process(&mut self, guest: u64, process: u32) -> io::Result<u64> {
        let track = PROCESSES + (guest << 42) + u64::from(process) * PARTS;
        self.track(track, format!("CPUs of process {process}, guest {guest}"), None)
    }

    /// Writes a wait that ended at `time`; `since` is 0 if it held no queue.
    fn wait(&mut self, parent: u64, time: u64, since: u64, event: TrackEvent) -> io::Result<()> {
        if since == 0 {
            let track = self.part(parent, Part::Waits)?;
            return self.instant(time, track, event);
        }
        let (track, span) = self.lane(parent, Part::Waits, self.span(since, time))?;
        self.slice(span, track, event)
    }

    /// Writes a queue's signal. A signal of its progress fence ends a submission, which lasts from when it was
    /// queued; its execution begins when the previous one was done.
    fn signal(
        &mut self,
        time: u64,
        queue: u64,
        (fence, value): (u32, u64),
        queued: u64,
        object: u64,
    ) -> io::Result<()> {
        let parent = queue_track(queue);
        let known = self.queues.get(&queue);
        let is_progress = known.is_some_and(|known| known.progress_fence == fence);
        // The guest reports the queued time, and may lie.
        let is_span = is_progress && (1..=time).contains(&queued);
        if !is_span {
            let what = match known.map(|known| known.process) {
                _ if is_progress => "progress".into(),
                process => self.fence(fence, process, object),
            };
            let track = self.part(parent, Part::Signals)?;
            let name = format!("{what} = {value}");
            let mut event = named(name, Some(value), flow(object, value));
            event.debug_annotations.extend((queued != 0).then(|| annotation("queued", queued)));
            return self.instant(time, track, event);
        }
        let known = self.queues.get_mut(&queue);
        let done = known.map_or(0, |known| std::mem::replace(&mut known.done, time));
        let submitted = self.span(queued, time);
        let name = || format!("submission {value}");
        let to_execution = flow(parent, value);
        let (lane, submitted) = self.lane(parent, Part::Submissions, submitted)?;
        self.slice(submitted, lane, named(name(), Some(value), to_execution))?;
        let executed = self.span(queued.max(done), time);
        let track = self.part(parent, Part::Execution)?;
        let flows = to_execution.into_iter().chain(flow(object, value));
        self.slice(executed, track, named(name(), Some(value), flows))
    }
}

fn annotation(name: &str, value: u64) -> DebugAnnotation {
    DebugAnnotation { uint_value: Some(value), name: Some(name.into()), string_value: None }
}

fn named(name: String, value: Option<u64>, flows: impl IntoIterator<Item = u64>) -> TrackEvent {
    TrackEvent {
        debug_annotations: value.map(|value| annotation("value", value)).into_iter().collect(),
        name: Some(name),
        flow_ids: flows.into_iter().collect(),
        ..TrackEvent::default()
    }
}

/// The id of the arrow between events about a value of a fence, or of a queue's submissions; `None` if the fence is
/// not known. Signal and wait may be recorded in any order, so the id is made from the data that both have.
fn flow(object: u64, value: u64) -> Option<u64> {
    // SplitMix64, so that ids of two fences seldom collide.
    let mix = |x: u64| {
        let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    };
    (object != 0).then(|| mix(mix(object).wrapping_add(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellhop_protocol::snapshot::Name;
    use prost::Message;
    use std::collections::BTreeMap;

    /// The slices of each track, as (begin, end), from the packets of a file.
    fn slices(file: &[u8]) -> BTreeMap<u64, Vec<Span>> {
        /// A file is a repeated field of packets.
        #[derive(Message)]
        struct File {
            #[prost(message, repeated, tag = "1")]
            packets: Vec<TracePacket>,
        }
        let mut slices: BTreeMap<u64, Vec<Span>> = BTreeMap::new();
        for packet in File::decode(file).unwrap().packets {
            let (Some(time), Some(event)) = (packet.timestamp, packet.track_event) else {
                continue;
            };
            let of = slices.entry(event.track_uuid.unwrap()).or_default();
            if event.r#type == Some(Kind::SliceBegin as i32) {
                of.push((time, 0));
            } else if event.r#type == Some(Kind::SliceEnd as i32) {
                of.last_mut().unwrap().1 = time;
            }
        }
        slices
    }

    /// The guest reports the queued times; here, it claims that it queued all submissions at once.
    #[test]
    fn slices_of_a_lane_do_not_overlap_however_much_a_guest_says_it_has_in_flight() {
        const SUBMISSIONS: u64 = 3 * LANES;
        let mut timeline = Timeline::begin(&[], Vec::new()).unwrap();
        let what = What::Queue {
            queue: 1,
            node: 0,
            guest: 1,
            process: 1,
            handle: Name(1),
            context: Name(2),
            device: Name(3),
            progress_fence: 7,
        };
        timeline.add(Record { time: 1, what }).unwrap();
        for value in 1..=SUBMISSIONS {
            let what = What::Signal { queue: 1, fence: 7, value, queued: 2, object: 0 };
            timeline.add(Record { time: 1000 + value, what }).unwrap();
        }
        let slices = slices(&timeline.end().unwrap());
        let lane = queue_track(1) + Part::Submissions as u64;
        let lanes: Vec<_> = slices.range(lane..lane + LANES).map(|(_, slices)| slices).collect();
        assert_eq!(lanes.len() as u64, LANES);
        assert_eq!(lanes.iter().map(|slices| slices.len() as u64).sum::<u64>(), SUBMISSIONS);
        for slices in lanes {
            assert!(slices.iter().all(|(begin, end)| begin <= end), "{slices:?}");
            assert!(slices.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{slices:?}");
        }
    }
}
